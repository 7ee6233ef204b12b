import type { Socket } from "node:net";
import { writeJoined } from "../joined-write.ts";
import { RequestRefused, type UpstreamRequest } from "./transport.ts";

const NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/i;
const NO_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
const NO_PATH = /[^\x21-\xff]/;

/** Headers that the connection itself has, and one that changes what the server sends. */
const OF_CONNECTION: ReadonlySet<string> = new Set([
  "connection",
  "expect",
  "keep-alive",
  "transfer-encoding",
  "upgrade",
]);

/** Methods whose requests have a body. */
const WITH_BODY: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH", "QUERY", "PROPFIND", "PROPPATCH"]);

/** The head of a request as text, without the empty line that ends it. */
export interface RequestHeadText {
  readonly text: string;
  /** The connection may carry another request. A server may ignore the body of a method that has none, and read it as a request. */
  readonly reusable: boolean;
}

/**
 * The head of a request. The bytes are those that undici writes.
 * @returns an error for a request that is not valid HTTP
 */
export function requestHeadText(request: UpstreamRequest): RequestHeadText | RequestRefused {
  const { method, path, headers, body } = request;
  if (!NAME.test(method)) return new RequestRefused("invalid request method");
  if (path.charCodeAt(0) !== 0x2f || NO_PATH.test(path)) return new RequestRefused("invalid request path");
  let length = -1;
  let lines = "";
  for (let i = 2; i < headers.length; i += 2) {
    const name = headers[i]!;
    const value = headers[i + 1]!;
    if (!NAME.test(name)) return new RequestRefused("invalid header key");
    if (NO_VALUE.test(value)) return new RequestRefused(`invalid ${name} header`);
    if (name === "content-length") {
      if (length >= 0 || !/^\d+$/.test(value)) return new RequestRefused("invalid content-length header");
      length = Number(value);
    } else if (name === "host" || OF_CONNECTION.has(name)) return new RequestRefused(`invalid ${name} header`);
    else lines += `${name}: ${value}\r\n`;
  }
  if (headers[0] !== "host" || NO_VALUE.test(headers[1]!)) return new RequestRefused("invalid host header");
  const withBody = WITH_BODY.has(method);
  if (body instanceof Uint8Array) length = body.length;
  else if (body === undefined) length = 0;
  const reusable = method !== "HEAD" && (withBody || length <= 0);
  const start = `${method} ${path} HTTP/1.1\r\nhost: ${headers[1]}\r\nconnection: ${method === "HEAD" ? "close" : "keep-alive"}\r\n`;
  const end = length > 0 || withBody ? `content-length: ${length}\r\n` : "";
  return { text: start + lines + end, reusable };
}

/** Writes a request. @returns false: the socket holds a part of it; `drain` follows */
export function writeRequest(socket: Socket, head: string, body: UpstreamRequest["body"]): boolean {
  if (body === undefined) return socket.write(`${head}\r\n`, "latin1");
  const pieces = body instanceof Uint8Array ? [body] : body;
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  return writeJoined(socket, `${head}\r\n`, pieces, length, "");
}

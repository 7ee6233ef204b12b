import type { IncomingMessage } from "node:http";
import { HeaderList } from "../../base/inference/headers.ts";
import { BadRequest, malformed } from "./bad-request.ts";
import { listedIn, NOT_FORWARDED } from "./forwarded-headers.ts";
import type { ProxyLimits } from "./options.ts";

/** The head of a request that passed all checks. */
export interface HttpRequestHead {
  readonly method: string;
  /** Origin form: path and query. */
  readonly path: string;
  /** The Host header. */
  readonly authority: string;
  /**
   * The headers of the exchange: `:method`, `:path`, `:authority`, `:scheme`, then the client's headers without those of its
   * connection and those that name another target (`NOT_FORWARDED`), in arrival order, then `x-forwarded-for` with `peer` appended and `x-forwarded-proto`.
   */
  readonly headers: HeaderList;
  /** No body follows. */
  readonly end: boolean;
  /** Declared bytes of the body; -1 when it is chunked. */
  readonly contentLength: number;
}

/** Characters that a host may not contain: servers behind the proxy would read them as something else. */
const NOT_A_HOST = /[\s/\\@?#,]/;

/**
 * Checks the head of a request and removes the headers of the client's connection (envoy-data-plane 4.1(2), 4.5). Node's strict
 * parser has already refused violations of the grammar; this function checks the rest.
 * @param peer address of the client
 */
export function readHead(
  request: IncomingMessage,
  peer: string,
  limits: ProxyLimits,
  allowUnderscores: boolean,
): HttpRequestHead | BadRequest {
  const raw = request.rawHeaders;
  const target = request.url ?? "";
  if (target.length > limits.targetBytes) {
    return new BadRequest(414, "uri-too-long", `the request target is longer than ${limits.targetBytes} bytes`);
  }
  if (raw.length / 2 > limits.headerCount) {
    return new BadRequest(431, "headers-too-large", `the request has more than ${limits.headerCount} headers`);
  }
  if (request.httpVersion !== "1.1" && request.httpVersion !== "1.0") return malformed("the version must be HTTP/1.1");

  let authority: string | undefined;
  let contentLength = 0;
  let chunked = false;
  let connection = "";
  let size = 0;
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!;
    const value = raw[i + 1]!;
    size += name.length + value.length;
    if (!allowUnderscores && name.includes("_")) return malformed(`the header name ${name.slice(0, 64)} contains "_"`);
    switch (name.length) {
      case 4:
        if (name.toLowerCase() !== "host") break;
        if (authority !== undefined) return malformed("there is more than one Host header");
        authority = value;
        break;
      case 10:
        if (name.toLowerCase() === "connection") connection += `,${value}`;
        break;
      case 14:
        if (name.toLowerCase() === "content-length") contentLength = Number(value);
        break;
      case 17:
        if (name.toLowerCase() !== "transfer-encoding") break;
        if (chunked || value.toLowerCase() !== "chunked")
          return malformed("the only transfer coding served is chunked");
        chunked = true;
        break;
    }
  }
  if (size > limits.headerBytes) {
    return new BadRequest(431, "headers-too-large", `the request headers are larger than ${limits.headerBytes} bytes`);
  }
  if (!authority || NOT_A_HOST.test(authority)) return malformed("the Host header is missing or invalid");
  if (chunked && request.httpVersion === "1.0") return malformed("HTTP/1.0 has no transfer codings");
  const path = originForm(target, authority);
  if (typeof path !== "string") return path;

  const method = request.method!;
  return {
    method,
    path,
    authority,
    headers: endToEnd(raw, method, path, authority, peer, connection),
    end: !chunked && contentLength === 0,
    contentLength: chunked ? -1 : contentLength,
  };
}

function endToEnd(
  raw: readonly string[],
  method: string,
  path: string,
  authority: string,
  peer: string,
  connection: string,
): HeaderList {
  const headers = new HeaderList();
  headers.add(":method", method);
  headers.add(":path", path);
  headers.add(":authority", authority);
  headers.add(":scheme", "http");
  const listed = listedIn(connection);
  let forwardedFor = "";
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase();
    const value = raw[i + 1]!;
    if (listed?.has(name)) continue;
    if (NOT_FORWARDED.has(name) && !(name === "te" && value.toLowerCase() === "trailers")) continue;
    if (name === "host" || name === "expect" || name === "x-forwarded-proto") continue;
    if (name === "x-forwarded-for") forwardedFor += `${value}, `;
    else headers.add(name, value);
  }
  headers.add("x-forwarded-for", forwardedFor + peer);
  headers.add("x-forwarded-proto", "http");
  return headers;
}

/** Encoded separators and dot segments: two readers may disagree about which path they name. */
const AMBIGUOUS = /%2f|%5c|%00|\\|\/(?:\.|%2e){1,2}(?:[/;]|$)/i;
/** The legal characters of a request target (RFC 3986, with a few characters that clients send unencoded). */
const TARGET = /^\/[!-"$-~]*$/;

/**
 * Path and query of a request target (envoy-data-plane 4.5). The origin form stays unchanged; the absolute form for the own
 * authority loses its beginning. Refused: other authorities, the asterisk form, fragments, dot segments, encoded separators.
 */
export function originForm(target: string, authority: string): string | BadRequest {
  let path = target;
  if (target.charCodeAt(0) !== 0x2f) {
    const absolute = /^http:\/\/([^/?#]*)(.*)$/i.exec(target);
    if (absolute === null) return malformed("the request target must be a path");
    if (absolute[1]!.toLowerCase() !== authority.toLowerCase()) {
      return malformed("the request target names another authority than the Host header");
    }
    path = absolute[2]!.startsWith("/") ? absolute[2]! : `/${absolute[2]}`;
  }
  if (!TARGET.test(path)) return malformed("the request target holds a character that no path or query may hold");
  const query = path.indexOf("?");
  if (AMBIGUOUS.test(query < 0 ? path : path.slice(0, query))) {
    return malformed("the path holds a dot segment, a backslash or an encoded separator; send it normalised");
  }
  return path;
}

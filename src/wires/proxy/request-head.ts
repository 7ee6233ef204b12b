import { HeaderList } from "../../base/inference/headers.ts";
import { BadRequest, malformed, UPGRADE_REFUSED } from "./bad-request.ts";
import { listedIn, NOT_FORWARDED } from "./forwarded-headers.ts";
import type { ProxyLimits } from "./options.ts";
import { pathOf } from "./path-pattern.ts";

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

/** The version of a request over HTTP/2. No request line of HTTP/1 can claim it, since a version there has a dot. */
export const HTTP2 = "2";

/** The head of a request as a client sent it, in any version of HTTP. */
export interface RequestLines {
  readonly method: string;
  readonly target: string;
  /** Of HTTP/1 as the request line has it, or `HTTP2`. */
  readonly version: string;
  /** `:authority` of HTTP/2. Absent = the Host header alone names the host. */
  readonly authority?: string | undefined;
  /** Name, value, name, value; without pseudo headers. */
  readonly raw: readonly string[];
  /** The connection is encrypted. */
  readonly secure: boolean;
  /** HTTP/2: the head ended the request. */
  readonly ended: boolean;
}

/** Characters that a host may not contain: servers behind the proxy would read them as something else. */
const NOT_A_HOST = /[\s/\\@?#,]/;

/**
 * Checks the head of a request and removes the headers of the client's connection (envoy-data-plane 4.1(2), 4.5). The strict
 * parser has already refused violations of the grammar; this function checks the rest.
 * @param peer address of the client
 * @param allowUnderscores whether names of headers may have an underscore
 * @returns the head to forward, or the refusal with its status: 400, 414, 431 or 501
 */
export function readHead(
  lines: RequestLines,
  peer: string,
  limits: ProxyLimits,
  allowUnderscores: boolean,
): HttpRequestHead | BadRequest {
  const { method, target, version, raw, secure } = lines;
  const http2 = version === HTTP2;
  if (target.length > limits.targetBytes) {
    return new BadRequest(414, "uri-too-long", `the request target is longer than ${limits.targetBytes} bytes`);
  }
  if (raw.length / 2 > limits.headerCount) {
    return new BadRequest(431, "headers-too-large", `the request has more than ${limits.headerCount} headers`);
  }
  if (method === "CONNECT") return UPGRADE_REFUSED;
  if (!http2 && version !== "1.1" && version !== "1.0")
    return malformed("the gateway does not support this version of HTTP; send HTTP/1.1");

  let { authority } = lines;
  let contentLength = 0;
  let measured = false;
  let chunked = false;
  let connection = "";
  let size = 0;
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!;
    const value = raw[i + 1]!;
    size += name.length + value.length;
    if (!allowUnderscores && name.includes("_"))
      return malformed(`the header name ${name.slice(0, 64)} contains "_"; write "-" or remove the header`);
    switch (name.length) {
      case 4:
        if (name.toLowerCase() !== "host") break;
        if (authority !== undefined && (!http2 || authority.toLowerCase() !== value.toLowerCase())) {
          return malformed(
            http2 ? "the Host header differs from :authority" : "the request has more than one Host header",
          );
        }
        authority = value;
        break;
      case 10:
        if (name.toLowerCase() !== "connection") break;
        if (http2) return malformed("the request has a Connection header, which HTTP/2 forbids; remove it");
        connection += `,${value}`;
        break;
      case 14:
        if (name.toLowerCase() !== "content-length") break;
        contentLength = Number(value);
        measured = true;
        break;
      case 17:
        if (name.toLowerCase() !== "transfer-encoding") break;
        if (http2 || chunked || value.toLowerCase() !== "chunked")
          return malformed(
            http2
              ? "HTTP/2 forbids the Transfer-Encoding header; remove it"
              : "Transfer-Encoding must be `chunked`, once; the gateway supports no other",
          );
        chunked = true;
        break;
    }
  }
  if (size > limits.headerBytes) {
    return new BadRequest(431, "headers-too-large", `the request headers are larger than ${limits.headerBytes} bytes`);
  }
  if (!authority || NOT_A_HOST.test(authority)) return malformed("the Host header is missing or invalid");
  if (chunked && version === "1.0")
    return malformed("HTTP/1.0 has no Transfer-Encoding; send Content-Length, or HTTP/1.1");
  const path = originForm(target, authority, secure ? "https" : "http");
  if (typeof path !== "string") return path;

  const open = http2 ? !lines.ended : chunked;
  return {
    method,
    path,
    authority,
    headers: endToEnd(lines, path, authority, peer, connection),
    end: !open && (http2 || contentLength === 0),
    contentLength: open && !measured ? -1 : contentLength,
  };
}

function endToEnd(
  { raw, method, version, secure }: RequestLines,
  path: string,
  authority: string,
  peer: string,
  connection: string,
): HeaderList {
  const headers = new HeaderList();
  headers.add(":method", method);
  headers.add(":path", path);
  headers.add(":authority", authority);
  const scheme = secure ? "https" : "http";
  headers.add(":scheme", scheme);
  const listed = listedIn(connection);
  let forwardedFor = "";
  let cookie = "";
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase();
    const value = raw[i + 1]!;
    if (listed?.has(name)) continue;
    if (NOT_FORWARDED.has(name) && !(name === "te" && value.toLowerCase() === "trailers")) continue;
    if (name === "host" || name === "expect" || name === "x-forwarded-proto") continue;
    if (name === "x-forwarded-for") forwardedFor += `${value}, `;
    // HTTP/2 may send the cookies one by one; HTTP/1.1 has one line for all (RFC 9113 8.2.3).
    else if (name === "cookie" && version === HTTP2) cookie += cookie === "" ? value : `; ${value}`;
    else headers.append(name, value);
  }
  if (cookie !== "") headers.add("cookie", cookie);
  headers.add("x-forwarded-for", forwardedFor + peer);
  headers.add("x-forwarded-proto", scheme);
  return headers;
}

/** Encoded separators and dot segments: two readers may disagree about which path they name. */
const AMBIGUOUS = /%2f|%5c|%00|\\|\/(?:\.|%2e){1,2}(?:[/;]|$)/i;
/** The legal characters of a request target (RFC 3986, with a few characters that clients send unencoded). */
const TARGET = /^\/[!-"$-~]*$/;

const ABSOLUTE = /^(https?):\/\/([^/?#]*)(.*)$/i;

/**
 * Path and query of a request target (envoy-data-plane 4.5). The origin form stays unchanged; the absolute form for the own
 * authority loses its beginning. Refused: other authorities, the asterisk form, fragments, dot segments, encoded separators.
 * @param scheme of the absolute form
 */
export function originForm(target: string, authority: string, scheme: "http" | "https" = "http"): string | BadRequest {
  let path = target;
  if (target.charCodeAt(0) !== 0x2f) {
    const absolute = ABSOLUTE.exec(target);
    if (absolute === null || absolute[1]!.toLowerCase() !== scheme)
      return malformed("the request target must be a path");
    if (absolute[2]!.toLowerCase() !== authority.toLowerCase()) {
      return malformed("the host in the request target differs from the Host header");
    }
    path = absolute[3]!.startsWith("/") ? absolute[3]! : `/${absolute[3]}`;
  }
  if (!TARGET.test(path))
    return malformed("the request target holds a character that a URL may not hold; percent-encode the character");
  if (AMBIGUOUS.test(pathOf(path))) {
    return malformed("the path holds a dot segment, a backslash or an encoded separator; send the resolved path");
  }
  return path;
}

import { type BadRequest, malformed } from "./bad-request.ts";

/** Encoded separators and dot segments: two readers may disagree about which path they name. */
const AMBIGUOUS = /%2f|%5c|%00|\\|\/(?:\.|%2e){1,2}(?:[/;]|$)/i;
/** What a request target may consist of (RFC 3986, with a few characters that clients send unencoded). */
const TARGET = /^\/[!-"$-~]*$/;

/**
 * Path and query of a request target (data-plane 4.5): the origin form as it is, the absolute form for our own authority
 * without its beginning. Refused: other authorities, the asterisk form, fragments, dot segments, encoded separators.
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

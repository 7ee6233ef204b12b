import { messageOf } from "../../../base/inference/errors.ts";

const EXAMPLE = "a base URL looks like http://gateway:80";

/** What is wrong with a gateway's base URL; undefined = nothing. Credentials go out as `Authorization: Basic`. */
export function checkBaseUrl(text: string): string | undefined {
  try {
    const { protocol, username, password } = new URL(text);
    decodeURIComponent(username + password);
    if (protocol === "http:" || protocol === "https:") return undefined;
    return `its scheme is ${protocol.slice(0, -1)}, not http or https; ${EXAMPLE}`;
  } catch (error) {
    return `${messageOf(error)}; ${EXAMPLE}`;
  }
}

/**
 * Joins a base URL and a path (async-processor 7.1): slashes are collapsed, dot segments are resolved, also those written
 * with `%2e`, and what is no path character is escaped, `?` and `#` among them, so that a path can choose neither host nor
 * query. The base keeps its own path and query.
 * @param base legal for `checkBaseUrl`
 */
export function joinUrl(base: URL, path: string): URL {
  return new URL(base.origin + resolved(`${base.pathname}/${path}`, path.endsWith("/")) + base.search);
}

/**
 * Whether a joined URL lies below one of `prefixes`, which count from the base's own path and are compared by whole
 * segments: `/v1/chat` allows `/v1/chat` and `/v1/chat/completions`, not `/v1/chatter`. A path with an escaped slash or
 * backslash lies nowhere, since the gateway may take it for a real one. Source: async-processor H-46.
 */
export function isAllowed(url: URL, base: URL, prefixes: readonly string[]): boolean {
  if (/%2f|%5c/i.test(url.pathname)) return false;
  const root = withSlash(resolved(base.pathname, false));
  const path = withSlash(url.pathname);
  return prefixes.some((prefix) => path.startsWith(withSlash(resolved(`${root}/${prefix}`, false))));
}

function withSlash(path: string): string {
  return path.endsWith("/") ? path : `${path}/`;
}

/** Anything but RFC 3986's path characters and what is escaped already. */
const TO_ESCAPE = /[^\w\-.~!$&'()*+,;=:@%]|%(?![0-9a-f]{2})/giu;

/** All but `%2e`, which `URL` resolves. */
function resolved(path: string, trailingSlash: boolean): string {
  const segments: string[] = [];
  for (const segment of path.toWellFormed().split("/")) {
    if (segment === "..") segments.pop();
    else if (segment !== "" && segment !== ".") segments.push(segment.replace(TO_ESCAPE, encodeURIComponent));
  }
  return `/${segments.join("/")}${trailingSlash && segments.length > 0 ? "/" : ""}`;
}

import { HOP_BY_HOP_HEADERS } from "../../base/inference/headers.ts";

/**
 * Headers in which some servers read another path or method than that of the request line. The gateway has judged the request
 * line, so it forwards none of them.
 */
const OTHER_TARGETS: readonly string[] = [
  "x-original-url",
  "x-original-uri",
  "x-original-path",
  "x-original-method",
  "x-rewrite-url",
  "x-forwarded-uri",
  "x-forwarded-path",
  "x-forwarded-prefix",
  "x-forwarded-method",
  "x-envoy-original-path",
  "x-http-method",
  "x-http-method-override",
  "x-method-override",
];

/** Headers of a client's request that the exchange and the model server do not get, except `te: trailers`. */
export const NOT_FORWARDED: ReadonlySet<string> = new Set([...HOP_BY_HOP_HEADERS, ...OTHER_TARGETS]);

/** Options of `Connection` that concern the connection itself and name no header. */
const NOT_HEADERS: ReadonlySet<string> = new Set(["", "close", "keep-alive"]);

/**
 * The headers that `Connection` lists as its own (RFC 9110 7.6.1), lower case; undefined when there are none, which is the
 * usual case.
 * @param value all values of `Connection`, joined with commas
 */
export function listedIn(value: string): ReadonlySet<string> | undefined {
  if (value === "") return undefined;
  let listed: Set<string> | undefined;
  for (const part of value.split(",")) {
    const token = part.trim().toLowerCase();
    if (NOT_HEADERS.has(token)) continue;
    listed ??= new Set();
    listed.add(token);
  }
  return listed;
}

/**
 * Whether a plugin may set a header. Forbidden are headers that frame the message, name the host or belong to the connection,
 * and `x-envoy-...`. So a plugin does the same behind Envoy and here (envoy-data-plane 1.7, D-50).
 * @param name lower case
 */
export function isSettable(name: string): boolean {
  return (
    name.charCodeAt(0) !== 0x3a &&
    name !== "host" &&
    name !== "content-length" &&
    !name.startsWith("x-envoy-") &&
    !HOP_BY_HOP_HEADERS.has(name)
  );
}

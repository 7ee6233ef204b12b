import { HOP_BY_HOP_HEADERS } from "../../base/inference/headers.ts";

/**
 * Whether a plugin may set a header: not those that frame the message, name the host or belong to the connection, nor
 * `x-envoy-...`, so that a plugin does the same behind Envoy and here (data-plane 1.7, D-50).
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

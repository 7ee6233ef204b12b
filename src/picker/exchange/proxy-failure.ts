import type { ResponseObserver } from "./response-observer.ts";

/** How Envoy's own answer to a failed upstream connection begins (data-plane D-85). */
const BEGINNINGS = ["upstream connect error", "no healthy upstream"];

/**
 * Whether a response comes from the proxy, which could not reach the endpoint and answered in its place.
 * @param chunk the first bytes of its body
 */
export function isProxyFailure(response: ResponseObserver, chunk: Uint8Array): boolean {
  if (response.status !== 503 || !response.contentType.startsWith("text/plain")) return false;
  const text = Buffer.from(chunk.buffer, chunk.byteOffset, Math.min(chunk.length, 64)).toString("latin1");
  return BEGINNINGS.some((start) => text.startsWith(start));
}

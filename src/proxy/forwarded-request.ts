import type { Dispatcher } from "undici";
import type { Routed } from "../exchange/wire.ts";
import { CONTROL_HEADERS, HEADER } from "../inference/headers.ts";
import type { RequestHead } from "./request-head.ts";
import { flat } from "./response-head.ts";

/**
 * The request as every endpoint of the list gets it: the head the exchange saw without pseudo and control headers
 * (data-plane D-26), one `x-request-id`, the headers that plugins set, the length of the routed body.
 */
export function forwardedRequest(head: RequestHead, routed: Routed, requestId: string): Dispatcher.DispatchOptions {
  const headers: string[] = ["host", head.authority];
  const { keys, values } = head.headers;
  const set = routed.headers;
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i]!;
    if (key.charCodeAt(0) === 0x3a || key === "content-length" || key === HEADER.requestId) continue;
    if (CONTROL_HEADERS.has(key) || set?.get(key) !== undefined) continue;
    headers.push(key, values[i]!);
  }
  headers.push(HEADER.requestId, requestId);
  if (set !== undefined) headers.push(...flat(set));
  const { body, bodyLength } = routed;
  const options: Dispatcher.DispatchOptions = { path: head.path, method: head.method, headers };
  // One piece is written as it is. Several go piece by piece, by reference; then undici needs to be told their length.
  if (body.length === 1) options.body = body[0]!;
  else if (body.length > 1) {
    headers.push("content-length", String(bodyLength));
    options.body = body as unknown as Uint8Array;
  }
  return options;
}

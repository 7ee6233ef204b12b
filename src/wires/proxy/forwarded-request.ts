import type { Dispatcher } from "undici";
import { SluiceError } from "../../base/inference/errors.ts";
import { CONTROL_HEADERS, HEADER } from "../../base/inference/headers.ts";
import type { Routed } from "../../picker/exchange/wire.ts";
import { BadRequest } from "./bad-request.ts";
import { isSettable } from "./forwarded-headers.ts";
import type { ProxyLimits } from "./options.ts";
import { type HttpRequestHead, originForm } from "./request-head.ts";

/** Headers that the proxy adds to those of the client: they are in nobody's limit. */
const OWN_HEADERS = 3;

/**
 * The request as every endpoint of the list gets it: the head the exchange saw without pseudo and control headers
 * (D-26) and those that plugins leave out, one `x-request-id`, the headers that plugins set, the length of the
 * routed body.
 *
 * Plugins may set another `:path`; what they may not set or leave out is as it was (D-50).
 * @throws SluiceError PLUGIN_HEADERS when they set a path that is none, or more than the limits allow a client
 */
export function forwardedRequest(
  head: HttpRequestHead,
  routed: Routed,
  requestId: string,
  limits: ProxyLimits,
): Dispatcher.DispatchOptions {
  const headers: string[] = ["host", head.authority];
  const { keys, values } = head.headers;
  const { headers: set, removed, trace } = routed;
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i]!;
    if (key.charCodeAt(0) === 0x3a || key === "content-length" || key === HEADER.requestId) continue;
    if (CONTROL_HEADERS.has(key) || (isSettable(key) && (set?.get(key) !== undefined || removed?.includes(key))))
      continue;
    if (trace?.get(key) !== undefined) continue;
    headers.push(key, values[i]!);
  }
  headers.push(HEADER.requestId, set?.get(HEADER.requestId) ?? requestId);
  let { path } = head;
  if (set !== undefined) {
    for (let i = 0; i < set.length; i++) {
      const key = set.keys[i]!;
      if (isSettable(key) && key !== HEADER.requestId && trace?.get(key) === undefined)
        headers.push(key, set.values[i]!);
    }
    path = changedPath(set.get(":path"), head, limits);
    checkSize(headers, limits);
  }
  // Neither the client's doing nor a plugin's: in nobody's limit.
  if (trace !== undefined) for (let i = 0; i < trace.length; i++) headers.push(trace.keys[i]!, trace.values[i]!);
  const { body, bodyLength } = routed;
  const options: Dispatcher.DispatchOptions = { path, method: head.method, headers };
  // One piece is written as it is. Several go piece by piece, by reference; then undici needs to be told their length.
  if (body.length === 1) options.body = body[0]!;
  else if (body.length > 1) {
    headers.push("content-length", String(bodyLength));
    options.body = body as unknown as Uint8Array;
  }
  return options;
}

/** Bytes of a body from which on it is worth the trouble to let it go before its answer comes. */
const LONG_BODY = 64 * 1024;

/**
 * The same request for an attempt that no other can follow: its body is let go of piece by piece, as it is written, while
 * undici keeps the body of any other request until its answer has ended.
 * @returns undefined for a short body, for which that is not worth it
 */
export function sentOnce(request: Dispatcher.DispatchOptions): Dispatcher.DispatchOptions | undefined {
  const pieces = (Array.isArray(request.body) ? [...request.body] : [request.body]) as (Uint8Array | undefined)[];
  const length = pieces.reduce((sum, piece) => sum + (piece?.byteLength ?? 0), 0);
  if (length < LONG_BODY) return undefined;
  const headers = [...(request.headers as string[])];
  // Several pieces have their length there already.
  if (pieces.length === 1) headers.push("content-length", String(length));
  return { ...request, headers, body: handedOver(pieces as Uint8Array[]) as unknown as Uint8Array };
}

function* handedOver(pieces: Uint8Array[]): Generator<Uint8Array> {
  for (let piece = pieces.shift(); piece !== undefined; piece = pieces.shift()) yield piece;
}

function changedPath(path: string | undefined, head: HttpRequestHead, limits: ProxyLimits): string {
  if (path === undefined) return head.path;
  const form = originForm(path, head.authority);
  if (form instanceof BadRequest) throw new SluiceError("PLUGIN_HEADERS", `a plugin set a bad :path: ${form.message}`);
  if (form.length > limits.targetBytes)
    throw new SluiceError("PLUGIN_HEADERS", `a plugin set a :path of more than ${limits.targetBytes} bytes`);
  return form;
}

function checkSize(headers: readonly string[], { headerCount, headerBytes }: ProxyLimits): void {
  let size = 0;
  for (const text of headers) size += text.length;
  if (headers.length / 2 <= headerCount + OWN_HEADERS && size <= headerBytes) return;
  const most = `${headerCount} headers and ${headerBytes} bytes`;
  throw new SluiceError("PLUGIN_HEADERS", `with the headers that plugins set, the request has more than ${most}`);
}

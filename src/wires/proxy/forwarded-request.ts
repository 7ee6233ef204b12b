import { SluiceError } from "../../base/inference/errors.ts";
import { CONTROL_HEADERS, HEADER } from "../../base/inference/headers.ts";
import type { Routed } from "../../picker/exchange/wire.ts";
import { BadRequest } from "./bad-request.ts";
import { isSettable } from "./forwarded-headers.ts";
import type { ProxyLimits } from "./options.ts";
import type { PathTable } from "./path-table.ts";
import { type HttpRequestHead, originForm } from "./request-head.ts";
import type { ProxyServices } from "./services.ts";
import type { RequestBody, UpstreamRequest } from "./upstream/transport.ts";

/** Headers that the proxy adds to those of the client; they do not count toward the limits. */
const OWN_HEADERS = 3;

/**
 * The request that every endpoint of the list gets. Its headers: those of the exchange without pseudo headers, control headers
 * (D-26) and headers that plugins remove; one `x-request-id`; the headers that plugins set; the length of the routed body.
 *
 * Plugins may set another `:path`. A header that plugins may not set or remove stays unchanged (D-50).
 * @throws SluiceError PLUGIN_HEADERS when plugins set an illegal path or one that clients may not use, or exceed the limits for
 *   clients
 */
export function forwardedRequest(
  head: HttpRequestHead,
  routed: Routed,
  requestId: string,
  { limits, paths }: Pick<ProxyServices, "limits" | "paths">,
): UpstreamRequest {
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
    path = changedPath(set.get(":path"), head, limits, paths);
    checkSize(headers, limits);
  }
  // Neither the client nor a plugin sets these headers, so they do not count toward the limits.
  if (trace !== undefined) for (let i = 0; i < trace.length; i++) headers.push(trace.keys[i]!, trace.values[i]!);
  const { body, bodyLength } = routed;
  let sent: RequestBody | undefined = body[0];
  // Several pieces are passed by reference, and need their length as a header.
  if (body.length > 1) {
    headers.push("content-length", String(bodyLength));
    sent = body;
  }
  return { path, method: head.method, headers, body: sent };
}

/** From this size in bytes, it pays to release a body before its answer begins. */
const LONG_BODY = 64 * 1024;

/** Whether it pays to release the body before its answer begins, when no retry can follow. */
export function isLong({ body }: UpstreamRequest): boolean {
  let length = 0;
  if (body instanceof Uint8Array) length = body.length;
  else for (const piece of body ?? []) length += piece.length;
  return length >= LONG_BODY;
}

function changedPath(path: string | undefined, head: HttpRequestHead, limits: ProxyLimits, paths: PathTable): string {
  if (path === undefined) return head.path;
  const form = originForm(path, head.authority);
  if (form instanceof BadRequest) throw new SluiceError("PLUGIN_HEADERS", `a plugin set a bad :path: ${form.message}`);
  if (form.length > limits.targetBytes)
    throw new SluiceError("PLUGIN_HEADERS", `a plugin set a :path of more than ${limits.targetBytes} bytes`);
  const refusal = paths.judge(head.method, form);
  if (refusal === undefined) return form;
  const why = refusal instanceof BadRequest ? refusal.message : refusal.detail;
  throw new SluiceError("PLUGIN_HEADERS", `a plugin set a :path that clients may not use: ${why}`);
}

function checkSize(headers: readonly string[], { headerCount, headerBytes }: ProxyLimits): void {
  let size = 0;
  for (const text of headers) size += text.length;
  if (headers.length / 2 <= headerCount + OWN_HEADERS && size <= headerBytes) return;
  const most = `${headerCount} headers and ${headerBytes} bytes`;
  throw new SluiceError("PLUGIN_HEADERS", `with the headers that plugins set, the request has more than ${most}`);
}

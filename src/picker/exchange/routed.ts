import type { SchedulingResult } from "../../base/inference/decision-record.ts";
import type { Decided } from "./decide.ts";
import type { ForwardedBody } from "./request-body.ts";
import type { HookAdditions } from "./request-hooks.ts";
import type { Routed } from "./wire.ts";

/** Returns what a wire needs to send a request on. @param added by request hooks */
export function routedOf(
  { request, offered }: Decided,
  { endpoints, record, scores, via }: SchedulingResult,
  { pieces, length }: ForwardedBody,
  { headers, removed, metadata }: HookAdditions,
): Routed {
  // The code names each field, because spreads take several times as long, in every request.
  return {
    kind: "routed",
    // A header tells the sidecar of one endpoint, so no other one may get the request.
    endpoints: via === undefined ? endpoints : endpoints.slice(0, 1),
    offered: via === undefined ? offered : 1,
    via,
    record,
    scores,
    body: pieces,
    bodyLength: length,
    headers,
    removed,
    metadata,
    skipResponse: request.answerFormat === "opaque",
  };
}

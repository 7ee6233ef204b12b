import type { InferenceRequest } from "../../../src/base/inference/request.ts";
import type { ServedTokens } from "../../../src/base/plugin/flow-kinds.ts";
import { requestOf } from "../scheduling/fakes.cases.ts";
import type { PlainSettings } from "./plain-policies.cases.ts";
import type { SlowTokens } from "./slow-band.cases.ts";
import type { SlowWorld } from "./slow-flow-control.cases.ts";

/** A request, and what its waiter does once it is called. */
export interface FlowPlan {
  readonly priority: number;
  readonly flow: string;
  readonly bytes: number;
  /** Counts at an endpoint at once, ends at once, sends one more of its kind, cancels the oldest that waits. */
  readonly dispatched: "nothing" | "decide" | "end" | "enter" | "cancel";
  /** Sends itself once more. */
  readonly evicted: "nothing" | "enter";
  readonly tokens: SlowTokens;
}

/** One step. `which` counts round among those that the step can be taken for. */
export type FlowOp =
  | { readonly kind: "enter"; readonly times: number; readonly plan: FlowPlan }
  | { readonly kind: "cancel" | "decide" | "end"; readonly which: number }
  /** Calls a method on a ticket for which it has no effect. */
  | { readonly kind: "poke"; readonly which: number; readonly method: "cancel" | "decide" | "end" }
  | { readonly kind: "load"; readonly loads: readonly number[] }
  | { readonly kind: "detector"; readonly detector: SlowWorld["detector"] }
  | { readonly kind: "pool"; readonly roles: readonly string[] }
  | { readonly kind: "priorities"; readonly wanted: readonly number[] }
  | { readonly kind: "configure"; readonly settings: PlainSettings }
  | { readonly kind: "advance"; readonly ms: number }
  | { readonly kind: "letGo" }
  | { readonly kind: "close" };

/** The request of a plan. */
export function plannedRequest(id: string, { priority, flow, tokens }: FlowPlan): InferenceRequest {
  const prompts = [[{ start: 0, end: tokens.prompt }]];
  return { ...requestOf(""), id, priority, fairnessId: flow, prompts, bytesPerToken: 1, maxTokens: tokens.most };
}

/** What the answer to the request of a plan reports. */
export function plannedAnswer({ tokens: { prompt, answer } }: FlowPlan): ServedTokens {
  return { promptTokens: Number.isNaN(answer) ? Number.NaN : prompt, completionTokens: answer };
}

/** The most generations of a request that sends itself again. */
const GENERATIONS = 3;

/** Whether the waiter of this request may send it once more. */
export function canRepeat(id: string): boolean {
  return id.length - id.replaceAll("'", "").length < GENERATIONS;
}

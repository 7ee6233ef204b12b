import type { Caller } from "../../../src/base/inference/caller.ts";
import { HeaderList } from "../../../src/base/inference/headers.ts";
import type { InferenceRequest } from "../../../src/base/inference/request.ts";
import type { Grant, OverLimit } from "../../../src/picker/limits/quotas.ts";

export const callerOf = (id: string, name = id): Caller => ({
  ...{ id, name, models: undefined, objective: undefined, priority: undefined, fairnessId: undefined },
  choosesFlow: false,
});

/** A completion whose prompt is estimated at `tokens`. */
export function requestOf(tokens = 1, more: Partial<InferenceRequest> = {}): InferenceRequest {
  const body = Buffer.from(`"${"abcd".repeat(tokens)}"`);
  return {
    ...{ id: "r", headers: new HeaderList(), body, model: "m", modelRange: undefined, modelInsertAt: -1 },
    ...{ answerFormat: "http", streaming: false, cacheSalt: "", prompts: [[{ start: 1, end: body.length - 1 }]] },
    ...{ maxTokens: 1, targetModel: more.model ?? "m", objective: "", priority: 0, shedAt: 1, fairnessId: "" },
    ...more,
  };
}

export function granted(found: Grant | OverLimit | undefined): Grant {
  if (found === undefined || !("settle" in found))
    throw new Error(`no grant: ${found === undefined ? "no rule is for the request" : found.rejection.detail}`);
  return found;
}

export function refusedBy(found: Grant | OverLimit | undefined): OverLimit {
  if (found === undefined || "settle" in found) throw new Error("the request was admitted");
  return found;
}

/** A request that ended with this usage. */
export const used = (promptTokens: number, completionTokens: number) => ({
  ...{ sent: true, promptTokens, completionTokens, measured: true },
});
export const UNKNOWN = { sent: true, promptTokens: Number.NaN, completionTokens: Number.NaN, measured: false };
export const NEVER_SENT = { sent: false, promptTokens: 0, completionTokens: 0, measured: false };

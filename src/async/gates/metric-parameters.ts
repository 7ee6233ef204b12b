import { createHash } from "node:crypto";
import type { z } from "zod";
import type { BudgetUnit } from "../../base/plugin/gate.ts";
import { canonical, choiceParameter, durationParameter, floatParameter, stringParameter } from "./parameters.ts";

/** Parameters that Sluice adds to the reference's, for every gate that reads a metric (async-processor 2.7). */
export const METRIC_PARAMETERS = {
  max_sample_age: durationParameter({ default: "60s", moreThan: 0 }).describe(
    "The gate ignores samples older than this age; must be above `metric_lag`.",
  ),
  metric_lag: durationParameter({ default: "15s" }).describe(
    "Assumed age of the samples at the query or the scrape, if no timestamp of the samples is known.",
  ),
  unit: choiceParameter(["requests", "tokens", "bytes"], { default: "requests" }).describe(
    "Unit of the capacity: `requests`, `tokens` or `bytes`. The tokens of a request are the estimated tokens of the prompt plus the most answer tokens that the request allows. The estimate is 4 bytes per token until answers of the model give a better figure. The bytes of a request are the bytes of its body.",
  ),
  max_sys: floatParameter({ optional: true, moreThan: 0 }).describe(
    "The capacity of the whole system in `unit` (max_SYS). Without this parameter, the gate takes the capacity from the metrics. If the metrics give only a share, the gate starts with a quarter of the workers of the worker pool, and learns the capacity while work runs.",
  ),
};

export const poolParameter = stringParameter().describe("Name of the InferencePool.");
export const namespaceParameter = stringParameter({ optional: true }).describe(
  "The gate reads only metrics of this namespace.",
);
export const fallbackParameter = floatParameter({ default: 0 }).describe(
  "While the metric is unreadable, the gate assumes a budget of `baseline` plus this value, from 0 to 1; 0 = closed.",
);
/** @param share the reserved baseline unless given */
export const baselineParameter = (share: number) =>
  floatParameter({ default: share, min: 0, lessThan: 1 }).describe(
    "The reserved baseline B, from 0 to below 1: the gate is closed while the budget is at or below the baseline.",
  );

export interface MetricSettings {
  /** Milliseconds. */
  readonly max_sample_age: number;
  readonly metric_lag: number;
  readonly unit: BudgetUnit;
  readonly max_sys: number | undefined;
  /** As the operator wrote it. */
  readonly fallback: number;
}

/** Refuses ages that would keep the gate closed for ever. */
export function plausibleAges(
  { max_sample_age: age, metric_lag: lag }: MetricSettings,
  context: z.core.$RefinementCtx,
): void {
  if (age > lag) return;
  const message = `must be more than metric_lag (${lag} ms), otherwise every sample is too old`;
  context.addIssue({ code: "custom", path: ["max_sample_age"], message });
}

/** Refuses a unit without a known total: the workers of a pool are counted in requests. */
export function knownCapacity(settings: MetricSettings, known: boolean, context: z.core.$RefinementCtx, how: string) {
  if (settings.unit === "requests" || settings.max_sys !== undefined || known) return;
  context.addIssue({ code: "custom", path: ["unit"], message: `\`${settings.unit}\` needs ${how}` });
}

/**
 * The same text for gates of the same type and parameters, in any order and spelling. It is a digest, because parameters may
 * hold passwords and the text appears in logs.
 * @param parameters as their schema returned them
 */
export function capacityKey(type: string, parameters: unknown): string {
  return `${type}:${createHash("sha256").update(canonical(parameters)).digest("hex").slice(0, 16)}`;
}

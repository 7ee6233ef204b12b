import { Dialects } from "../endpoints/dialects/dialects.ts";
import { type EngineMapping, VLLM } from "../endpoints/dialects/engines.ts";
import { parseSpecification } from "../endpoints/dialects/specification.ts";
import { messageOf, SluiceError } from "../inference/errors.ts";
import type { MetricFlag, MetricNames } from "./metrics-flags.ts";

/** Flags that name a metric, and what of vLLM's mapping each replaces (epp-protocol 13.2, 13.3). */
const FIELDS = {
  "total-queued-requests-metric": "queued",
  "total-running-requests-metric": "running",
  "kv-cache-usage-percentage-metric": "kvUsage",
  "lora-info-metric": "lora",
  "cache-info-metric": "cacheInfo",
} as const satisfies Readonly<Record<MetricFlag, keyof EngineMapping>>;

/**
 * The dialects of the process: vLLM's, which is also that of unlabelled endpoints, with the metrics that flags name. A KV
 * metric that is named has no former name to fall back to (S-13).
 * @throws SluiceError FLAG_VALUE for what is no metric specification, FLAG_CONFLICT when none is left
 */
export function dialectsWith(names: MetricNames): Dialects {
  const given = Object.entries(names) as [MetricFlag, string][];
  if (given.length === 0) return new Dialects();
  const vllm: { -readonly [K in keyof EngineMapping]: EngineMapping[K] } = { ...VLLM };
  for (const [flag, text] of given) {
    checked(flag, text);
    vllm[FIELDS[flag]] = text;
    if (FIELDS[flag] === "kvUsage") vllm.kvUsageBefore = "";
  }
  if (Object.values(FIELDS).every((field) => vllm[field]?.trim() === ""))
    throw new SluiceError(
      "FLAG_CONFLICT",
      `--${Object.keys(FIELDS).join(", --")} are all empty; name one metric at least`,
    );
  return new Dialects([vllm]);
}

function checked(flag: MetricFlag, text: string): void {
  try {
    parseSpecification(text);
  } catch (error) {
    throw new SluiceError("FLAG_VALUE", `--${flag}: ${messageOf(error)}`, { cause: error });
  }
}

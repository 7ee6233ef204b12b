import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { Dialects, type EngineChoice } from "../../pool/endpoints/dialects/dialects.ts";
import { ENGINES, type EngineMapping, VLLM } from "../../pool/endpoints/dialects/engines.ts";
import { parseSpecification } from "../../pool/endpoints/dialects/specification.ts";
import type { MetricFlag, MetricNames } from "./metrics-flags.ts";

/** Flags that name a metric, and what of the default engine's mapping each replaces (epp-protocol 13.2, 13.3). */
const FIELDS = {
  "total-queued-requests-metric": "queued",
  "total-running-requests-metric": "running",
  "kv-cache-usage-percentage-metric": "kvUsage",
  "lora-info-metric": "lora",
  "cache-info-metric": "cacheInfo",
} as const satisfies Readonly<Record<MetricFlag, keyof EngineMapping>>;

/**
 * The dialects of the process: the built-in ones, with the metrics that flags name laid over those of the default engine, as
 * the reference's charts mean them: beside `defaultEngine: sglang` they name SGLang's metrics. What no flag names stays as the
 * engine has it. A KV metric that is named has no former name to fall back to (S-13).
 * @param choice how endpoints are told apart
 * @throws SluiceError FLAG_VALUE for what is no metric specification, FLAG_CONFLICT when none is left, ENGINE_UNKNOWN
 */
export function dialectsWith(names: MetricNames, choice: EngineChoice = {}): Dialects {
  const given = Object.entries(names) as [MetricFlag, string][];
  const base = ENGINES.find(({ name }) => name === (choice.defaultEngine ?? VLLM.name));
  // An engine that is not known is refused by the dialects themselves.
  if (given.length === 0 || base === undefined) return new Dialects([], choice);
  const engine: { -readonly [K in keyof EngineMapping]: EngineMapping[K] } = { ...base };
  for (const [flag, text] of given) {
    checked(flag, text);
    engine[FIELDS[flag]] = text;
    if (FIELDS[flag] === "kvUsage") engine.kvUsageBefore = "";
  }
  if (Object.values(FIELDS).every((field) => (engine[field] ?? "").trim() === ""))
    throw new SluiceError(
      "FLAG_CONFLICT",
      `--${Object.keys(FIELDS).join(", --")} leave no metric of ${engine.name} to read; name one metric at least`,
    );
  return new Dialects([engine], choice);
}

function checked(flag: MetricFlag, text: string): void {
  try {
    parseSpecification(text);
  } catch (error) {
    throw new SluiceError("FLAG_VALUE", `--${flag}: ${messageOf(error)}`, { cause: error });
  }
}

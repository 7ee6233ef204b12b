import { didYouMean } from "../../base/document/nearest.ts";
import { parseQuantity } from "../../base/document/quantity.ts";
import { oneLine } from "../../base/inference/errors.ts";

/** The figures that a trigger can ask for, and the names of their metrics in KEDA and in the HPA. */
export const TRIGGER_METRICS = {
  queuedRequests: "sluice-queued-requests",
  queuedBytes: "sluice-queued-bytes",
  queuedTokens: "sluice-queued-tokens",
  predictedWaitSeconds: "sluice-predicted-wait-seconds",
} as const;

export type TriggerMetric = keyof typeof TRIGGER_METRICS;

/** What the metadata of a trigger selects. */
export interface Trigger {
  readonly metric: TriggerMetric;
  /** The figure that justifies one replica; with `metricType: Value`, the figure to keep. Above 0, at most `MOST`. */
  readonly target: number;
  /** Counts requests of this priority and above; undefined = all. */
  readonly priority: number | undefined;
}

/** Keys of the metadata that Sluice reads. */
const OWN_KEYS = ["metric", "target", "priority"] as const;
/** Keys that configure the connection of KEDA. KEDA sends them, too, and their values are its own affair. */
const KEDA_KEYS: ReadonlySet<string> = new Set([
  ...["scalerAddress", "enableTLS", "unsafeSsl", "caCert", "tlsClientCert", "tlsClientKey", "tlsCertFile"],
]);
/** KEDA multiplies targets by 1,000 and has 64 bits. */
const MOST = 1e15;
const MOST_PRIORITY = 2 ** 31;

/**
 * Reads the metadata of a trigger.
 * @returns a sentence that names the fault, when a key is unknown or a value wrong
 */
export function triggerOf(metadata: ReadonlyMap<string, string>): Trigger | string {
  for (const key of metadata.keys())
    if (!KEDA_KEYS.has(key) && !(OWN_KEYS as readonly string[]).includes(key))
      return `unknown key ${quoted(key)} in the metadata of the trigger${suggestion(key, OWN_KEYS)}`;
  const metric = metadata.get("metric") ?? "queuedRequests";
  if (!isMetric(metric)) return `unknown metric ${quoted(metric)}${suggestion(metric, Object.keys(TRIGGER_METRICS))}`;
  const target = targetOf(metadata.get("target"), metric);
  if (typeof target === "string") return target;
  const text = metadata.get("priority");
  if (text === undefined) return { metric, target, priority: undefined };
  const priority = Number(text);
  if (!/^-?\d{1,10}$/.test(text) || Math.abs(priority) > MOST_PRIORITY)
    return `priority is ${quoted(text)}; give a whole number such as 0 or -10`;
  return { metric, target, priority };
}

function isMetric(name: string): name is TriggerMetric {
  return Object.hasOwn(TRIGGER_METRICS, name);
}

/** @returns a sentence for a value that is missing or wrong */
function targetOf(text: string | undefined, metric: TriggerMetric): number | string {
  if (text === undefined) return `target is missing; give the ${metric} for one replica`;
  const wrong = `target is ${quoted(text)}; give a number above 0 such as 10, 2.5 or 64Mi`;
  try {
    const target = parseQuantity(text);
    // Below a thousandth KEDA rounds to 0.
    return target >= 0.001 && target <= MOST ? target : wrong;
  } catch {
    return wrong;
  }
}

/** The nearest name, or all names where none is near. */
function suggestion(word: string, names: readonly string[]): string {
  return didYouMean(word, names) || `; known are ${names.join(", ")}`;
}

/** A text from a client, short enough for an error message. */
export function quoted(text: string): string {
  return JSON.stringify(oneLine(text).slice(0, 100));
}

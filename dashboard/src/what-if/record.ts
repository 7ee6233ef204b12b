import type { DecisionRecord } from "../../../src/base/inference/decision-record.ts";

/** The words that stand for the numbers that JSON does not have. */
const NUMBERS: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  "-Infinity": Number.NEGATIVE_INFINITY,
  "-0": -0,
};
/** Where a text is a text, whatever it says: below these names. */
const TEXTS: ReadonlySet<string> = new Set([
  ...["id", "requestId", "model", "targetModel", "configHash", "profile", "picker", "name", "names", "ids", "failed"],
  ...["hostPort", "state", "reason", "detail", "fairnessId", "objective", "headers", "namespace", "address", "labels"],
  ...["droppedBy", "served"],
]);
/** Lists that were sets. */
const SETS: ReadonlySet<string> = new Set(["loraRunning", "loraWaiting"]);

/**
 * Returns the record in the JSON value that `recordJson` of src/picker/decisions/explain-record.ts wrote. The process that sent it
 * is the page's own, so the shape is not checked: that would take as much code as the rest of the page.
 */
export function recordIn(json: Readonly<Record<string, unknown>>): DecisionRecord {
  const record = {
    refusal: undefined,
    served: undefined,
    queued: undefined,
    cache: undefined,
    full: undefined,
    ...json,
  };
  return revived(record, "") as DecisionRecord;
}

function revived(value: unknown, name: string): unknown {
  if (typeof value === "string") return Object.hasOwn(NUMBERS, value) ? NUMBERS[value] : value;
  if (Array.isArray(value)) return SETS.has(name) ? new Set(value) : value.map((part) => revived(part, name));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [key, TEXTS.has(key) ? part : revived(part, key)]),
  );
}

import { didYouMean } from "../../base/document/nearest.ts";
import type { Violation } from "../../base/document/validate.ts";
import type { ObjectMeta } from "./objects.ts";

/** Begins the annotations that Sluice reads: the definitions of the kinds are those of the reference, so Sluice adds no field. */
const PREFIX = "sluice.dev/";
/** The share of tokens that an InferenceModel or InferenceObjective gives its requests (docs/adr/0024). */
export const FAIRNESS_WEIGHT = `${PREFIX}fairness-weight`;

const LARGEST = 1000;
/** The kinds whose objects can carry a weight. */
const WEIGHED: readonly string[] = ["InferenceModel", "InferenceObjective"];

/** Returns the weight of an object, from 0.001 to 1,000; undefined = it states none, or not in the right form. */
export function fairnessWeight({ annotations }: Pick<ObjectMeta, "annotations">): number | undefined {
  const text = annotations[FAIRNESS_WEIGHT];
  // Three decimals at most: a weight near 0 would make figures of the policy that no number can hold.
  if (text === undefined || !/^\d{1,4}(\.\d{1,3})?$/.test(text)) return undefined;
  const weight = Number(text);
  return weight > 0 && weight <= LARGEST ? weight : undefined;
}

/** Finds what is wrong with the annotations of an object that are meant for Sluice. */
export function annotationWarnings(kind: string, meta: Pick<ObjectMeta, "annotations">): readonly Violation[] {
  const found: Violation[] = [];
  for (const [name, value] of Object.entries(meta.annotations)) {
    if (!name.startsWith(PREFIX)) continue;
    const problem = annotationProblem(kind, meta, name, value);
    if (problem !== undefined) found.push({ path: ["metadata", "annotations", name], problem });
  }
  return found;
}

function annotationProblem(
  kind: string,
  meta: Pick<ObjectMeta, "annotations">,
  name: string,
  value: string,
): string | undefined {
  if (name !== FAIRNESS_WEIGHT) return `is not an annotation of Sluice${didYouMean(name, [FAIRNESS_WEIGHT])}`;
  if (!WEIGHED.includes(kind)) return `has no effect on this kind; only on ${WEIGHED.join(" and ")}`;
  if (fairnessWeight(meta) !== undefined) return undefined;
  return `${JSON.stringify(value.slice(0, 40))} is not a weight, so Sluice uses weight 1; write a number from 0.001 to ${LARGEST} with at most three decimals, such as "2"`;
}

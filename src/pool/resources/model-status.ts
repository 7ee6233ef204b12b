import { CONDITION, type Condition, type Finding, REASON, setCondition } from "./condition.ts";
import type { InferenceModel, ObjectMeta } from "./objects.ts";
import { formatTime } from "./time.ts";

/**
 * The conditions of an InferenceModel once it is known who owns its model name: `Accepted`, and `Ready` which mirrors it
 * (api-resources 2.3, X3). Conditions of other types stay; one of ours that finds no room beside them is left out.
 * @param current the conditions in its status
 * @param winner the object that owns the model name; undefined when this one does
 * @param now wall-clock milliseconds
 * @returns the same list when nothing has to be written
 */
export function modelConditions(
  model: InferenceModel,
  current: readonly Condition[],
  winner: ObjectMeta | undefined,
  now: number,
): readonly Condition[] {
  const verdict = winner === undefined ? inForce(model) : inUse(model, winner);
  let conditions = current;
  for (const type of [CONDITION.accepted, CONDITION.ready]) {
    const finding: Finding = { type, ...verdict, observedGeneration: model.meta.generation };
    conditions = setCondition(conditions, finding, now) ?? conditions;
  }
  return conditions;
}

type Verdict = Pick<Finding, "status" | "reason" | "message">;

function inForce({ modelName, poolRef }: InferenceModel): Verdict {
  const message = `serves the model name ${JSON.stringify(modelName)} of InferencePool ${poolRef.name}`;
  return { status: "True", reason: REASON.accepted, message };
}

function inUse({ modelName, poolRef }: InferenceModel, winner: ObjectMeta): Verdict {
  // 0: the winner comes from a file that doesn't say.
  const created = winner.creationTimestamp > 0 ? `, created ${formatTime(winner.creationTimestamp)}` : "";
  const name = `model name ${JSON.stringify(modelName)} of InferencePool ${poolRef.name}`;
  const message = `the ${name} belongs to InferenceModel ${winner.namespace}/${winner.name}${created}`;
  return { status: "False", reason: REASON.modelNameInUse, message };
}

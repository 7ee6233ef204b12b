import type { InferenceModel, ObjectMeta } from "./objects.ts";
import { codePoints, formatTime } from "./scalars.ts";

/**
 * The conditions of an InferenceModel whose owner of the model name is known: `Accepted`, and `Ready` which mirrors it
 * (api-resources 2.3, X-3). Conditions of other types stay. One of ours is left out when the list has no room for it.
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
    const finding: ConditionUpdate = { type, ...verdict, observedGeneration: model.meta.generation };
    conditions = setCondition(conditions, finding, now) ?? conditions;
  }
  return conditions;
}

type Verdict = Pick<ConditionUpdate, "status" | "reason" | "message">;

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

/** Types of the conditions of an InferenceModel (api-resources 1.11). */
export const CONDITION = {
  accepted: "Accepted",
  /** Legacy type; mirrors `Accepted`. */
  ready: "Ready",
} as const;

/** Reasons of its conditions (api-resources 1.11). */
const REASON = {
  /** Accepted is True: the model is in force. */
  accepted: "Accepted",
  /** Accepted is False: another InferenceModel of the pool owns the model name. */
  modelNameInUse: "ModelNameInUse",
} as const;

/** A condition in a status (api-resources 1.2). */
export interface Condition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly reason: string;
  readonly message: string;
  /** RFC 3339. */
  readonly lastTransitionTime: string;
  /** The `metadata.generation` that the condition describes. */
  readonly observedGeneration?: number | undefined;
}

/** A finding of a controller. The time of its last change follows from a comparison. */
export type ConditionUpdate = Omit<Condition, "lastTransitionTime"> & { readonly observedGeneration: number };

/** Most conditions in one list. */
const MAX_CONDITIONS = 8;
/** Longest message, in code points. */
export const MAX_MESSAGE = 32_768;

/**
 * Puts a finding into a list of conditions. Conditions of other types stay as they are; `lastTransitionTime` moves only when
 * `status` does.
 * @param now wall-clock milliseconds
 * @returns the same list when it already contains the finding, a new one otherwise; undefined when the type is new and the list
 * holds 8 conditions already
 */
export function setCondition(
  conditions: readonly Condition[],
  finding: ConditionUpdate,
  now: number,
): readonly Condition[] | undefined {
  const message = cut(finding.message);
  const at = conditions.findIndex(({ type }) => type === finding.type);
  const before = conditions[at];
  if (before === undefined) {
    if (conditions.length >= MAX_CONDITIONS) return undefined;
    return [...conditions, { ...finding, message, lastTransitionTime: formatTime(now) }];
  }
  const same =
    before.status === finding.status &&
    before.reason === finding.reason &&
    before.message === message &&
    before.observedGeneration === finding.observedGeneration;
  if (same) return conditions;
  const lastTransitionTime = before.status === finding.status ? before.lastTransitionTime : formatTime(now);
  return conditions.with(at, { ...finding, message, lastTransitionTime });
}

/** A message may quote a user's text, and the API refuses a status whose message is too long. */
function cut(message: string): string {
  if (message.length <= MAX_MESSAGE || codePoints(message) <= MAX_MESSAGE) return message;
  return `${message.slice(0, MAX_MESSAGE - 3).toWellFormed()}...`;
}

import { CONDITION, type Condition, REASON } from "./condition.ts";
import { isSentinel, newReason, oldReason, type ParentStatus } from "./pool-parents.ts";

/** `status` of an InferencePool v1. */
export interface StablePoolStatus {
  readonly parents?: readonly ParentStatus[] | undefined;
}

/** `status` of an InferencePool v1alpha2; the key is singular there. */
export interface ExperimentalPoolStatus {
  readonly parent?: readonly ParentStatus[] | undefined;
}

/**
 * A pool's status of v1alpha2 in v1 (api-resources 1.6): without the sentinel, without conditions that only wait, with
 * the reasons of v1. An entry without a name, as old releases admit, can't be kept.
 * @returns an empty status when nothing but sentinels was there
 */
export function stableStatus({ parent = [] }: ExperimentalPoolStatus): StablePoolStatus {
  const parents = parent.filter((entry) => !isSentinel(entry) && entry.parentRef.name !== "").map(stableParent);
  return parents.length === 0 ? {} : { parents };
}

/** A pool's status of v1 in v1alpha2: controllers' names are dropped, no sentinel is made up (api-resources 1.6). */
export function experimentalStatus({ parents = [] }: StablePoolStatus): ExperimentalPoolStatus {
  return parents.length === 0 ? {} : { parent: parents.map(experimentalParent) };
}

function stableParent({ parentRef, conditions }: ParentStatus): ParentStatus {
  const known = conditions?.filter((condition) => !isPending(condition));
  if (known === undefined || known.length === 0) return { parentRef };
  return { parentRef, conditions: known.map((condition) => ({ ...condition, reason: newReason(condition) })) };
}

function experimentalParent({ parentRef, conditions }: ParentStatus): ParentStatus {
  if (conditions === undefined) return { parentRef };
  return { parentRef, conditions: conditions.map((condition) => ({ ...condition, reason: oldReason(condition) })) };
}

function isPending({ type, status, reason }: Condition): boolean {
  return type === CONDITION.accepted && status === "Unknown" && reason === REASON.pending;
}

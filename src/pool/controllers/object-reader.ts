import type { Logger } from "../../base/telemetry/logger.ts";
import type { ResourceType } from "../kubernetes/api-client.ts";
import type { InferencePool, ResourceObject } from "../resources/objects.ts";
import { readServed } from "../resources/read.ts";

/** Objects whose problems are remembered as told; those beyond are told of again. */
const MAX_TOLD = 1000;
const KEPT = "this InferencePool stays in force as it was last readable";

/**
 * Reads the objects of one type as the API server lists and watches them: items of a list do not say of what kind they are.
 * What is wrong with an object is told once per generation of it; a broken one counts as not there. Not so our pool: one that
 * a newer release wrote in words we cannot read stays as it last was, since without it there are no endpoints at all.
 */
export function objectReader(
  { group, version, kind }: ResourceType,
  log: Logger,
): (object: unknown) => ResourceObject | undefined {
  const told = new Set<string>();
  /** As it was last readable: at most one is watched at a time. */
  let pool: InferencePool | undefined;

  function tell(item: unknown, problems: readonly string[]): void {
    const { metadata } = (item ?? {}) as {
      readonly metadata?: { readonly uid?: string; readonly generation?: number };
    };
    const key = `${metadata?.uid} ${metadata?.generation}`;
    if (told.has(key)) return;
    if (told.size >= MAX_TOLD) told.clear();
    told.add(key);
    for (const problem of problems) log.warn({}, problem);
  }

  return (item) => {
    const value: Record<string, unknown> = { ...(item as object), apiVersion: `${group}/${version}`, kind };
    const { object, broken, problems } = readServed(value);
    const { uid, deletionTimestamp } = (value["metadata"] ?? {}) as { uid?: string; deletionTimestamp?: string };
    const kept = broken && deletionTimestamp === undefined && uid === pool?.meta.uid ? pool : undefined;
    if (object?.kind === "InferencePool") pool = object;
    if (problems.length > 0) tell(item, kept === undefined ? problems : [...problems, KEPT]);
    return object ?? kept;
  };
}

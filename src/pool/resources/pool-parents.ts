import { CONDITION, type Condition, type Finding, pendingCondition, REASON, setCondition } from "./condition.ts";
import { GROUP, type InferencePool } from "./objects.ts";

/** What a parent entry is about: a Gateway, or the InferencePoolImport of an exported pool. */
export interface ParentReference {
  /** Default `gateway.networking.k8s.io`. */
  readonly group?: string | undefined;
  /** Default `Gateway`. */
  readonly kind?: string | undefined;
  readonly name: string;
  /** Default: the namespace of the pool. */
  readonly namespace?: string | undefined;
}

/** An entry of `status.parents` (v1) or `status.parent` (v1alpha2) of an InferencePool. */
export interface ParentStatus {
  readonly parentRef: ParentReference;
  readonly conditions?: readonly Condition[] | undefined;
  /** v1 only: which controller writes the entry. */
  readonly controllerName?: string | undefined;
}

/** Who speaks of a pool. */
export interface Parent {
  readonly ref: ParentReference;
  readonly controllerName?: string | undefined;
}

/** Most parents in one status. */
export const MAX_PARENTS = 32;

/** Stands in the status of a v1alpha2 pool while no gateway has taken it (api-resources 1.3). v1 has none. */
export const SENTINEL: ParentStatus = {
  parentRef: { kind: "Status", name: "default" },
  conditions: [pendingCondition(CONDITION.accepted)],
};

export function isSentinel({ parentRef }: ParentStatus): boolean {
  return parentRef.kind === SENTINEL.parentRef.kind && parentRef.name === SENTINEL.parentRef.name;
}

/**
 * Writes what a parent found out about a pool into the list of its parents; entries of others stay as they are. In
 * v1alpha2 the sentinel goes with the first finding on `Accepted`, and reasons get their names of that version.
 * Source: api-resources 1.3, 1.5, R-46.
 * @param findings in the words of v1
 * @param now wall-clock milliseconds
 * @returns the same list when it already says so; undefined when there is no room: 32 parents, or 8 conditions
 */
export function putParent(
  pool: InferencePool,
  parents: readonly ParentStatus[],
  parent: Parent,
  findings: readonly Finding[],
  now: number,
): readonly ParentStatus[] | undefined {
  const experimental = pool.group === GROUP.experimental;
  const accepts = findings.some(({ type }) => type === CONDITION.accepted);
  const others = experimental && accepts && parents.some(isSentinel) ? parents.filter((p) => !isSentinel(p)) : parents;
  const at = others.findIndex((entry) => isEntryOf(entry, parent, pool));
  const before = others[at];
  let conditions = before?.conditions ?? [];
  for (const finding of findings) {
    const next = setCondition(conditions, experimental ? { ...finding, reason: oldReason(finding) } : finding, now);
    if (next === undefined) return undefined;
    conditions = next;
  }
  if (before !== undefined)
    return conditions === before.conditions ? others : others.with(at, { ...before, conditions });
  if (others.length >= MAX_PARENTS) return undefined;
  const { ref, controllerName } = parent;
  const named = experimental || controllerName === undefined ? {} : { controllerName };
  return [...others, { parentRef: ref, conditions, ...named }];
}

/**
 * Takes a parent out of the list of a pool's parents. In v1alpha2 the sentinel comes back when nobody is left.
 * @returns the same list when the parent wasn't in it
 */
export function withdrawParent(
  pool: InferencePool,
  parents: readonly ParentStatus[],
  parent: Parent,
): readonly ParentStatus[] {
  const left = parents.filter((entry) => !isEntryOf(entry, parent, pool));
  if (left.length === parents.length) return parents;
  return left.length === 0 && pool.group === GROUP.experimental ? [SENTINEL] : left;
}

/** The reason in v1alpha2 of a condition in the words of v1 (api-resources 1.6). */
export function oldReason({ type, reason }: Pick<Condition, "type" | "reason">): string {
  return type === CONDITION.accepted && reason === REASON.notSupportedByParent ? REASON.notSupportedByGateway : reason;
}

/** The reason in v1 of a condition in the words of v1alpha2 (api-resources 1.6). */
export function newReason({ type, reason }: Pick<Condition, "type" | "reason">): string {
  return type === CONDITION.accepted && reason === REASON.notSupportedByGateway ? REASON.notSupportedByParent : reason;
}

/** One entry per parent and controller; an entry without a controller's name belongs to whoever writes for the parent. */
function isEntryOf(entry: ParentStatus, parent: Parent, pool: InferencePool): boolean {
  const { controllerName } = entry;
  if (controllerName !== undefined && parent.controllerName !== undefined && controllerName !== parent.controllerName)
    return false;
  const [a, b] = [entry.parentRef, parent.ref];
  return (
    a.name === b.name &&
    (a.kind ?? "Gateway") === (b.kind ?? "Gateway") &&
    (a.group ?? GATEWAY_GROUP) === (b.group ?? GATEWAY_GROUP) &&
    (a.namespace ?? pool.meta.namespace) === (b.namespace ?? pool.meta.namespace)
  );
}

const GATEWAY_GROUP = "gateway.networking.k8s.io";

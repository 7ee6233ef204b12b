import type { InferencePool, ObjectMeta, PoolReference, ResourceObject } from "./objects.ts";

/** `namespace/name`. */
export function objectId({ namespace, name }: ObjectMeta): string {
  return `${namespace}/${name}`;
}

/**
 * Orders objects as conflicts are decided (api-resources 2.2): the older first, then by name, then by uid, so that every
 * replica and every restart decides alike.
 */
export function byAge(a: ObjectMeta, b: ObjectMeta): number {
  return a.creationTimestamp - b.creationTimestamp || compare(a.name, b.name) || compare(a.uid, b.uid);
}

/** By code units: the same everywhere, unlike a locale's order. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** `ours`: refers to the pool; `near`: to its name and namespace, but in another group or as another kind. */
export type Ownership = "ours" | "near" | "other";

/**
 * Whether an object belongs to a pool: same namespace, `poolRef` with the pool's name and group. An InferenceModel must
 * name the kind, too; for the others it does not count. Source: api-resources 2.1.
 */
export function ownership(object: Exclude<ResourceObject, InferencePool>, pool: InferencePool): Ownership {
  const { poolRef, meta } = object;
  if (meta.namespace !== pool.meta.namespace || poolRef.name !== pool.meta.name) return "other";
  const kind = object.kind !== "InferenceModel" || poolRef.kind === "InferencePool";
  return kind && poolRef.group === pool.group ? "ours" : "near";
}

/** A reference as people read it. */
export function describeReference({ kind, name, group }: PoolReference): string {
  return `${kind} ${name} of group ${group === "" ? '""' : group}`;
}

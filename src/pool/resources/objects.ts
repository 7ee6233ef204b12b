/** The metadata of a Kubernetes object, as far as this code depends on it. */
export interface ObjectMeta {
  readonly name: string;
  readonly namespace: string;
  /** "" where a manifest has none. */
  readonly uid: string;
  /** Wall-clock milliseconds; 0 where a manifest has none. Names then decide between such objects. */
  readonly creationTimestamp: number;
  readonly generation: number;
  /** `deletionTimestamp` is set: the object has no effect any more. */
  readonly deleting: boolean;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Groups of the API kinds, newest first (api-resources 0.2). */
export const GROUP = {
  /** InferencePool v1. */
  stable: "inference.networking.k8s.io",
  /** v1alpha2 of everything, v1alpha1 of InferencePoolImport. */
  experimental: "inference.networking.x-k8s.io",
  /** InferenceObjective and InferenceModelRewrite since they moved. */
  llmd: "llm-d.ai",
} as const;

/** A `poolRef`: always in the namespace of the object that holds it. */
export interface PoolReference {
  readonly group: string;
  readonly kind: string;
  readonly name: string;
}

/** How a data plane reaches the Endpoint Picker: `extensionRef` (v1alpha2) or `endpointPickerRef` (v1). */
export interface PickerReference {
  readonly group: string;
  readonly kind: string;
  readonly name: string;
  /** Port of the Service; undefined where v1alpha2 leaves it open (9002 for a Service). */
  readonly port: number | undefined;
  readonly failureMode: "FailOpen" | "FailClose";
}

/** An InferencePool of either group, in the shape of v1 (api-resources 1.3, 1.5, 1.6). */
export interface InferencePool {
  readonly kind: "InferencePool";
  /** `GROUP.stable` or `GROUP.experimental`: which group it was written in. */
  readonly group: string;
  readonly meta: ObjectMeta;
  /** All labels must match. */
  readonly selector: Readonly<Record<string, string>>;
  /** 1 to 8; each pod serves one endpoint per port. */
  readonly targetPorts: readonly number[];
  /** Undefined = not stated: the API server's release does not know the field. */
  readonly appProtocol: "http" | "kubernetes.io/h2c" | undefined;
  readonly picker: PickerReference | undefined;
}

export type Criticality = "Critical" | "Standard" | "Sheddable";

/** A model name that requests are sent on with. */
export interface WeightedTarget {
  readonly name: string;
  /** From 1 to 1,000,000; undefined = not given. */
  readonly weight: number | undefined;
}

/** An InferenceModel v1alpha2 (api-resources 1.4, 2). */
export interface InferenceModel {
  readonly kind: "InferenceModel";
  readonly meta: ObjectMeta;
  readonly modelName: string;
  readonly criticality: Criticality | undefined;
  readonly targets: readonly WeightedTarget[];
  /** The share of tokens of its requests among others of the same priority; absent = none stated, counts as 1. */
  readonly fairnessWeight?: number | undefined;
  readonly poolRef: PoolReference;
}

/** An InferenceObjective of either group (api-resources 1.7). */
export interface InferenceObjective {
  readonly kind: "InferenceObjective";
  readonly meta: ObjectMeta;
  /** Undefined = not given: counts as 0. Below 0 = sheddable. */
  readonly priority: number | undefined;
  /** As for an InferenceModel; absent = the weight of the InferenceModel counts. */
  readonly fairnessWeight?: number | undefined;
  readonly poolRef: PoolReference;
}

/** An InferenceModelRewrite of either group (api-resources 1.8). */
export interface InferenceModelRewrite {
  readonly kind: "InferenceModelRewrite";
  readonly meta: ObjectMeta;
  readonly rules: readonly RewriteRule[];
  readonly poolRef: PoolReference;
}

export interface RewriteRule {
  /** Model names, exactly; empty = every request. */
  readonly matches: readonly string[];
  /** Empty = no rewrite. */
  readonly targets: readonly WeightedTarget[];
}

export type ResourceObject = InferencePool | InferenceModel | InferenceObjective | InferenceModelRewrite;

/** `namespace/name`. */
export function objectId({ namespace, name }: ObjectMeta): string {
  return `${namespace}/${name}`;
}

/**
 * Orders objects for the resolution of conflicts (api-resources 2.2): the older first, then by name, then by uid. So every
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
type Ownership = "ours" | "near" | "other";

/**
 * Whether an object belongs to a pool: same namespace, `poolRef` with the pool's name and group. An InferenceModel must name
 * the kind, too; for the other kinds the kind does not count. Source: api-resources 2.1.
 */
export function ownership(object: Exclude<ResourceObject, InferencePool>, pool: InferencePool): Ownership {
  const { poolRef, meta } = object;
  if (meta.namespace !== pool.meta.namespace || poolRef.name !== pool.meta.name) return "other";
  const kind = object.kind !== "InferenceModel" || poolRef.kind === "InferencePool";
  return kind && poolRef.group === pool.group ? "ours" : "near";
}

/** A reference as text for people. */
export function describeReference({ kind, name, group }: PoolReference): string {
  return `${kind} ${name} of group ${group === "" ? '""' : group}`;
}

/** A kind as the API server files it. */
export interface ResourceType {
  /** "" for the core group. */
  readonly group: string;
  readonly version: string;
  /** Lower case. */
  readonly plural: string;
  readonly kind: string;
}

/** Path of all objects of a kind in a namespace. */
export function collectionPath({ group, version, plural }: ResourceType, namespace: string): string {
  const root = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
  return `${root}/namespaces/${encodeURIComponent(namespace)}/${plural}`;
}

/** Path of one object. @param subresource such as `status` */
export function objectPath(type: ResourceType, namespace: string, name: string, subresource?: string): string {
  const path = `${collectionPath(type, namespace)}/${encodeURIComponent(name)}`;
  return subresource === undefined ? path : `${path}/${subresource}`;
}

/** How messages name a kind: `pods`, `inferencepools.inference.networking.k8s.io`. */
export function typeName({ group, plural }: ResourceType): string {
  return group === "" ? plural : `${plural}.${group}`;
}

/** The core and workload kinds that are read or written besides our own. */
export const POD: ResourceType = { group: "", version: "v1", plural: "pods", kind: "Pod" };
export const EVENT: ResourceType = { group: "", version: "v1", plural: "events", kind: "Event" };
export const LEASE: ResourceType = {
  group: "coordination.k8s.io",
  version: "v1",
  plural: "leases",
  kind: "Lease",
};

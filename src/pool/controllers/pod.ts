import type { PodSnapshot } from "../../base/inference/endpoint.ts";

interface PodObject {
  readonly metadata?: {
    readonly namespace?: string;
    readonly name?: string;
    readonly uid?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly creationTimestamp?: string;
    readonly deletionTimestamp?: string;
  };
  readonly status?: {
    readonly startTime?: string;
    readonly podIP?: string;
    readonly conditions?: readonly { readonly type?: string; readonly status?: string }[];
  };
}

/** What is kept of a pod of the API server; undefined for what has no name (api-resources 3.4). */
export function podSnapshot(object: unknown): PodSnapshot | undefined {
  const { metadata = {}, status = {} } = object as PodObject;
  const { namespace = "", name, uid = "", labels = {}, annotations = {} } = metadata;
  if (name === undefined) return undefined;
  const kept = Object.entries(annotations).filter(([key]) => key.endsWith("/active-ports"));
  return {
    namespace,
    name,
    uid,
    labels,
    annotations: kept.length === 0 ? NO_ANNOTATIONS : Object.fromEntries(kept),
    address: status.podIP ?? "",
    deleting: metadata.deletionTimestamp !== undefined,
    ready: status.conditions?.find(({ type }) => type === "Ready")?.status === "True",
    since: status.startTime ?? metadata.creationTimestamp ?? "",
  };
}

const NO_ANNOTATIONS: Readonly<Record<string, string>> = {};

import type { PodSnapshot, PoolMembership } from "../../base/inference/endpoint.ts";
import type { EndpointSpec } from "../endpoints/pool-endpoint.ts";

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
  readonly spec?: { readonly nodeName?: string };
  readonly status?: {
    readonly startTime?: string;
    readonly podIP?: string;
    readonly hostIP?: string;
    readonly conditions?: readonly { readonly type?: string; readonly status?: string }[];
  };
}

/** The kept fields of a pod of the API server; undefined for an object without a name (api-resources 3.4). */
export function podSnapshot(object: unknown): PodSnapshot | undefined {
  const { metadata = {}, spec = {}, status = {} } = object as PodObject;
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
    ...(spec.nodeName ? { node: spec.nodeName } : {}),
    ...(status.hostIP ? { nodeAddress: status.hostIP } : {}),
    deleting: metadata.deletionTimestamp !== undefined,
    ready: status.conditions?.find(({ type }) => type === "Ready")?.status === "True",
    since: status.startTime ?? metadata.creationTimestamp ?? "",
  };
}

const NO_ANNOTATIONS: Readonly<Record<string, string>> = {};

/** Annotations that name the active ports of a pod; the second counts where the first is absent. */
const ACTIVE_PORTS = ["llm-d.ai/active-ports", "inference.networking.k8s.io/active-ports"] as const;

/**
 * The endpoints that serve a pool: one per active port of each serving pod of its namespace. A pod serves when it is ready, not
 * being deleted, has an address and is selected (api-resources 3.4, 3.5). A pure function of its arguments.
 * @returns in the order of the pods, each one's ports in the order of the pool
 */
export function membersOf(pool: PoolMembership, pods: Iterable<PodSnapshot>): EndpointSpec[] {
  const members: EndpointSpec[] = [];
  for (const pod of pods) {
    if (!belongs(pool, pod)) continue;
    const { namespace, name, address, labels, node, nodeAddress } = pod;
    const active = activePorts(pod, pool.ports);
    pool.ports.forEach((port, rank) => {
      if (active === undefined || active.has(port))
        members.push({ namespace, name: memberName(name, rank), address, port, rank, labels, node, nodeAddress });
    });
  }
  return members;
}

/** Name of the endpoint that a pod serves on the pool's port number `rank`. */
function memberName(pod: string, rank: number): string {
  return `${pod}-rank-${rank}`;
}

function belongs({ namespace, selects }: PoolMembership, pod: PodSnapshot): boolean {
  return pod.ready && !pod.deleting && pod.address !== "" && pod.namespace === namespace && selects(pod.labels);
}

/** @returns undefined = all of them; the empty set where the annotation names none of the pool's ports */
function activePorts({ annotations }: PodSnapshot, ports: readonly number[]): ReadonlySet<number> | undefined {
  const key = ACTIVE_PORTS.find((name) => Object.hasOwn(annotations, name));
  if (key === undefined) return undefined;
  const active = new Set<number>();
  for (const item of annotations[key]!.split(",")) {
    const text = item.trim();
    // A number without further text: `8000x` is a mistake, not port 8000.
    if (/^\d{1,5}$/.test(text) && ports.includes(Number(text))) active.add(Number(text));
  }
  return active;
}

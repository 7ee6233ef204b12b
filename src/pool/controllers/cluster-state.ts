import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { PodSnapshot, PoolMembership } from "../../base/inference/endpoint.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import type { EndpointRegistry } from "../endpoints/registry.ts";
import { type ApiClient, POD } from "../kubernetes/api-client.ts";
import type { ReflectorState } from "../kubernetes/reflected.ts";
import { Reflector } from "../kubernetes/reflector.ts";
import type { InferencePool } from "../resources/objects.ts";
import type { ResourceStore } from "../resources/resource-store.ts";
import { DEPENDANT_KINDS, POOL_TYPES } from "./kinds.ts";
import { podSnapshot } from "./pod.ts";
import { PoolMembers } from "./pool-members.ts";
import { WatchedObjects } from "./watched-objects.ts";

/** Milliseconds between two log lines about pods that share an address. */
const TELL_EVERY = 60_000;

/** The source of the serving pods: a pool, or a label selector where there is no pool (api-resources 3.1). */
export type MembershipSource =
  | { readonly kind: "pool"; readonly name: string; readonly group: string | undefined }
  | { readonly kind: "selector"; readonly membership: PoolMembership };

interface ClusterStateOptions {
  readonly api: ApiClient;
  readonly namespace: string;
  readonly source: MembershipSource;
  readonly endpoints: EndpointRegistry;
  /** The store of API objects; unused with a selector. */
  readonly store: ResourceStore;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
}

/** One followed kind, for metrics and for people. */
export interface FollowedKind {
  /** Plural and group, such as `pods` or `inferencepools.inference.networking.k8s.io`. */
  readonly name: string;
  readonly state: ReflectorState;
}

/**
 * Follows a namespace of a cluster: the pool, its pods, and the objects that refer to the pool (api-resources 3.2, 3.3). The
 * last known state stays in force while the API server is away.
 */
export class ClusterState {
  readonly #options: ClusterStateOptions;
  readonly #members: PoolMembers;
  readonly #pods: Reflector<PodSnapshot>;
  readonly #objects: readonly WatchedObjects[];
  /** The members of `#objects` that are pools. */
  readonly #pools: WatchedObjects[] = [];
  readonly #stops: (() => void)[] = [];
  #membership: PoolMembership | undefined;
  #warnedOfAll = "";
  #seenAll = false;
  #told = "";

  constructor(options: ClusterStateOptions) {
    const { api, namespace, endpoints, source, clock, random, log } = options;
    this.#options = options;
    const shared = new RateLimitedLog(log, clock, { intervalMs: TELL_EVERY, maxKeys: 8 });
    this.#members = new PoolMembers({
      endpoints,
      clock,
      onShared: (address, owner, other) => {
        const [one, two] = [owner, other].map((pod) => `${pod.namespace}/${pod.name}`);
        const text = `the pods ${one} and ${two} have the same address ${address}; Sluice uses ${one}, which started later`;
        shared.log("warn", address, {}, text);
      },
    });
    this.#pods = new Reflector<PodSnapshot>({
      ...{ api, namespace, clock, random, log },
      type: POD,
      project: podSnapshot,
      keyOf: (pod) => pod,
      sink: this.#members,
    });
    this.#objects = source.kind === "pool" ? this.#watched(source) : [];
  }

  /** Begins to follow; returns at once. */
  start(): void {
    const { source, store } = this.#options;
    if (source.kind === "selector") this.#members.usePool(source.membership);
    else {
      this.#stops.push(store.onChange(() => this.#poolChanged()));
      this.#poolChanged();
    }
    this.#pods.start();
    for (const objects of this.#objects) objects.start();
  }

  close(): void {
    for (const stop of this.#stops.splice(0)) stop();
    this.#pods.close();
    this.#members.close();
    for (const objects of this.#objects) objects.close();
  }

  /**
   * Every kind was read once, and a pool is held where one is needed (api-resources 3.3). Clients that came before that would
   * be refused. It says nothing about endpoints.
   */
  get synced(): boolean {
    this.#seenAll ||= this.#pods.state.synced && this.#members.settled && this.#objects.every(({ known }) => known);
    return this.#seenAll && (this.#options.source.kind === "selector" || this.#options.store.synced);
  }

  /** Every kind that is followed, pods first. */
  kinds(): readonly FollowedKind[] {
    return [{ name: POD.plural, state: this.#pods.state }, ...this.#objects.flatMap((objects) => [...objects.list()])];
  }

  #watched({ name, group }: { readonly name: string; readonly group: string | undefined }): WatchedObjects[] {
    const parts = this.#options;
    for (const type of POOL_TYPES)
      if (group === undefined || type.group === group)
        this.#pools.push(
          new WatchedObjects({
            ...parts,
            kind: "InferencePool",
            types: [type],
            fieldSelector: `metadata.name=${name}`,
            onSeen: () => this.#tellPool(),
          }),
        );
    const dependants = DEPENDANT_KINDS.map(
      ({ kind, types }) => new WatchedObjects({ ...parts, kind, types, pool: name }),
    );
    return [...this.#pools, ...dependants];
  }

  #poolChanged(): void {
    const { pool } = this.#options.store;
    const membership = pool === undefined ? undefined : membershipOf(pool);
    this.#tellPool();
    if (sameMembership(this.#membership, membership)) return;
    this.#membership = membership;
    if (pool !== undefined && Object.keys(pool.selector).length === 0) this.#warnOfAll(pool);
    this.#members.usePool(membership);
  }

  /** The log names the cause for a user who finds that the picker is not ready, or restarts again and again because of that. */
  #tellPool(): void {
    const { source, namespace, store, log } = this.#options;
    if (source.kind !== "pool" || !this.#pools.every(({ known }) => known)) return;
    const wanted = `${namespace}/${source.name}${source.group === undefined ? "" : ` of group ${source.group}`}`;
    const { pool } = store;
    const text =
      pool === undefined
        ? `not ready: the InferencePool ${wanted} is not visible, or is being deleted`
        : `this process serves the InferencePool ${namespace}/${source.name} of group ${pool.group}`;
    if (text === this.#told) return;
    this.#told = text;
    log[pool === undefined ? "warn" : "info"]({}, text);
  }

  #warnOfAll({ meta }: InferencePool): void {
    if (this.#warnedOfAll === meta.uid) return;
    this.#warnedOfAll = meta.uid;
    this.#options.log.warn(
      { pool: `${meta.namespace}/${meta.name}` },
      "the pool's selector is empty: every pod of the namespace counts as a model server",
    );
  }
}

interface PoolSelection extends PoolMembership {
  readonly labels: Readonly<Record<string, string>>;
}

/** The fields of a pool that decide which endpoints belong to it (api-resources 3.4). */
function membershipOf({ meta, selector, targetPorts }: InferencePool): PoolSelection {
  const wanted = Object.entries(selector);
  return {
    namespace: meta.namespace,
    labels: selector,
    selects: (labels) => wanted.every(([key, value]) => labels[key] === value),
    ports: targetPorts,
  };
}

/** The order of labels does not matter. That of ports does: it is the rank. */
function sameMembership(a: PoolMembership | undefined, b: PoolMembership | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  const [one, other] = [a as PoolSelection, b as PoolSelection].map(({ namespace, labels, ports }) =>
    JSON.stringify([namespace, Object.entries(labels).sort(), ports]),
  );
  return one === other;
}

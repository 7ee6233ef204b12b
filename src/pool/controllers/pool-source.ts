import type { AppProtocol, OwnHook } from "../../base/plugin/kinds.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import type { MetricsRegistry } from "../../base/telemetry/registry.ts";
import type { EndpointRegistry } from "../endpoints/registry.ts";
import type { AccessReview } from "../kubernetes/access-review.ts";
import { GROUP, type InferencePool } from "../resources/objects.ts";
import type { ModelOptions } from "../resources/resolve.ts";

/** The picker that uses the endpoints, as far as their source knows it. */
export interface FollowingCore {
  readonly endpoints: EndpointRegistry;
  readonly registry: MetricsRegistry;
  readonly metrics: Metrics;
}

/** The source of the endpoints, and of the API objects that say what requests mean. */
export interface PoolSource {
  readonly models: ModelOptions;
  readonly hooks: readonly OwnHook[];
  /** Marks the cluster of the pool, among those that a store of replicas may serve; "" = unknown. */
  readonly cluster: string;
  /** Decides who may see metrics and debug pages; undefined = the flags decide. */
  readonly reviews: AccessReview | undefined;
  /** Begins to follow. When it returns, all that can be known without waiting for others is known. */
  start(core: FollowingCore): Promise<void>;
  /** A definition of the pool is held (epp-protocol 14.1); it says nothing about endpoints. */
  synced(): boolean;
  /** The protocol of the pool's servers; undefined = not stated, or there is no pool at present. */
  appProtocol(): AppProtocol | undefined;
  /** Whether this replica leads; undefined = there is no election. */
  leader(): boolean | undefined;
  /** The process has received the signal to end: another replica may lead. */
  resign(): Promise<void>;
  close(): Promise<void>;
}

/** The protocol that a pool states for its servers; v1alpha2 has no field for it (api-resources 1.6). */
export function protocolOf(pool: InferencePool | undefined): AppProtocol | undefined {
  return pool?.group === GROUP.stable ? pool.appProtocol : undefined;
}

import type { AppProtocol, OwnHook } from "../../base/plugin/kinds.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import type { MetricsRegistry } from "../../base/telemetry/registry.ts";
import type { EndpointRegistry } from "../endpoints/registry.ts";
import type { AccessReview } from "../kubernetes/access-review.ts";
import { GROUP, type InferencePool } from "../resources/objects.ts";
import type { ModelOptions } from "../resources/resolve.ts";

/** The picker that the endpoints are for, as far as their source knows it. */
export interface FollowingCore {
  readonly endpoints: EndpointRegistry;
  readonly registry: MetricsRegistry;
  readonly metrics: Metrics;
}

/** Where the endpoints come from, and the API objects that say what requests mean. */
export interface PoolSource {
  readonly models: ModelOptions;
  readonly hooks: readonly OwnHook[];
  /** Asked who may see metrics and debug pages; undefined = the flags say. */
  readonly reviews: AccessReview | undefined;
  /** Begins to follow; when it returns, what can be known without waiting for others is known. */
  start(core: FollowingCore): Promise<void>;
  /** A definition of the pool is held (epp-protocol 14.1); it says nothing about endpoints. */
  synced(): boolean;
  /** How the servers of the pool speak; undefined = nobody says, or there is no pool at present. */
  appProtocol(): AppProtocol | undefined;
  /** Whether this replica leads; undefined = there is no election. */
  leader(): boolean | undefined;
  /** The process was told to end: another replica may lead. */
  resign(): Promise<void>;
  close(): Promise<void>;
}

/** What a pool says of its servers; one of v1alpha2 has no word for it (api-resources 1.6). */
export function protocolOf(pool: InferencePool | undefined): AppProtocol | undefined {
  return pool?.group === GROUP.stable ? pool.appProtocol : undefined;
}

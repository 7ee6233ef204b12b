import type { Clock } from "../../base/clock/clock.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type {
  FairnessPolicy,
  OrderingPolicy,
  SaturationDetector,
  UsageLimitPolicy,
} from "../../base/plugin/flow-kinds.ts";
import type { DispatchRate } from "./dispatch-rate.ts";
import type { FlowControlEvents } from "./events.ts";
import type { FlowRules } from "./rules.ts";

/** The limits and policies of the requests of one priority (scheduling 4.2, 6.1). */
export interface BandSettings {
  /** Infinity = no limit; the same for the second. */
  readonly maxBytes: number;
  readonly maxRequests: number;
  /** Milliseconds that a request may wait while the pool has endpoints; Infinity = any time. */
  readonly ttl: number;
  readonly ordering: OrderingPolicy;
  readonly fairness: FairnessPolicy;
}

/** The configuration of flow control (scheduling 4.2), with its policies made. */
export interface FlowControlSettings {
  /** Limits over all bands; Infinity = no limit. */
  readonly maxBytes: number;
  readonly maxRequests: number;
  /** Milliseconds that a request may wait while the pool has no endpoint; Infinity = any time. */
  readonly noEndpointTtl: number;
  /** The configured bands, by priority. */
  readonly bands: ReadonlyMap<number, BandSettings>;
  /** For priorities of objectives without a band of their own: from 0 up, and below 0. */
  readonly template: BandSettings;
  readonly negativeTemplate: BandSettings;
  readonly usageLimit: UsageLimitPolicy;
  readonly detector: SaturationDetector;
  /** Whether sheddable requests in flight end when requests of higher priority wait (`enableEviction`); default false. */
  readonly eviction?: boolean;
  /** Those of the release that counts. */
  readonly rules: FlowRules;
}

/** What flow control is made of. */
export interface FlowControlParts {
  readonly clock: Clock;
  /** All endpoints that may serve: the same array until one comes or goes. */
  readonly pool: () => readonly Endpoint[];
  readonly settings: FlowControlSettings;
  readonly events: FlowControlEvents;
  /** Counts the dispatches. Default: one of its own. */
  readonly rate?: DispatchRate;
}

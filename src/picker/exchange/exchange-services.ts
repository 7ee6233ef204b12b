import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { BytesPerToken } from "../../base/inference/bytes-per-token.ts";
import type { Tracing } from "../../base/telemetry/tracing.ts";
import type { EndpointRegistry } from "../../pool/endpoints/registry.ts";
import type { FlowControl } from "../flowcontrol/flow-control.ts";
import type { SpareRoom } from "../flowcontrol/spare-room.ts";
import type { Quotas } from "../limits/quotas.ts";
import type { ByteBudget } from "./byte-budget.ts";
import type { CacheReports } from "./cache-reports.ts";
import type { RequestDecider } from "./decide.ts";
import type { ExchangeMetrics } from "./exchange-metrics.ts";
import type { ExchangeObserver } from "./exchange-observer.ts";
import type { RequestHooks } from "./request-hooks.ts";
import type { RequestLog } from "./request-log.ts";

/** The services that all exchanges of a process share. */
export interface ExchangeServices {
  readonly clock: Clock;
  readonly random: Random;
  readonly endpoints: EndpointRegistry;
  readonly decider: RequestDecider;
  readonly metrics: ExchangeMetrics;
  /** Watches for the page. Absent: nobody does. */
  readonly observer?: ExchangeObserver | undefined;
  readonly hooks: () => RequestHooks;
  /** The queues of the configuration in force; undefined where it has no flow control. */
  readonly flowControl: () => FlowControl | undefined;
  /** Returns the room for background requests. Absent or undefined: there are none. */
  readonly spareRoom?: () => SpareRoom | undefined;
  readonly budget: ByteBudget;
  /** The limits of keys and models. Absent: there are none. */
  readonly quotas?: Quotas | undefined;
  /** Learns the length of tokens from answers. Absent: the process does not learn. */
  readonly bytesPerToken?: BytesPerToken | undefined;
  /** Compares what endpoints had in their caches with what was expected. Absent: nobody does. */
  readonly cacheReports?: CacheReports | undefined;
  /** Undefined: Sluice traces nothing, and the trace headers of a client go on unchanged. */
  readonly tracing?: Tracing | undefined;
  /** Writes a line for each exchange. Absent: there is no such log, and exchanges gather nothing for it. */
  readonly log?: RequestLog | undefined;
  /** Bytes. Sluice refuses a longer request body with 413. */
  readonly maxRequestBytes: number;
  /**
   * Sluice refuses a POST without a body with 400, where a parser reads the bodies of the path. False: any endpoint gets it
   * (epp-protocol 3.2).
   */
  readonly refusesEmptyBodies: boolean;
  /** Answers carry the decision for requests that ask for it (`--decision-header`). */
  readonly decisionHeader: boolean;
  /** Receives a failure of Sluice itself, which the client sees as 500. */
  onError(error: unknown): void;
  /**
   * Called when the proxy reports that an address outside of the pool served the request.
   * @param reported one line, at best `ip:port`
   */
  onStrangerServed(reported: string): void;
}

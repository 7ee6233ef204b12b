import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { BytesPerToken } from "../../base/inference/bytes-per-token.ts";
import type { Tracing } from "../../base/telemetry/tracing.ts";
import type { EndpointRegistry } from "../../pool/endpoints/registry.ts";
import type { ByteBudget } from "./byte-budget.ts";
import type { RequestDecider } from "./decide.ts";
import type { ExchangeMetrics } from "./exchange-metrics.ts";
import type { RequestHooks } from "./request-hooks.ts";

/** What every exchange of a process shares. */
export interface ExchangeServices {
  readonly clock: Clock;
  readonly random: Random;
  readonly endpoints: EndpointRegistry;
  readonly decider: RequestDecider;
  readonly metrics: ExchangeMetrics;
  readonly hooks: () => RequestHooks;
  readonly budget: ByteBudget;
  /** Learns from answers; absent = nobody does. */
  readonly bytesPerToken?: BytesPerToken | undefined;
  /** Undefined = nothing is traced, and what carries a client's trace goes on as it came. */
  readonly tracing?: Tracing | undefined;
  /** Bytes; a longer request body is refused with 413. */
  readonly maxRequestBytes: number;
  /** A POST without a body to a path whose bodies are read is refused with 400; else any endpoint gets it (epp-protocol 3.2). */
  readonly refusesEmptyBodies: boolean;
  /** Answers to requests that ask for it carry the decision (`--decision-header`). */
  readonly decisionHeader: boolean;
  /** Told of failures of our own, which the client sees as 500. */
  onError(error: unknown): void;
  /** Told of a report that somebody served who is no endpoint of the pool. @param reported one line, `ip:port` at best */
  onStrangerServed(reported: string): void;
}

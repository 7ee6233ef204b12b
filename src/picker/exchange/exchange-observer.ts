import type { DecisionRecord } from "../../base/inference/decision-record.ts";
import type { AttemptFailure, Endpoint } from "../../base/inference/endpoint.ts";
import type { EndedExchange } from "./exchange-metrics.ts";

/** A request that was decided about. */
export interface ObservedDecision {
  readonly record: DecisionRecord;
  /** The chosen endpoint; undefined = refused. */
  readonly endpoint: Endpoint | undefined;
  /** Monotonic milliseconds of the request headers. */
  readonly receivedAt: number;
  /** The name of the caller's key or token. */
  readonly caller: string | undefined;
  readonly streaming: boolean;
}

/** Watches the exchanges of a process for its page. Runs per request: an implementation is quick and never throws. */
export interface ExchangeObserver {
  /** A request has arrived. @param at monotonic milliseconds */
  opened(at: number): void;
  decided(decision: ObservedDecision): void;
  /** @param sequence of the decision record; 0 = none @param next the endpoint of the next attempt; undefined = none is left */
  attemptFailed(
    sequence: number,
    endpoint: Endpoint,
    failure: AttemptFailure,
    detail: string,
    next: Endpoint | undefined,
  ): void;
  /** The first byte of the answer has arrived from `endpoint`. */
  answered(sequence: number, endpoint: Endpoint): void;
  /** Called once for each exchange. @param endpoint the last one that was tried; undefined = none was */
  ended(ended: EndedExchange, sequence: number, endpoint: Endpoint | undefined): void;
}

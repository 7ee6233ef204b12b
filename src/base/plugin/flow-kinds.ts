import type { Endpoint } from "../inference/endpoint.ts";
import type { InferenceRequest } from "../inference/request.ts";
import type { TokenUsage } from "./exchange-kinds.ts";

/** Maps endpoints to a load figure; 1 and above means saturated. An empty set is saturated. */
export interface SaturationDetector {
  saturation(endpoints: readonly Endpoint[], now: number): number;
  /**
   * The saturation once everything counts that this process has sent, and `further` requests that it is about to send. Flow
   * control dispatches by this figure: a scrape shows a request only later. Absent = `saturation`.
   * @param further requests that are dispatched and have no endpoint yet, at least 0
   */
  expected?(endpoints: readonly Endpoint[], now: number, further: number): number;
  /**
   * The saturation of one endpoint alone, which counts as no measurement of the pool: the room for background requests asks for it.
   * Absent = `saturation` of this endpoint.
   */
  saturationOf?(endpoint: Endpoint, now: number): number;
  /**
   * Endpoints that the detector could not judge at its last measurement, for want of fresh metrics. Absent where it needs none.
   */
  readonly staleEndpoints?: number;
  /** Milliseconds until `expected` shows that a request has ended; absent = 500. */
  readonly settles?: number;
}

/** A request in a queue of flow control, as policies see it. Times are monotonic milliseconds. */
export interface QueuedRequest {
  readonly request: InferenceRequest;
  /** When its headers arrived. */
  readonly receivedAt: number;
  readonly enqueuedAt: number;
  /** Milliseconds that it may wait while the pool has endpoints; Infinity = any time. */
  readonly ttl: number;
  /** Bytes of its body. */
  readonly bytes: number;
  /** Tokens of its prompts, estimated. */
  readonly tokens: number;
}

/** Orders the requests of one queue. */
export interface OrderingPolicy {
  /**
   * The place of a request in its queue: the lowest leaves first, and of equals the one that came first. Called once for each
   * request, when it enters. NaN counts as Infinity.
   */
  rank(queued: QueuedRequest): number;
}

/** A flow of a band that has requests queued. */
export interface QueuedFlow {
  readonly fairnessId: string;
  /** The request that leaves next. */
  readonly head: QueuedRequest;
  /** Queued requests, at least 1. */
  readonly length: number;
}

/** Chooses among the flows of one band. Calls come from one band, one at a time. */
export interface FlowChoice {
  /** The flow had no request queued and has one now. */
  joined(flow: QueuedFlow): void;
  /** The last queued request of the flow has left. */
  left(flow: QueuedFlow): void;
  /**
   * The flow whose head leaves next: one that has joined and not left. Called only while there is one. Two calls in a row give
   * the same flow.
   * @param now monotonic milliseconds
   * @param fill of the band: the saturation by the ceiling, 0 to below 1
   * @returns null = each flow that waits is held back at this fill
   */
  next(now: number, fill: number): QueuedFlow | null;
  /** Whether a request of this flow is held back at this fill. Absent = never. */
  holds?(fairnessId: string, fill: number): boolean;
  /** The head of the flow is about to be dispatched. `left` follows when it was the last one. */
  served(flow: QueuedFlow): void;
  /**
   * A request of the band is dispatched, from a queue or because the pool has room and no request waits. After `served` and
   * `left`.
   * @returns the tokens that it is charged with until its end
   */
  dispatched?(queued: QueuedRequest): number;
  /**
   * A dispatched request has ended.
   * @param charged what `dispatched` returned; 0 without it
   * @param now monotonic milliseconds
   */
  ended?(fairnessId: string, tokens: ServedTokens, charged: number, now: number): void;
}

/** What a request has cost, as its answer reports. NaN where the answer says nothing. */
export type ServedTokens = Pick<TokenUsage, "promptTokens" | "completionTokens">;

/** Shares a band among its flows. One instance serves all bands that name it. */
export interface FairnessPolicy {
  /** Whether all flows of a band share one queue, in the order of its ordering policy. Then nothing else is called. */
  readonly oneQueue?: boolean;
  /** Makes the choice of one band. */
  choice(): FlowChoice;
}

/** Sets how much of the pool each priority may use. */
export interface UsageLimitPolicy {
  /**
   * Whether ceilings change with the number of calls, at the same saturation. Flow control then asks each millisecond while
   * requests wait.
   */
  readonly alternates?: boolean;
  /**
   * Writes a ceiling for each band: a band dispatches while the saturation is below its ceiling.
   * @param saturation of the pool, from 0 up
   * @param priorities of all bands, highest first
   * @param ceilings one for each, 1 until the policy changes it
   */
  limit(saturation: number, priorities: readonly number[], ceilings: number[]): void;
}

import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { AttemptFailure } from "../../base/inference/endpoint.ts";
import type { Exchange, Wire } from "../../picker/exchange/wire.ts";
import type { Connect } from "./connector.ts";

/** Sizes a client may not exceed (envoy-data-plane 4.5), and what the proxy holds for one request. */
export interface ProxyLimits {
  /** Bytes of all header names and values of a request; more is answered 431. */
  readonly headerBytes: number;
  /** Header lines of a request; more is answered 431. */
  readonly headerCount: number;
  /** Bytes of the request target; more is answered 414. */
  readonly targetBytes: number;
  /** Bytes of a request body; more is answered 413, while it streams in. */
  readonly bodyBytes: number;
  /** Bytes of a body that are kept for a retry; a longer body is sent once. */
  readonly replayBytes: number;
  /** Client connections; further ones are closed at once. */
  readonly connections: number;
  /** Requests of one connection that wait behind the one being answered; more cut the connection. */
  readonly pipelined: number;
  /** Endpoints to which connections are kept open; beyond it idle ones are given up, the least recently used first. */
  readonly upstreamPools: number;
}

export const DEFAULT_LIMITS: ProxyLimits = {
  headerBytes: 60 * 1024,
  headerCount: 100,
  targetBytes: 8 * 1024,
  bodyBytes: 32 * 1024 * 1024,
  replayBytes: 32 * 1024 * 1024,
  connections: 10_000,
  pipelined: 64,
  upstreamPools: 1024,
};

/** Milliseconds (envoy-data-plane 4.3). */
export interface ProxyTimers {
  /** Until the headers of a request are complete; then 408. */
  readonly requestHeaders: number;
  /** Without a byte of an unfinished request body; then 408. */
  readonly bodyIdle: number;
  /** From the complete request to its decision, queueing included; then 504. */
  readonly picking: number;
  /** Of one connection attempt at an endpoint; then the next endpoint. */
  readonly connect: number;
  /** From the request sent to the first byte of the answer; then 504. 0 = off. */
  readonly firstByte: number;
  /** Without a byte of the answer in either direction; then both sides are cut. */
  readonly responseIdle: number;
  /** A client connection without a request. */
  readonly clientKeepAlive: number;
  /** A connection to an endpoint without a request. */
  readonly upstreamKeepAlive: number;
  /** How long an answer that ends a connection may take to reach the client, unread request bytes being discarded. */
  readonly linger: number;
}

export const DEFAULT_TIMERS: ProxyTimers = {
  requestHeaders: 30_000,
  bodyIdle: 60_000,
  picking: 600_000,
  connect: 2_000,
  firstByte: 0,
  responseIdle: 3_600_000,
  clientKeepAlive: 75_000,
  upstreamKeepAlive: 60_000,
  linger: 2_000,
};

/** Waits before an attempt that follows a status, in milliseconds: the first one, and the longest. */
export const BACKOFF = { first: 25, longest: 250 } as const;

/** What the proxy counts; each call is one event. */
export interface ProxyMetrics {
  /** A connection beyond `ProxyLimits.connections` was closed. */
  connectionRefused(): void;
  /** Answered before any exchange was opened. @param slug the value of `x-gateway-error`, of a fixed set */
  badRequest(slug: string): void;
  /** One more endpoint is tried because the one before failed this way. */
  retried(cause: AttemptFailure): void;
  /** A client left before its answer was complete. */
  clientGone(): void;
  /** A model server was lost in the middle of an answer. */
  interrupted(): void;
}

export interface ProxyOptions {
  /** Address to listen on. */
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  readonly clock: Clock;
  /** For the jitter of the back-off. */
  readonly random: Random;
  /** Opens the exchange of one request; called once its headers are acceptable. */
  openExchange(wire: Wire): Exchange;
  /** Further endpoints tried after the first one failed; default 2. */
  readonly maxRetries?: number;
  /** Statuses of a model server after which the next endpoint is tried; default 503 alone. */
  readonly retryStatuses?: readonly number[];
  readonly limits?: Partial<ProxyLimits>;
  readonly timers?: Partial<ProxyTimers>;
  /** Whether header names with `_` are passed on; by default they are answered 400, since many servers read `_` as `-`. */
  readonly allowUnderscores?: boolean;
  readonly metrics?: ProxyMetrics;
  /** Told of failures of our own, which the client sees as 500. */
  readonly onError?: (error: unknown) => void;
  /** How sockets to endpoints are opened; `net.connect` by default. */
  readonly connect?: Connect;
}

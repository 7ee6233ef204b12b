import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { Connect, ServerTls } from "../../base/grpc/server-tls.ts";
import type { Caller } from "../../base/inference/caller.ts";
import type { AttemptFailure } from "../../base/inference/endpoint.ts";
import type { HeaderList } from "../../base/inference/headers.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import type { UnopenedRequest } from "../../picker/exchange/request-log.ts";
import type { Exchange, Wire } from "../../picker/exchange/wire.ts";
import type { CorsSettings } from "./cors.ts";
import type { ListenerOptions } from "./listener.ts";
import type { OwnAnswer } from "./local-answer.ts";
import type { LocalService } from "./local-service.ts";
import type { PathTable } from "./path-table.ts";

/** Limits for clients (envoy-data-plane 4.5), and for the memory of one request. */
export interface ProxyLimits {
  /** Bytes of all header names and values of a request; above it the answer is 431. */
  readonly headerBytes: number;
  /** Header lines of a request; above it the answer is 431. */
  readonly headerCount: number;
  /** Bytes of the request target; above it the answer is 414. */
  readonly targetBytes: number;
  /** Bytes of a request body; above it the answer is 413, during the body. */
  readonly bodyBytes: number;
  /** Bytes per second that an upload must have on average once it has taken twice `bodyIdle`; then 408. */
  readonly uploadRate: number;
  /** Bytes of a body that is kept for a retry. A longer body is sent only once. */
  readonly replayBytes: number;
  /**
   * Client connections, at least 4. A further one takes the place of one without a request, which closes; without such a
   * connection, the further one closes at once.
   */
  readonly connections: number;
  /** Client connections of one address, in the same way. Default half of all. */
  readonly connectionsPerAddress?: number | undefined;
  /** Requests at a time of one connection of HTTP/2. */
  readonly streams: number;
  /** Requests of one connection that wait behind the current one. With more, the proxy cuts the connection. */
  readonly pipelined: number;
  /** From this number of event streams under way on, fast ones rest (`ProxyTimers.streamRest`). */
  readonly restlessStreams: number;
  /** Endpoints with open connections. Above it, the proxy closes idle connections, the least recently used first. */
  readonly upstreamPools: number;
}

export const DEFAULT_LIMITS: ProxyLimits = {
  headerBytes: 60 * 1024,
  headerCount: 100,
  targetBytes: 8 * 1024,
  bodyBytes: 32 * 1024 * 1024,
  uploadRate: 1024,
  replayBytes: 32 * 1024 * 1024,
  connections: 10_000,
  streams: 100,
  pipelined: 64,
  restlessStreams: 16,
  upstreamPools: 1024,
};

/** Milliseconds (envoy-data-plane 4.3). */
export interface ProxyTimers {
  /** Until the headers of a request are complete; then 408. */
  readonly requestHeaders: number;
  /** Time without a byte of an unfinished request body; then 408. */
  readonly bodyIdle: number;
  /** From the complete request to its decision, queueing included; then 504. */
  readonly picking: number;
  /** Of one connection attempt at an endpoint; then the next endpoint. */
  readonly connect: number;
  /** From the request sent to the first byte of the answer; then 504. 0 = off. */
  readonly firstByte: number;
  /** Time without a byte of the answer in either direction; then the proxy cuts both sides. */
  readonly responseIdle: number;
  /**
   * Time for which the next chunk of a fast event stream may wait while many streams are under way, so that several chunks leave
   * together; 0 = never.
   */
  readonly streamRest: number;
  /** Time in which a client reads nothing of its answer that waits; then the proxy cuts the answer and frees the endpoint. */
  readonly clientStalled: number;
  /** Idle time of a client connection between requests. */
  readonly clientKeepAlive: number;
  /** Idle time of a connection to an endpoint between requests. */
  readonly upstreamKeepAlive: number;
  /** Time for the last answer of a connection to reach the client, during which the proxy discards request bytes. */
  readonly linger: number;
}

export const DEFAULT_TIMERS: ProxyTimers = {
  requestHeaders: 30_000,
  bodyIdle: 60_000,
  picking: 600_000,
  connect: 2_000,
  firstByte: 0,
  responseIdle: 3_600_000,
  streamRest: 10,
  clientStalled: 300_000,
  clientKeepAlive: 75_000,
  upstreamKeepAlive: 60_000,
  linger: 2_000,
};

/** Waits before a retry that follows a status, in milliseconds: the first one, and the longest. */
export const BACKOFF = { first: 25, longest: 250 } as const;

/** The counters of the proxy; each call is one event. */
export interface ProxyMetrics {
  /** A connection beyond `ProxyLimits.connections` was closed. */
  connectionRefused(): void;
  /** The proxy refused a request that opened no exchange, for whatever reason. @param slug the value of `x-gateway-error`, of a fixed set */
  badRequest(slug: string): void;
  /** The proxy tries one more endpoint, because the previous attempt failed with `cause`. */
  retried(cause: AttemptFailure): void;
  /** A client left before its answer was complete. */
  clientGone(): void;
  /** A model server was lost in the middle of an answer. */
  interrupted(): void;
}

/**
 * Finds the client that sends a request, and removes from the headers, before it returns, what proves the client's identity.
 * @returns undefined for a request that needs no key; a promise where the answer needs a server, such as that of a token's keys
 */
export type Authenticate = (head: AccessHead) => Verdict | Promise<Verdict>;
/** The part of a request that says who sends it. */
export interface AccessHead {
  readonly method: string;
  /** Origin form: path and query. */
  readonly path: string;
  readonly headers: HeaderList;
}
export type Verdict = Caller | Rejection | undefined;

export interface ProxyOptions {
  /** At least one. */
  readonly listeners: readonly ListenerOptions[];
  /** Absent = browsers let no page of another origin use the gateway. */
  readonly cors?: CorsSettings | undefined;
  readonly clock: Clock;
  /** For the jitter of the back-off. */
  readonly random: Random;
  /** Opens the exchange of one request, after its headers are checked. */
  openExchange(wire: Wire): Exchange;
  /** Decides which requests may reach a model server. */
  readonly paths: PathTable;
  /** Absent: clients need no key. */
  readonly authenticate?: Authenticate | undefined;
  /** Answers requests that no model server needs; asked for each request whose headers are in order. */
  readonly ownAnswer?: OwnAnswer | undefined;
  /** A service of the gateway beside the model servers. Its paths need a key as all others do, and no table of paths. */
  readonly local?: LocalService | undefined;
  /** The most endpoints that the proxy tries after the first one failed; default 2. */
  readonly maxRetries?: number;
  /** Statuses of a model server after which the proxy tries the next endpoint; default 503 alone. */
  readonly retryStatuses?: readonly number[];
  readonly limits?: Partial<ProxyLimits>;
  readonly timers?: Partial<ProxyTimers>;
  /** Whether the proxy forwards header names with `_`. The default answer is 400, since many servers read `_` as `-`. */
  readonly allowUnderscores?: boolean;
  readonly metrics?: ProxyMetrics;
  /** Receives each request that the proxy answered without an exchange, and each connection that it closed at once. */
  readonly onUnopened?: ((request: UnopenedRequest) => void) | undefined;
  /** Receives the reason when a client of TLS is refused because of its certificate. */
  readonly onClientRefused?: ((problem: string, address: string) => void) | undefined;
  /** Receives internal errors of the proxy, which the client sees as 500. */
  readonly onError?: (error: unknown) => void;
  /** How the proxy speaks TLS with endpoints; absent = no endpoint speaks TLS. */
  readonly serverTls?: ServerTls | undefined;
  /** Opens the sockets to endpoints without TLS; `net.connect` by default. */
  readonly connect?: Connect;
}

import type { Dispatcher } from "undici";
import type { Clock } from "../../../base/clock/clock.ts";
import { UnorderedSet } from "../unordered-set.ts";
import { GatewayAttempt, type GatewayAttemptOwner } from "./attempt.ts";
import { type ClientTls, clientContext } from "./client-tls.ts";
import { type GatewayConnectionSettings, GatewayOrigin } from "./connection.ts";
import type { GatewayAnswer, InferenceClient, OutboundRequest } from "./inference-client.ts";

export interface UndiciClientOptions {
  /** Workers of all pools together: the number of idle connections kept per origin, from 1 up. */
  readonly totalWorkers: number;
  /** Milliseconds to open a connection, with TLS; default 10,000. */
  readonly connectTimeoutMs?: number;
  /** Longest body of an answer in bytes, decompressed; default 64 MiB. */
  readonly maxResponseBytes?: number;
  readonly tls?: ClientTls;
  readonly clock: Clock;
}

/** Origins whose idle connections are kept; a configuration has one per gateway. */
const MAX_ORIGINS = 64;

/**
 * Milliseconds between checks for requests out of time, so a timeout comes up to this late and never early. One timer serves
 * all: a timer and an abort listener for each request would cost 2 to 4 us, of some 30 for all of it.
 */
const SWEEP = 100;

/**
 * Sends requests over HTTP/1.1 with undici: as many connections as requests at a time, kept for 90 s, one request on each;
 * no redirects, no proxies (async-processor 7.3).
 */
export function undiciClient(options: UndiciClientOptions): InferenceClient {
  return new UndiciClient(options);
}

class UndiciClient implements InferenceClient, GatewayAttemptOwner {
  readonly clock: Clock;
  readonly maxResponseBytes: number;
  readonly connectTimeoutMs: number;
  readonly #totalWorkers: number;
  readonly #settings: GatewayConnectionSettings;
  readonly #origins = new Map<string, GatewayOrigin>();
  readonly #attempts = new UnorderedSet<GatewayAttempt>();
  /** The number of attempts that each signal can end: one listener serves all that share it. */
  readonly #signals = new Map<AbortSignal, number>();
  #armed = false;
  #closed = false;

  constructor({ totalWorkers, connectTimeoutMs, maxResponseBytes, tls, clock }: UndiciClientOptions) {
    this.clock = clock;
    this.maxResponseBytes = maxResponseBytes ?? 64 * 1024 * 1024;
    this.connectTimeoutMs = connectTimeoutMs ?? 10_000;
    this.#totalWorkers = totalWorkers;
    this.#settings = {
      secureContext: clientContext(tls ?? {}),
      rejectUnauthorized: tls?.insecureSkipVerify !== true,
    };
  }

  send(request: OutboundRequest, signal: AbortSignal): Promise<GatewayAnswer> {
    if (signal.aborted || this.#closed) return Promise.resolve({ kind: "aborted" });
    // The sweep would find it only while a model is at work.
    if (request.timeoutMs <= 0)
      return Promise.resolve({ kind: "timeout", message: "no time was left to send the request" });
    return new Promise((resolve) => {
      const attempt = new GatewayAttempt(this, this.#originOf(request.url.origin), request.timeoutMs, signal, resolve);
      this.#attempts.add(attempt);
      this.#watch(signal);
      this.#arm();
      attempt.start(dispatchOptions(request));
    });
  }

  finished(attempt: GatewayAttempt): void {
    this.#attempts.delete(attempt);
    const others = this.#signals.get(attempt.signal)! - 1;
    if (others > 0) this.#signals.set(attempt.signal, others);
    else {
      this.#signals.delete(attempt.signal);
      attempt.signal.removeEventListener("abort", this.#onAbort);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const attempt of this.#attempts.all()) attempt.giveUp({ kind: "aborted" });
    for (const origin of this.#origins.values()) origin.close();
    this.#origins.clear();
  }

  #originOf(name: string): GatewayOrigin {
    let origin = this.#origins.get(name);
    if (origin !== undefined) return origin;
    if (this.#origins.size >= MAX_ORIGINS) this.#closeIdleOrigins();
    origin = new GatewayOrigin(name, this.#settings, this.#totalWorkers);
    this.#origins.set(name, origin);
    return origin;
  }

  #closeIdleOrigins(): void {
    for (const [name, origin] of this.#origins) {
      if (this.#origins.size < MAX_ORIGINS) return;
      if (origin.busy > 0) continue;
      origin.close();
      this.#origins.delete(name);
    }
  }

  #watch(signal: AbortSignal): void {
    const others = this.#signals.get(signal);
    if (others === undefined) signal.addEventListener("abort", this.#onAbort);
    this.#signals.set(signal, (others ?? 0) + 1);
  }

  readonly #onAbort = ({ target }: Event): void => {
    for (const attempt of this.#attempts.all()) if (attempt.signal === target) attempt.giveUp({ kind: "aborted" });
  };

  #arm(): void {
    if (this.#armed) return;
    this.#armed = true;
    this.clock.after(SWEEP, this.#sweep, true);
  }

  readonly #sweep = (): void => {
    this.#armed = false;
    const now = this.clock.now();
    for (const attempt of this.#attempts.all()) attempt.expire(now);
    if (this.#attempts.size > 0) this.#arm();
  };
}

function dispatchOptions({ url, headers, body }: OutboundRequest): Dispatcher.DispatchOptions {
  return {
    path: url.pathname + url.search,
    method: "POST",
    headers: headers as string[],
    body,
  };
}

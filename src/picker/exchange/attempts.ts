import type { CacheReport } from "../../base/inference/cache-report.ts";
import type { DecisionRecord, SchedulingResult } from "../../base/inference/decision-record.ts";
import type { AttemptFailure, Endpoint } from "../../base/inference/endpoint.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { Flow } from "../../pool/endpoints/flow-loads.ts";
import type { InFlightTicket } from "../../pool/endpoints/in-flight.ts";
import type { EndpointRegistry } from "../../pool/endpoints/registry.ts";

const NO_TICKETS: readonly InFlightTicket[] = [];

/** What is counted for a request beside its attempts. */
interface Counts {
  /** The count on the first endpoint of the list; absent for requests without a body, which count nowhere. */
  readonly ticket?: InFlightTicket;
  /** The decision, whose record learns who served the request. */
  readonly result?: SchedulingResult;
  /** Counts on other endpoints, which do not move. */
  readonly sides?: readonly InFlightTicket[] | undefined;
}

/**
 * The attempts of one exchange along its list of endpoints, and its in-flight count on the current one. The pool and the
 * decision record learn how each attempt ended.
 */
export class Attempts {
  readonly #pool: EndpointRegistry;
  readonly #list: readonly Endpoint[];
  /** Endpoints whose attempts failed; undefined = none has. */
  #tried: Set<Endpoint> | undefined;
  readonly #ticket: InFlightTicket | undefined;
  readonly #result: SchedulingResult | undefined;
  /** Counts on other endpoints that work for the exchange before its answer begins. */
  readonly #sides: readonly InFlightTicket[];
  #current: Endpoint;
  /** The endpoint of the last attempt that failed. */
  #failed: Endpoint | undefined;

  /** @param list in order of preference, at least one */
  constructor(pool: EndpointRegistry, list: readonly Endpoint[], { ticket, result, sides = NO_TICKETS }: Counts = {}) {
    this.#pool = pool;
    this.#list = list;
    this.#current = list[0]!;
    this.#ticket = ticket;
    this.#result = result;
    this.#sides = sides;
  }

  /**
   * Counts a scheduled request on the first endpoint of the list and on those that other profiles chose (scheduling 3.12).
   * @param flow the flow of the request
   */
  static open(pool: EndpointRegistry, result: SchedulingResult, flow?: Flow): Attempts {
    const { endpoints, uncachedTokens, sideLoads } = result;
    const { inFlight } = pool;
    return new Attempts(pool, endpoints, {
      ticket: inFlight.open(endpoints[0]!, uncachedTokens, flow),
      result,
      sides: sideLoads?.map((side) => inFlight.open(side.endpoint, side.uncachedTokens, flow)),
    });
  }

  /** The endpoint of the current attempt. */
  get current(): Endpoint {
    return this.#current;
  }

  /** The address that gets the request for the endpoint; undefined = the endpoint's own. */
  get via(): string | undefined {
    return this.#result?.via;
  }

  /** The endpoint of the last attempt, also after it failed. @param retries attempts that the wire made after the first one */
  lastTried(retries: number): Endpoint {
    return this.#failed !== undefined && this.#tried!.size > retries ? this.#failed : this.#current;
  }

  /** The attempt at an endpoint failed before its answer. @returns the next endpoint that was not tried and is not down */
  failed(endpoint: Endpoint, failure: AttemptFailure, detail: string): Endpoint | undefined {
    this.#report(endpoint, failure, detail);
    this.#tried ??= new Set();
    const tried = this.#tried;
    tried.add(endpoint);
    this.#failed = endpoint;
    for (const next of this.via === undefined ? this.#list : []) {
      if (tried.has(next) || next.state === "down") continue;
      this.moveTo(next);
      return next;
    }
    return undefined;
  }

  /** The proxy could not reach the current endpoint, and answers itself. */
  unreached(detail: string): void {
    this.#report(this.#current, "connect", detail);
  }

  /** The proxy chose another endpoint: moves the count there. */
  moveTo(endpoint: Endpoint): void {
    if (endpoint === this.#current) return;
    this.#current = endpoint;
    this.#ticket?.moveTo(endpoint, this.#result?.uncachedTokens ?? 0);
  }

  /** The first byte of the answer has arrived, so the prompt is computed. */
  answered(): void {
    const result = this.#result;
    const current = this.#current;
    if (result?.keepsTokens !== true) this.#ticket?.firstResponseByte();
    for (const side of this.#sides) side.release();
    this.#pool.attemptSucceeded(current);
    if (result === undefined) return;
    const hasMoved = current !== this.#list[0];
    result.record.served = hasMoved ? { id: current.id, hostPort: current.hostPort } : undefined;
    // What the decision expected was of the chosen endpoint.
    if (hasMoved && result.record.cache !== undefined)
      Object.assign(result.record.cache, { predicted: Number.NaN, events: Number.NaN, unconfirmed: undefined });
    // An endpoint that has left the pool keeps no state to change.
    if (hasMoved && this.#pool.get(current.id) === current) result.moved?.(current);
    result.listener?.answered();
  }

  /** The record of the decision; undefined = there was none. */
  get record(): DecisionRecord | undefined {
    return this.#result?.record;
  }

  /** The exchange is over. @param report what the endpoint had in its cache, by its answer; undefined = unknown */
  ended(report: CacheReport | undefined): void {
    this.#result?.listener?.ended(report);
  }

  release(): void {
    this.#ticket?.release();
    for (const side of this.#sides) side.release();
  }

  #report(endpoint: Endpoint, failure: AttemptFailure, detail: string): void {
    this.#pool.attemptFailed(endpoint, failure, detail);
    if (this.#result !== undefined) this.#result.record.served = "nobody";
  }
}

/** Returns the rejection of a request for which no endpoint is left to try. @param detail of the last failure */
export function noneAnswered(last: Endpoint, detail: string): Rejection {
  return new Rejection("upstream_connect", `no endpoint answered; the last attempt was at ${last.hostPort}: ${detail}`);
}

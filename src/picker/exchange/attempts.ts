import type { SchedulingResult } from "../../base/inference/decision-record.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { Flow } from "../../pool/endpoints/flow-loads.ts";
import type { InFlight, InFlightTicket } from "../../pool/endpoints/in-flight.ts";

const NO_TICKETS: readonly InFlightTicket[] = [];

/** The attempts of one exchange along its list of endpoints, and its in-flight count on the current one. */
export class Attempts {
  readonly #list: readonly Endpoint[];
  readonly #tried = new Set<Endpoint>();
  readonly #ticket: InFlightTicket | undefined;
  readonly #tokens: number;
  /** Whether the tokens count until the end of the answer. */
  readonly #keepsTokens: boolean;
  /** Counts on other endpoints that work for the exchange before its answer begins. */
  readonly #sides: readonly InFlightTicket[];
  #current: Endpoint;
  /** The endpoint of the last attempt that failed. */
  #failed: Endpoint | undefined;

  /**
   * @param list in order of preference, at least one
   * @param ticket the count on the first endpoint of the list; undefined for requests without a body, which count nowhere
   * @param tokens prompt tokens that move with the count
   * @param sides counts on other endpoints, which do not move
   * @param keepsTokens whether the tokens count until the end of the answer
   */
  constructor(list: readonly Endpoint[], ticket?: InFlightTicket, tokens = 0, sides = NO_TICKETS, keepsTokens = false) {
    this.#list = list;
    this.#current = list[0]!;
    this.#ticket = ticket;
    this.#tokens = tokens;
    this.#sides = sides;
    this.#keepsTokens = keepsTokens;
  }

  /**
   * Counts a scheduled request on the first endpoint of the list and on those that other profiles chose (scheduling 3.12).
   * @param flow the flow of the request
   */
  static open(inFlight: InFlight, result: SchedulingResult, flow?: Flow): Attempts {
    const { endpoints, uncachedTokens, sideLoads, keepsTokens } = result;
    return new Attempts(
      endpoints,
      inFlight.open(endpoints[0]!, uncachedTokens, flow),
      uncachedTokens,
      sideLoads?.map((side) => inFlight.open(side.endpoint, side.uncachedTokens, flow)),
      keepsTokens,
    );
  }

  /** The endpoint of the current attempt. */
  get current(): Endpoint {
    return this.#current;
  }

  /** The endpoint of the last attempt, also after it failed. @param retries attempts that the wire made after the first one */
  lastTried(retries: number): Endpoint {
    return this.#failed !== undefined && this.#tried.size > retries ? this.#failed : this.#current;
  }

  /** Whether the current endpoint is not the first of the list. */
  get moved(): boolean {
    return this.#current !== this.#list[0];
  }

  /** Returns the next endpoint that was not tried and is not down. @param failed the endpoint of the failed attempt */
  next(failed: Endpoint): Endpoint | undefined {
    this.#tried.add(failed);
    this.#failed = failed;
    for (const endpoint of this.#list) {
      if (this.#tried.has(endpoint) || endpoint.state === "down") continue;
      this.moveTo(endpoint);
      return endpoint;
    }
    return undefined;
  }

  /** The proxy chose another endpoint: moves the count there. */
  moveTo(endpoint: Endpoint): void {
    if (endpoint === this.#current) return;
    this.#current = endpoint;
    this.#ticket?.moveTo(endpoint, this.#tokens);
  }

  /** The first byte of the answer has arrived, so the prompt is computed. */
  answered(): void {
    if (!this.#keepsTokens) this.#ticket?.firstResponseByte();
    for (const side of this.#sides) side.release();
  }

  release(): void {
    this.#ticket?.release();
    for (const side of this.#sides) side.release();
  }
}

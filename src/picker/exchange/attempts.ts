import type { SchedulingResult } from "../../base/inference/decision-record.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { Flow } from "../../pool/endpoints/flow-loads.ts";
import type { InFlight, InFlightTicket } from "../../pool/endpoints/in-flight.ts";

const NO_TICKETS: readonly InFlightTicket[] = [];

/** The walk of one exchange down its list of endpoints, and its in-flight count along the way. */
export class Attempts {
  readonly #list: readonly Endpoint[];
  readonly #tried = new Set<Endpoint>();
  readonly #ticket: InFlightTicket | undefined;
  readonly #tokens: number;
  /** The tokens stay until the end of the answer. */
  readonly #keepsTokens: boolean;
  /** Counts on endpoints that work for the exchange before its answer begins. */
  readonly #sides: readonly InFlightTicket[];
  #current: Endpoint;

  /**
   * @param list in order of preference, at least one
   * @param ticket counts on the first of the list; undefined for header-only requests, which count nowhere
   * @param tokens prompt tokens that move along
   * @param sides counts on other endpoints, which stay where they are
   * @param keepsTokens the tokens stay until the end of the answer
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
   * Counts what scheduling has decided: on the first of the list, and on those that other profiles chose (scheduling 3.12).
   * @param flow whose request it is
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

  /** Where the exchange is now. */
  get current(): Endpoint {
    return this.#current;
  }

  /** Whether that is another endpoint than the first of the list. */
  get moved(): boolean {
    return this.#current !== this.#list[0];
  }

  /** After `failed`: the next endpoint that was not tried and is not down. */
  next(failed: Endpoint): Endpoint | undefined {
    this.#tried.add(failed);
    for (const endpoint of this.#list) {
      if (this.#tried.has(endpoint) || endpoint.state === "down") continue;
      this.moveTo(endpoint);
      return endpoint;
    }
    return undefined;
  }

  /** The proxy chose by itself: the count follows. */
  moveTo(endpoint: Endpoint): void {
    if (endpoint === this.#current) return;
    this.#current = endpoint;
    this.#ticket?.moveTo(endpoint, this.#tokens);
  }

  /** The first byte of the answer is here: the prompt is computed. */
  answered(): void {
    if (!this.#keepsTokens) this.#ticket?.firstResponseByte();
    for (const side of this.#sides) side.release();
  }

  release(): void {
    this.#ticket?.release();
    for (const side of this.#sides) side.release();
  }
}

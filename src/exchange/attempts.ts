import type { InFlightTicket } from "../endpoints/in-flight.ts";
import type { Endpoint } from "../inference/endpoint.ts";

/** The walk of one exchange down its list of endpoints, and its in-flight count along the way. */
export class Attempts {
  readonly #list: readonly Endpoint[];
  readonly #tried = new Set<Endpoint>();
  readonly #ticket: InFlightTicket | undefined;
  readonly #tokens: number;
  #current: Endpoint;

  /**
   * @param list in order of preference, at least one
   * @param ticket counts on the first of the list; undefined for header-only requests, which count nowhere
   * @param tokens prompt tokens that move along
   */
  constructor(list: readonly Endpoint[], ticket?: InFlightTicket, tokens = 0) {
    this.#list = list;
    this.#current = list[0]!;
    this.#ticket = ticket;
    this.#tokens = tokens;
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
    this.#ticket?.firstResponseByte();
  }

  release(): void {
    this.#ticket?.release();
  }
}

import type { Clock } from "../../base/clock/clock.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { SharedBlocks, SharedPrefixes } from "../../base/plugin/shared-prefixes.ts";
import type { InFlightTicket } from "../../pool/endpoints/in-flight.ts";
import type { EndpointRegistry } from "../../pool/endpoints/registry.ts";

/** The load of a request from its decision to its end. */
export type SimTicket = Pick<InFlightTicket, "firstResponseByte" | "release">;

/** What a picker needs to share all that it knows. */
export interface Twin {
  readonly prefixes: SharedPrefixes;
  /** The picker has sent a request. @param own its own count @returns what ends that count and those of the others */
  opened(own: SimTicket, endpoint: Endpoint, tokens: number): SimTicket;
}

/**
 * Pickers that know each of their own decisions at once, and each one of the others exactly, some time later: without messages, and
 * without rules for what they do not know yet. One picker that learns of most of its own decisions late would decide the same. So
 * they show what a delay costs by itself.
 */
export class LateTwins {
  readonly #clock: Clock;
  readonly #delayMs: number;
  readonly #pools = new Set<EndpointRegistry>();
  readonly #receivers = new Map<EndpointRegistry, (endpoint: Endpoint, blocks: SharedBlocks) => void>();

  /** @param delayMs milliseconds from a decision until the others know it, 0 or more */
  constructor(clock: Clock, delayMs: number) {
    this.#clock = clock;
    this.#delayMs = delayMs;
  }

  /** Adds a picker. @param pool its own view of the servers; all pickers name them alike */
  join(pool: EndpointRegistry): Twin {
    this.#pools.add(pool);
    return {
      prefixes: {
        hashKeys: [1, 2],
        open: (_, receive) => {
          this.#receivers.set(pool, receive);
          return {
            placed: (endpoint, blocks) => this.#placed(pool, endpoint, blocks),
            close: () => this.#receivers.delete(pool),
          };
        },
      },
      opened: (own, endpoint, tokens) => this.#opened(pool, own, endpoint, tokens),
    };
  }

  #opened(pool: EndpointRegistry, own: SimTicket, { hostPort }: Endpoint, tokens: number): SimTicket {
    const far: SimTicket[] = [];
    this.#later(() => {
      for (const other of this.#pools) {
        const endpoint = other === pool ? undefined : other.byHostPort(hostPort);
        if (endpoint !== undefined) far.push(other.inFlight.open(endpoint, tokens));
      }
    });
    const all = (end: (ticket: SimTicket) => void): void => {
      end(own);
      this.#later(() => far.forEach(end));
    };
    return {
      firstResponseByte: () => all((ticket) => ticket.firstResponseByte()),
      release: () => all((ticket) => ticket.release()),
    };
  }

  #placed(pool: EndpointRegistry, { hostPort }: Endpoint, { low, high, from, count, blockTokens }: SharedBlocks): void {
    const end = from + count;
    const blocks = { low: low.slice(from, end), high: high.slice(from, end), from: 0, count, blockTokens };
    this.#later(() => {
      for (const [other, receive] of this.#receivers) {
        const endpoint = other === pool ? undefined : other.byHostPort(hostPort);
        if (endpoint !== undefined) receive(endpoint, blocks);
      }
    });
  }

  #later(act: () => void): void {
    if (this.#delayMs === 0) act();
    else this.#clock.after(this.#delayMs, act);
  }
}

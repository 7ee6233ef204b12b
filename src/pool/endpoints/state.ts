import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { AttemptFailure, EndpointState } from "../../base/inference/endpoint.ts";
import { oneLine } from "../../base/inference/errors.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";

/** Back-off between tries of a down endpoint, milliseconds. */
export const FIRST_RETRY = 250;
export const LAST_RETRY = 5000;

const FAILURE_WORDS: Readonly<Record<AttemptFailure, string>> = {
  connect: "could not connect",
  timeout: "timed out",
  reset: "connection was reset",
  status: "refused by status",
};

/**
 * Moves endpoints between `up`, `blind` and `down` and records the time and the cause. The registry decides what a down
 * endpoint means for routing. The collector decides from `retryAt` when it is tried again.
 */
export class EndpointStates {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #onChange: (endpoint: PoolEndpoint, from: EndpointState) => void;

  /** @param onChange called after each change of state, not when only the cause changes */
  constructor(clock: Clock, random: Random, onChange: (endpoint: PoolEndpoint, from: EndpointState) => void) {
    this.#clock = clock;
    this.#random = random;
    this.#onChange = onChange;
  }

  /** A scrape read a page with at least one value. */
  readable(endpoint: PoolEndpoint): void {
    this.#enter(endpoint, "up", "metrics page read");
  }

  /** A scrape read nothing usable in time, but the server is there: it has accepted the connection. */
  unreadable(endpoint: PoolEndpoint, detail: string): void {
    this.#enter(endpoint, "blind", `scrape: ${detail}`);
  }

  /**
   * A connection was refused, reset or not accepted in time: one more step of the back-off.
   * @param what the connection that failed, where it was no scrape
   */
  unreachable(endpoint: PoolEndpoint, failure: AttemptFailure, detail: string, what = "scrape"): void {
    const step = endpoint.state === "down" ? endpoint.failures : 0;
    endpoint.failures = Math.min(step + 1, 32);
    endpoint.retryAt = this.#clock.now() + this.#backOff(step);
    this.#enter(endpoint, "down", `${what} ${FAILURE_WORDS[failure]}: ${detail}`);
  }

  /** A down endpoint that is never scraped has accepted a connection: it is back. */
  connected(endpoint: PoolEndpoint): void {
    if (endpoint.state === "down") this.#enter(endpoint, "up", "a connection was accepted");
  }

  /**
   * A request attempt failed. A failure by status says nothing about reachability and changes nothing. On an endpoint that is
   * already down only the cause is renewed, because the back-off counts this process's own tries. Otherwise a burst of requests
   * would raise the wait for a recovered server to the longest one.
   */
  attemptFailed(endpoint: PoolEndpoint, failure: AttemptFailure, detail: string): void {
    if (failure === "status") return;
    if (endpoint.state !== "down") {
      endpoint.failures = 1;
      endpoint.retryAt = this.#clock.now() + this.#backOff(0);
    }
    this.#enter(endpoint, "down", `request ${FAILURE_WORDS[failure]}: ${detail}`);
  }

  /**
   * A peer could not reach the endpoint, and this process knows nothing newer of it. It is down until the first try of this process,
   * which comes as soon as after a failure of its own.
   */
  unreachableForPeer(endpoint: PoolEndpoint): void {
    if (endpoint.state === "down") return;
    endpoint.failures = 1;
    endpoint.retryAt = this.#clock.now() + this.#backOff(0);
    this.#enter(endpoint, "down", "another replica could not reach it");
  }

  /** A request attempt was answered: a down endpoint is back. The next scrape decides whether its metrics can be read. */
  attemptSucceeded(endpoint: PoolEndpoint): void {
    if (endpoint.state === "down") this.#enter(endpoint, "up", "a request was answered");
  }

  /** The k-th wait is uniform in [250 ms x 2^k, twice that), at most 5 s: doubling, and pools do not retry in step. */
  #backOff(step: number): number {
    const floor = Math.min(FIRST_RETRY * 2 ** step, LAST_RETRY / 2);
    return floor * (1 + this.#random.next());
  }

  #enter(endpoint: PoolEndpoint, state: EndpointState, cause: string): void {
    const from = endpoint.state;
    if (state !== "down") {
      endpoint.failures = 0;
      endpoint.retryAt = Number.NEGATIVE_INFINITY;
    }
    // Compared first, so that an endpoint without a change costs nothing per scrape.
    if (endpoint.cause !== cause) endpoint.cause = oneLine(cause);
    if (state === from) return;
    endpoint.state = state;
    endpoint.since = this.#clock.now();
    endpoint.sinceWall = this.#clock.wall();
    this.#onChange(endpoint, from);
  }
}

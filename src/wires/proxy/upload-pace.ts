/** The time by which more of a request body must have come: a client must not stay by sending a byte now and then. */
export class UploadPace {
  readonly #idle: number;
  readonly #rate: number;
  /** When the body began, moved on by the time for which the proxy itself held it. */
  #since: number;
  #heldAt = 0;

  /**
   * @param idle milliseconds without a byte; twice that time passes before the rate counts
   * @param rate bytes per second on average
   * @param now monotonic milliseconds
   */
  constructor(idle: number, rate: number, now: number) {
    this.#idle = idle;
    this.#rate = rate;
    this.#since = now;
  }

  /** @param received bytes of the body so far @returns monotonic milliseconds */
  due(now: number, received: number): number {
    return Math.min(now + this.#idle, this.#since + 2 * this.#idle + (1000 * received) / this.#rate);
  }

  /** The proxy stops reading, which is no fault of the client. */
  hold(now: number): void {
    this.#heldAt = now;
  }

  resume(now: number): void {
    this.#since += now - this.#heldAt;
  }
}

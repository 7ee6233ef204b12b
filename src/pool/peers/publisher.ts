import type { Clock, Timer } from "../../base/clock/clock.ts";
import { HEARTBEAT, LEAST_INTERVAL } from "./message.ts";

/**
 * Decides when something is sent: soon after a change, at most every 20 ms, and after a second without a change. A change while a
 * message is due waits with it, so a burst of changes costs one message.
 */
export class Publisher {
  readonly #clock: Clock;
  readonly #send: (isHeartbeat: boolean) => void;
  readonly #heartbeat: number;
  #timer: Timer | undefined;
  #due = Number.POSITIVE_INFINITY;
  #sentAt = Number.NEGATIVE_INFINITY;
  #state: "stopped" | "waiting" | "due" = "stopped";

  /**
   * @param send sends what is known now; `isHeartbeat` = nothing changed for a second
   * @param heartbeat milliseconds; Infinity = nothing is sent without a change
   */
  constructor(clock: Clock, send: (isHeartbeat: boolean) => void, heartbeat: number = HEARTBEAT) {
    this.#clock = clock;
    this.#send = send;
    this.#heartbeat = heartbeat;
  }

  /** Sends for the first time. */
  start(): void {
    if (this.#state !== "stopped") return;
    this.#state = "waiting";
    this.changed();
  }

  /** What is to be sent has changed. Returns at once: the message goes out after the present stretch of work. */
  changed(): void {
    if (this.#state !== "waiting") return;
    this.#state = "due";
    this.#arm(Math.max(this.#clock.now(), this.#sentAt + LEAST_INTERVAL));
  }

  close(): void {
    this.#state = "stopped";
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #arm(at: number): void {
    if (this.#timer !== undefined && this.#due <= at) return;
    this.#timer?.cancel();
    this.#due = at;
    this.#timer = this.#clock.after(at - this.#clock.now(), () => this.#fire(), true);
  }

  #fire(): void {
    const isHeartbeat = this.#state === "waiting";
    this.#timer = undefined;
    this.#state = "waiting";
    this.#sentAt = this.#clock.now();
    this.#send(isHeartbeat);
    if (this.#timer === undefined && this.#heartbeat !== Number.POSITIVE_INFINITY)
      this.#arm(this.#sentAt + this.#heartbeat);
  }
}

import type { Clock, Timer } from "../../base/clock/clock.ts";
import { HEARTBEAT, LEAST_INTERVAL } from "./message.ts";

/** Why something is sent: it has changed, it is told once more, or it has not changed for long. */
export type SendReason = "change" | "repeat" | "heartbeat";

/**
 * `stopped`: nothing is sent. `due`: a change waits for its time. `changed`: the last message told a change, which a repeat follows.
 * `quiet`: it told nothing new.
 */
type PublisherState = "stopped" | "due" | "changed" | "quiet";

const SENDS: Readonly<Record<Exclude<PublisherState, "stopped">, readonly [SendReason, PublisherState]>> = {
  due: ["change", "changed"],
  changed: ["repeat", "quiet"],
  quiet: ["heartbeat", "quiet"],
};

/** Milliseconds after a message until the next one without a change; Infinity = there is none. */
export interface PublisherPauses {
  /** After a change. Where changes follow each other, each message heals the loss of the one before, and none is repeated. */
  readonly repeat: number;
  readonly heartbeat: number;
}

/** For what must not be lost for long. */
const HEALING: PublisherPauses = { repeat: LEAST_INTERVAL, heartbeat: HEARTBEAT };
/** For what the store keeps. */
export const CHANGES_ONLY: PublisherPauses = { repeat: Number.POSITIVE_INFINITY, heartbeat: Number.POSITIVE_INFINITY };

/**
 * Decides when something is sent: soon after a change, at most every 20 ms; once more 20 ms after the last change; and after a
 * second without a change. A change while a message is due waits with it, so a burst of changes costs one message.
 */
export class Publisher {
  readonly #clock: Clock;
  readonly #send: (reason: SendReason) => void;
  readonly #pauses: PublisherPauses;
  #timer: Timer | undefined;
  #due = Number.POSITIVE_INFINITY;
  #sentAt = Number.NEGATIVE_INFINITY;
  #state: PublisherState = "stopped";

  /** @param send sends what is known now */
  constructor(clock: Clock, send: (reason: SendReason) => void, pauses = HEALING) {
    this.#clock = clock;
    this.#send = send;
    this.#pauses = pauses;
  }

  /** Sends for the first time. */
  start(): void {
    if (this.#state !== "stopped") return;
    this.#state = "quiet";
    this.changed();
  }

  /** What is to be sent has changed. Returns at once: the message goes out after the present stretch of work. */
  changed(): void {
    if (this.#state === "stopped" || this.#state === "due") return;
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
    this.#timer = undefined;
    if (this.#state === "stopped") return;
    const [reason, next] = SENDS[this.#state];
    this.#state = next;
    this.#sentAt = this.#clock.now();
    this.#send(reason);
    const pause = reason === "change" ? Math.min(this.#pauses.repeat, this.#pauses.heartbeat) : this.#pauses.heartbeat;
    if (this.#timer === undefined && pause !== Number.POSITIVE_INFINITY) this.#arm(this.#sentAt + pause);
  }
}

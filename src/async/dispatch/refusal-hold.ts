import type { Clock, Timer } from "../../base/clock/clock.ts";
import type { Delivery } from "./delivery.ts";

/** Most refused messages of one round, and bytes of their requests; one claim may exceed it. */
const MOST = 10_000;
const MOST_BYTES = 64 * 1024 * 1024;
/** Shortest round in milliseconds, and milliseconds on top for each message: many messages cost more to claim and give back. */
const ROUND = 1000;
const PER_MESSAGE = 1;

/**
 * Messages of one queue that a gate refused in this round. They stay claimed until the round ends, so that the gate sees the
 * messages behind them; put back at once, they would be in front again (H-4).
 */
export class RefusalHold {
  readonly #clock: Clock;
  readonly #onEnd: (held: readonly Delivery[]) => void;
  readonly #keys = new Set<string>();
  #held: Delivery[] = [];
  #bytes = 0;
  #timer: Timer | undefined;

  /** @param onEnd gives the messages back */
  constructor(clock: Clock, onEnd: (held: readonly Delivery[]) => void) {
    this.#clock = clock;
    this.#onEnd = onEnd;
  }

  get size(): number {
    return this.#held.length;
  }

  /**
   * True: no more messages may be claimed until the round ends. A shorter round would claim, refuse and give back all messages
   * as fast as the broker can.
   */
  get full(): boolean {
    return this.#held.length >= MOST || this.#bytes >= MOST_BYTES;
  }

  /** A message with this key was refused in this round, so the gate would refuse this one, too. */
  refuses(key: string | undefined): boolean {
    return key !== undefined && this.#keys.has(key);
  }

  /** @param key see `DispatchGate.refusalKey` */
  add(delivery: Delivery, key: string | undefined): void {
    this.#held.push(delivery);
    this.#bytes += delivery.claim.message.text.length;
    if (key !== undefined) this.#keys.add(key);
    if (this.#timer === undefined) this.#arm(ROUND);
  }

  /** Ends the round now. */
  end(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const held = this.#held;
    this.#held = [];
    this.#bytes = 0;
    this.#keys.clear();
    if (held.length > 0) this.#onEnd(held);
  }

  #arm(ms: number): void {
    const sized = this.#held.length;
    this.#timer = this.#clock.after(
      ms,
      () => {
        const more = (this.#held.length - sized) * PER_MESSAGE;
        if (more > 0 && ms === ROUND) this.#arm(more);
        else this.end();
      },
      true,
    );
  }
}

import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { PeerReceiver, PeerTransport } from "../../pool/peers/transport.ts";
import type { SimSharing } from "./picker-flags.ts";

/** Milliseconds after which a picker that missed a part of the log reads again: a connection comes back after 50 ms to 2 s. */
const READS_AGAIN = 100;
/** Attempts to read a part of the log; then it is lost. */
const MOST_ATTEMPTS = 100;

/**
 * The store between simulated pickers. Each message arrives after a delay. A load that does not arrive is lost. The log loses nothing:
 * what does not arrive is read again, and what comes behind it waits.
 */
export class SimStore {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #sharing: SimSharing;
  /** Each with the time before which nothing of the log arrives. */
  readonly #receivers = new Map<PeerReceiver, number>();

  constructor(clock: Clock, random: Random, sharing: SimSharing) {
    this.#clock = clock;
    this.#random = random;
    this.#sharing = sharing;
  }

  /** The transport of one more picker. */
  connect(): PeerTransport {
    let own: PeerReceiver | undefined;
    return {
      publishLoad: (message) => this.#publish(own, message),
      appendPlaced: (message) => this.#append(own, message),
      start: (receiver) => {
        own = receiver;
        this.#receivers.set(receiver, 0);
        receiver.connection(true);
        receiver.caughtUp();
      },
      close: async () => {
        if (own !== undefined) this.#receivers.delete(own);
      },
    };
  }

  #publish(sender: PeerReceiver | undefined, message: Uint8Array): void {
    for (const receiver of this.#receivers.keys())
      if (!this.#misses(sender, receiver)) this.#deliver(receiver, this.#sharing.delayMs, () => receiver.load(message));
  }

  #append(sender: PeerReceiver | undefined, message: Uint8Array): void {
    const now = this.#clock.now();
    for (const [receiver, before] of this.#receivers) {
      let attempts = 1;
      while (attempts <= MOST_ATTEMPTS && this.#misses(sender, receiver)) attempts++;
      if (attempts > MOST_ATTEMPTS) continue;
      const at = Math.max(before, now + this.#sharing.delayMs) + (attempts - 1) * READS_AGAIN;
      this.#receivers.set(receiver, at);
      this.#deliver(receiver, at - now, () => receiver.placed(message));
    }
  }

  /** An own message comes back, too, as from a store. */
  #misses(sender: PeerReceiver | undefined, receiver: PeerReceiver): boolean {
    const { loss } = this.#sharing;
    return loss > 0 && receiver !== sender && this.#random.next() < loss;
  }

  #deliver(receiver: PeerReceiver, ms: number, deliver: () => void): void {
    this.#clock.after(ms, () => {
      if (this.#receivers.has(receiver)) deliver();
    });
  }
}

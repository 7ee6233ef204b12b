import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { PeerReceiver, PeerTransport } from "../../pool/peers/transport.ts";
import type { SimSharing } from "./picker-flags.ts";

/** The store between simulated pickers: each message arrives after a delay, or does not arrive. */
export class SimStore {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #sharing: SimSharing;
  readonly #receivers = new Set<PeerReceiver>();

  constructor(clock: Clock, random: Random, sharing: SimSharing) {
    this.#clock = clock;
    this.#random = random;
    this.#sharing = sharing;
  }

  /** The transport of one more picker. */
  connect(): PeerTransport {
    let own: PeerReceiver | undefined;
    return {
      publishLoad: (message) => this.#send(own, (receiver) => receiver.load(message)),
      appendPlaced: (message) => this.#send(own, (receiver) => receiver.placed(message)),
      start: (receiver) => {
        own = receiver;
        this.#receivers.add(receiver);
        receiver.connection(true);
        receiver.caughtUp();
      },
      close: async () => {
        if (own !== undefined) this.#receivers.delete(own);
      },
    };
  }

  #send(sender: PeerReceiver | undefined, deliver: (receiver: PeerReceiver) => void): void {
    const { delayMs, loss } = this.#sharing;
    for (const receiver of this.#receivers) {
      // An own message comes back, too, as from a store.
      if (loss > 0 && receiver !== sender && this.#random.next() < loss) continue;
      this.#clock.after(delayMs, () => {
        if (this.#receivers.has(receiver)) deliver(receiver);
      });
    }
  }
}

import { SeededRandom } from "../../base/clock/random.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { SequenceSpec } from "../simulator/sequence.ts";
import { SimCluster, type SimClusterOptions } from "./cluster.ts";
import { LateTwins } from "./late-twins.ts";
import type { SimPickers } from "./picker-flags.ts";
import type { SimListener } from "./sim-listener.ts";
import { SimStore } from "./sim-store.ts";

/** Several pickers in front of the same engines. Requests come to them in turn, as from a proxy that balances over them. */
export class PickerReplicas {
  readonly #pickers: readonly SimCluster[];
  #next = 0;

  constructor(options: Omit<SimClusterOptions, "peers" | "twins">, { count, sharing }: SimPickers) {
    const { clock, random } = options;
    const shares = sharing !== undefined && count > 1;
    const twins = shares && sharing.exact ? new LateTwins(clock, sharing.delayMs) : undefined;
    const store =
      shares && twins === undefined ? new SimStore(clock, new SeededRandom(random.below(2 ** 32)), sharing) : undefined;
    this.#pickers = Array.from({ length: count }, (_, i) => {
      // A single picker has the chance of a run without replicas, so that both give the same figures.
      const own = count === 1 ? random : new SeededRandom(random.below(2 ** 32) + i);
      return new SimCluster({ ...options, random: own, peers: store?.connect(), twins });
    });
  }

  scrape(open: () => boolean): void {
    for (const picker of this.#pickers) picker.scrape(open);
  }

  submit(understood: InferenceRequest, spec: SequenceSpec, listener: SimListener): void {
    this.#pickers[this.#next++ % this.#pickers.length]!.submit(understood, spec, listener);
  }

  close(): void {
    for (const picker of this.#pickers) picker.close();
  }
}

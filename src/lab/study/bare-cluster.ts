import type { Random } from "../../base/clock/random.ts";
import type { ModelEngine } from "../simulator/model-engine.ts";
import type { SequenceSpec } from "../simulator/sequence.ts";
import type { Rule } from "./policy.ts";
import { type SimListener, sequenceListener } from "./sim-listener.ts";

/** A rule in front of simulated engines: what a balancer does that knows nothing but what it sent. */
export class BareCluster {
  readonly #engines: readonly ModelEngine[];
  readonly #rule: Rule;
  readonly #loads: number[];
  readonly #draw: (bound: number) => number;

  constructor(engines: readonly ModelEngine[], rule: Rule, random: Random) {
    this.#engines = engines;
    this.#rule = rule;
    this.#loads = engines.map(() => 0);
    this.#draw = (bound) => random.below(bound);
  }

  submit(spec: SequenceSpec, listener: SimListener): void {
    const loads = this.#loads;
    const at = this.#rule(loads, this.#draw);
    loads[at]!++;
    listener.placed?.(at);
    const ended = (): void => {
      loads[at]!--;
    };
    this.#engines[at]!.submit(
      spec,
      sequenceListener(listener, () => {}, ended),
    );
  }
}

import type { Random } from "../../base/clock/random.ts";
import type { ModelEngine } from "../simulator/model-engine.ts";
import type { SequenceSpec } from "../simulator/sequence.ts";
import type { Rule } from "./policies.ts";
import { type SimListener, sequenceListener } from "./sim-listener.ts";

/** A rule in front of simulated engines: a balancer that knows only the requests it has sent. */
export class BareCluster {
  readonly #engines: readonly ModelEngine[];
  readonly #rule: Rule;
  readonly #loads: number[];
  readonly #draw: (bound: number) => number;
  readonly #isUp: () => boolean;

  /** @param isUp whether the servers are there; default: from the start */
  constructor(engines: readonly ModelEngine[], rule: Rule, random: Random, isUp: () => boolean = () => true) {
    this.#engines = engines;
    this.#rule = rule;
    this.#loads = engines.map(() => 0);
    this.#draw = (bound) => random.below(bound);
    this.#isUp = isUp;
  }

  submit(spec: SequenceSpec, listener: SimListener): void {
    if (!this.#isUp()) {
      listener.rejected("no_endpoints", 0);
      return;
    }
    const loads = this.#loads;
    const at = this.#rule(loads, this.#draw);
    loads[at]!++;
    listener.placed?.(at, undefined);
    const ended = (): void => {
      loads[at]!--;
    };
    this.#engines[at]!.submit(
      spec,
      sequenceListener(listener, () => {}, ended),
    );
  }
}

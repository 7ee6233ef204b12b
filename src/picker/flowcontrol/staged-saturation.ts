import type { Clock } from "../../base/clock/clock.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { SaturationDetector } from "../../base/plugin/flow-kinds.ts";
import type { FlowRules } from "./rules.ts";
import { NO_STAGES, type Stages } from "./stages.ts";

/** The saturation of each stage that has endpoints, and the one that counts. */
export interface StageSaturation {
  readonly prefill: number | undefined;
  readonly decode: number | undefined;
  readonly effective: number;
}

/** Milliseconds until a detector that does not say shows that a request has ended (scheduling 6.9). */
const SETTLES = 500;

/** For a pool that has room for every request. */
export const IDLE: SaturationDetector = { saturation: () => 0 };

/** Measures the pool by a detector, each stage on its own (scheduling 6.5). */
export class StagedSaturation {
  readonly #clock: Clock;
  readonly #pool: () => readonly Endpoint[];
  readonly #failed: (error: unknown) => void;
  /** The pool that `#stages` was made of. */
  #stagesFor: readonly Endpoint[] | undefined;
  #stages: Stages = NO_STAGES;
  #split: FlowRules["stages"];
  #detector: SaturationDetector;

  /**
   * @param pool the same array until an endpoint comes or goes
   * @param split into stages
   * @param failed receives what the detector throws when it is asked for what to expect
   */
  constructor(
    clock: Clock,
    pool: () => readonly Endpoint[],
    detector: SaturationDetector,
    split: FlowRules["stages"],
    failed: (error: unknown) => void,
  ) {
    this.#clock = clock;
    this.#pool = pool;
    this.#detector = detector;
    this.#split = split;
    this.#failed = failed;
  }

  /** Puts another detector, and perhaps another split, in force. */
  use(detector: SaturationDetector, split = this.#split): void {
    this.#detector = detector;
    this.#split = split;
    this.#stagesFor = undefined;
  }

  /** Milliseconds until the detector shows that a request has ended. */
  get settles(): number {
    return this.#detector.settles ?? SETTLES;
  }

  /** The figures as scrapes show them (scheduling 5.3). Throws what the detector throws. */
  measured(): StageSaturation {
    const now = this.#clock.now();
    return this.#by((endpoints) => this.#detector.saturation(endpoints, now));
  }

  /**
   * The effective figure as it will be when scrapes show all that was sent. A detector that fails holds nothing back: 0.
   * @param further requests that were dispatched and count at no endpoint yet
   * @param now monotonic milliseconds
   */
  expected(further: number, now: number): number {
    const detector = this.#detector;
    try {
      return this.#by((endpoints) =>
        detector.expected === undefined
          ? detector.saturation(endpoints, now)
          : detector.expected(endpoints, now, further),
      ).effective;
    } catch (error) {
      this.#failed(error);
      return 0;
    }
  }

  /** The higher stage counts. Without any stage the whole pool counts. */
  #by(measure: (endpoints: readonly Endpoint[]) => number): StageSaturation {
    const pool = this.#pool();
    if (pool !== this.#stagesFor) {
      this.#stagesFor = pool;
      this.#stages = this.#split(pool);
    }
    const { prefill, decode } = this.#stages;
    const first = prefill.length === 0 ? undefined : measure(prefill);
    const second = decode.length === 0 ? undefined : measure(decode);
    if (first === undefined && second === undefined)
      return { prefill: undefined, decode: undefined, effective: measure(pool) };
    return { prefill: first, decode: second, effective: Math.max(first ?? 0, second ?? 0) };
  }
}

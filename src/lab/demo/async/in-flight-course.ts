import { WAVE } from "./realtime.ts";

/** Shares of an act over which the mean is taken: long enough after each turn that what began before it has ended. */
const BEFORE = [WAVE.from - 0.1, WAVE.from] as const;
const DURING = [WAVE.to - 0.1, WAVE.to] as const;
const AFTER = [WAVE.to + 0.25, WAVE.to + 0.35] as const;
/** In which it yields, also where a busy machine makes the metrics late. */
const YIELDING = [WAVE.from, WAVE.to + 0.25] as const;

/** Mean number of requests of the backlog in flight before, in and after the wave of realtime traffic. */
export interface InFlightSummary {
  readonly before: number;
  readonly during: number;
  readonly after: number;
  /** The fewest from the beginning of the wave until some time after it. */
  readonly least: number;
}

/** How many requests of the backlog were in flight in the course of an act. */
export class InFlightCourse {
  readonly #samples: { readonly share: number; readonly inFlight: number }[] = [];

  /** @param share of the act that is over, 0..1 */
  add(share: number, inFlight: number): void {
    this.#samples.push({ share, inFlight });
  }

  summary(): InFlightSummary {
    const least = Math.min(...this.#within(YIELDING));
    return {
      before: this.#mean(BEFORE),
      during: this.#mean(DURING),
      after: this.#mean(AFTER),
      least: Number.isFinite(least) ? least : 0,
    };
  }

  #mean(part: readonly [number, number]): number {
    const within = this.#within(part);
    const sum = within.reduce((total, inFlight) => total + inFlight, 0);
    return within.length === 0 ? 0 : Math.round((sum / within.length) * 10) / 10;
  }

  #within([from, to]: readonly [number, number]): number[] {
    return this.#samples.filter(({ share }) => share >= from && share < to).map(({ inFlight }) => inFlight);
  }
}

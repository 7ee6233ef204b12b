import { bucketQuantile, type SecondRing } from "../../../base/telemetry/second-ring.ts";
import type { FigureName, Figures, Overview, Quantiles } from "../feed/overview.ts";
import { shown } from "./process.ts";

/** Reads a figure of one second; NaN = no observation. */
export type FigureReader = (ring: SecondRing, second: number) => number;

const QUANTILES = [
  ["p50", 0.5],
  ["p90", 0.9],
  ["p99", 0.99],
] as const satisfies readonly (readonly [keyof Quantiles, number])[];

/** Every figure of a process, and how to read it from its ring. */
export class FigureTable {
  readonly #readers: ReadonlyMap<FigureName, FigureReader>;

  constructor(readers: Iterable<readonly [FigureName, FigureReader]>) {
    this.#readers = new Map(readers);
  }

  at(ring: SecondRing, second: number): Figures<number | null> {
    const figures: Partial<Record<FigureName, number | null>> = {};
    for (const [name, read] of this.#readers) figures[name] = shown(read(ring, second));
    return figures;
  }

  /** The seconds `from` to `to`. */
  between(ring: SecondRing, from: number, to: number): Pick<Overview, "from" | "step" | "count" | "figures"> {
    const count = Math.max(0, to - from + 1);
    const figures: Partial<Record<FigureName, (number | null)[]>> = {};
    for (const [name, read] of this.#readers)
      figures[name] = Array.from({ length: count }, (_, n) => shown(read(ring, from + n)));
    return { from, step: 1, count, figures };
  }
}

/** The reader of a gauge. @param place as in the shape of the ring */
export function gauge(place: number): FigureReader {
  return (ring, second) => ring.gauge(second, place);
}

/** The reader of a sum. */
export function sum(place: number): FigureReader {
  return (ring, second) => ring.sum(second, place);
}

/** `NAME.p50`, `NAME.p90` and `NAME.p99` of a histogram. */
export function quantiles(
  name: "ttft" | "duration" | "queued" | "latency",
  place: number,
): readonly (readonly [FigureName, FigureReader])[] {
  return QUANTILES.map(([short, q]) => [`${name}.${short}`, (ring, second) => ring.quantile(second, place, q)]);
}

/** The quantiles of bucket counts in milliseconds; null = no observation, or undefined counts. */
export function quantilesOf(counts: ArrayLike<number> | undefined): Quantiles {
  const [p50, p90, p99] = QUANTILES.map(([, q]) => (counts === undefined ? null : shown(bucketQuantile(counts, q))));
  return { p50: p50!, p90: p90!, p99: p99! };
}

import { SluiceError } from "../../base/inference/errors.ts";
import type { MetricSample } from "../../base/plugin/gate.ts";

/**
 * The smallest value of several series, for a budget: whichever of them tells the truth, it is not exceeded.
 * @throws SluiceError METRIC_SOURCE when there is none, or one that is no finite number
 */
export function lowest(samples: readonly MetricSample[]): number {
  return extreme(samples, Math.min);
}

/** The largest value of several series, for a load. @throws as `lowest` */
export function highest(samples: readonly MetricSample[]): number {
  return extreme(samples, Math.max);
}

function extreme(samples: readonly MetricSample[], choose: (a: number, b: number) => number): number {
  const first = samples[0];
  if (first === undefined) throw new SluiceError("METRIC_SOURCE", "the metric has no samples");
  let found = first.value;
  for (const { value } of samples) {
    if (!Number.isFinite(value)) throw new SluiceError("METRIC_SOURCE", `a sample is ${value}`);
    found = choose(found, value);
  }
  return found;
}

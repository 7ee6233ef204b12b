import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { WorkloadDefinition } from "../simulator/workloads/workload.ts";

/** Where arrivals are what the rate says they are. */
const PLAIN = "requests/s";
/** Milliseconds after which every request is answered: only what waits for answers by its nature depends on it. */
const ANSWER_MS = 10_000;
/** Requests that are counted at most, then the rest of the time is taken for alike. */
const MOST_COUNTED = 20_000;

export interface ExpectedOptions {
  readonly definition: WorkloadDefinition;
  readonly rates: readonly number[];
  readonly durationMs: number;
  readonly servers: number;
}

/**
 * About how many requests a run has at each of the rates. A rate of something else than requests is tried out, without
 * servers, at the lowest one; the others are taken to be in proportion.
 */
export function expectedRequests({ definition, rates, durationMs, servers }: ExpectedOptions): readonly number[] {
  const { rate: warmRate = 0, durationMs: warmMs = 0 } = definition.warmUp ?? {};
  const before = (warmRate * warmMs) / 1000;
  if (definition.rateUnit === PLAIN) return rates.map((rate) => before + (rate * durationMs) / 1000);
  const lowest = Math.min(...rates);
  const clock = new VirtualClock();
  let requests = 0;
  definition.make({ rate: lowest, durationMs, servers }).start({
    clock,
    random: new SeededRandom(1),
    send(_, ended) {
      requests++;
      if (ended !== undefined) clock.after(ANSWER_MS, () => ended("finished"));
    },
  });
  while (clock.now() < durationMs && requests < MOST_COUNTED) clock.advance(Math.min(1000, durationMs - clock.now()));
  const perRate = (requests * (durationMs / Math.max(1, clock.now()))) / lowest;
  return rates.map((rate) => rate * perRate);
}

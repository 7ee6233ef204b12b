import type { LoadSample, RunResult, Spread, StudiedWorkload } from "../result.ts";
import { type Figure, HIT_RATE, LOAD_SPREAD, number, THROUGHPUT, TTFT_P90 } from "./figures.ts";
import { type StudyIndex, spreadOf } from "./study-index.ts";

/** The most moments in a plot over time: a small plot cannot show more. */
const MOMENTS = 120;

/** A number to draw; null = draw nothing. */
type Value = number | null;

/** A line or a bar with the range around it. */
interface RangeSeries {
  readonly name: string;
  /** Index of the policy in the study; decides colour and dash. */
  readonly policy: number;
  readonly median: readonly Value[];
  readonly min: readonly Value[];
  readonly max: readonly Value[];
}

interface PlotHead {
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  /** Text after a value, such as `s`; may be empty. */
  readonly unit: string;
}

/** One figure of every policy: lines with bands over rates, or bars for a single rate. */
export interface RangePlot extends PlotHead {
  readonly form: "lines" | "bars";
  readonly log: boolean;
  /** Rates, ascending; for bars, the indexes of the policies. */
  readonly x: readonly number[];
  readonly series: readonly RangeSeries[];
  /** Plots of the same name share the cursor. */
  readonly together: string;
}

/** Requests at each server over time, under one policy. */
export interface LoadPlot extends PlotHead {
  readonly form: "loads";
  readonly policy: number;
  /** Seconds. */
  readonly x: readonly number[];
  /** A list for each server. */
  readonly servers: readonly (readonly number[])[];
  /** The top of the scale and its last second, common to the plots of one workload. */
  readonly top: number;
  readonly end: number;
}

export type Plot = RangePlot | LoadPlot;

interface Drawn {
  readonly title: string;
  readonly label: string;
  readonly unit: string;
  readonly figure: Figure;
  /** Factor from the figure to the drawn value. */
  readonly scale: number;
  readonly log: boolean;
}

const DRAWN: readonly Drawn[] = [
  { title: "TTFT p90", label: "seconds, log scale", unit: "s", figure: TTFT_P90, scale: 0.001, log: true },
  { title: "Output tokens/s", label: "tokens/s", unit: "tokens/s", figure: THROUGHPUT, scale: 1, log: false },
  { title: "Cache hit rate", label: "% of prompt tokens", unit: "%", figure: HIT_RATE, scale: 100, log: false },
  { title: "Load spread", label: "max/mean load", unit: "", figure: LOAD_SPREAD, scale: 1, log: false },
];

/** Four significant digits: more than a plot shows. A log scale cannot show zero or less. */
function value(of: number, { scale, log }: Drawn): Value {
  const scaled = Number((of * scale).toPrecision(4));
  return Number.isFinite(scaled) && (scaled > 0 || !log) ? scaled : null;
}

function rangeSeries(
  name: string,
  policy: number,
  spreads: readonly (Spread | undefined)[],
  drawn: Drawn,
): RangeSeries {
  const each = (key: keyof Spread): Value[] => spreads.map((spread) => (spread ? value(spread[key], drawn) : null));
  return { name, policy, median: each("median"), min: each("min"), max: each("max") };
}

/** TTFT p90, throughput, hit rate and load spread of a workload. */
export function rangePlots(index: StudyIndex, workload: StudiedWorkload): RangePlot[] {
  const { policies } = index.study;
  const rates = index.rates(workload);
  const lines = rates.length > 1;
  return DRAWN.map((drawn): RangePlot => {
    const spread = (rate: number, policy: string) => index.spread(workload, rate, policy, drawn.figure);
    return {
      form: lines ? "lines" : "bars",
      title: lines ? `${drawn.title} over rate` : `${drawn.title} at ${number(rates[0] ?? 0)} ${workload.rateUnit}`,
      xLabel: lines ? workload.rateUnit : "policy",
      yLabel: drawn.label,
      unit: drawn.unit,
      log: drawn.log,
      x: lines ? rates : policies.map((_, i) => i + 1),
      series: policies.map(({ name }, i) =>
        lines
          ? rangeSeries(
              name,
              i,
              rates.map((rate) => spread(rate, name)),
              drawn,
            )
          : rangeSeries(
              name,
              i,
              policies.map((_, at) => (at === i ? spread(rates[0] ?? 0, name) : undefined)),
              drawn,
            ),
      ),
      together: workload.name,
    };
  });
}

/** At most `MOMENTS` samples, each the mean of its stretch. */
function thinned(samples: readonly LoadSample[]): LoadSample[] {
  const size = Math.ceil(samples.length / MOMENTS);
  return Array.from({ length: Math.ceil(samples.length / size) }, (_, i): LoadSample => {
    const stretch = samples.slice(i * size, (i + 1) * size);
    const mean = (server: number): number =>
      Math.round((stretch.reduce((sum, { loads }) => sum + (loads[server] ?? 0), 0) / stretch.length) * 10) / 10;
    return { at: Math.round(stretch[0]!.at * 10) / 10, loads: stretch[0]!.loads.map((_, server) => mean(server)) };
  });
}

/** The load of every server over time at the highest rate with samples: a plot per policy, from its first such run. */
export function loadPlots(index: StudyIndex, workload: StudiedWorkload): { title: string; plots: LoadPlot[] } {
  const sampled = index.runsOf(workload).filter(({ samples }) => samples.length > 0);
  const rate = spreadOf(sampled.map((run) => run.rate)).max;
  const runs = index.study.policies.flatMap(({ name }, policy) => {
    const run = sampled.find((one: RunResult) => one.policy === name && one.rate === rate);
    return run === undefined ? [] : [{ policy, run, samples: thinned(run.samples) }];
  });
  const loads = runs.flatMap(({ samples }) => samples.flatMap((sample) => sample.loads));
  const top = loads.reduce((most, load) => Math.max(most, load), 1);
  const end = runs.reduce((last, { samples }) => Math.max(last, samples.at(-1)!.at), 1);
  const plots = runs.map(
    ({ policy, run, samples }): LoadPlot => ({
      form: "loads",
      policy,
      title: `${run.policy}, seed ${run.seed}`,
      ...{ xLabel: "seconds since the start", yLabel: "requests at a server", unit: "requests" },
      x: samples.map(({ at }) => at),
      servers: samples[0]!.loads.map((_, server) => samples.map(({ loads }) => loads[server] ?? 0)),
      ...{ top, end },
    }),
  );
  const { warmUp } = workload;
  const ahead = warmUp === undefined ? 0 : (warmUp.durationMs + (warmUp.restMs ?? 0)) / 1000;
  const before = ahead === 0 ? "" : `; the first ${number(ahead)} s are the warm-up`;
  return { title: `Load per server at ${number(rate)} ${workload.rateUnit}${before}`, plots };
}

import { bucketQuantile } from "../../../base/telemetry/second-ring.ts";
import { TRAFFIC_OUTCOMES } from "../../../picker/core/watch/traffic-outcome.ts";
import { GAUGE, HISTOGRAM, SUM, type TrafficWatch } from "../../../picker/core/watch/traffic-watch.ts";
import type {
  ErrorCause,
  FigureName,
  Figures,
  Outcome,
  Overview,
  Quantiles,
  Totals,
  WindowFigures,
} from "../feed/overview.ts";
import { shown } from "./process.ts";

/** The most causes in a window. */
const MAX_CAUSES = 16;
const QUANTILES = [
  ["p50", 0.5],
  ["p90", 0.9],
  ["p99", 0.99],
] as const;

type Reader = (watch: TrafficWatch, second: number) => number;

const sum =
  (place: number): Reader =>
  ({ ring }, second) =>
    ring.sum(second, place);
const gauge =
  (place: number): Reader =>
  ({ ring }, second) =>
    ring.gauge(second, place);
const share =
  (part: number, whole: number): Reader =>
  ({ ring }, second) =>
    ring.sum(second, part) / ring.sum(second, whole);
const quantile =
  (place: number, q: number): Reader =>
  ({ ring }, second) =>
    ring.quantile(second, place, q);

/** Every figure of a gateway or picker, and how to read it from the ring. */
const FIGURES: ReadonlyMap<FigureName, Reader> = new Map<FigureName, Reader>([
  ...TRAFFIC_OUTCOMES.map((outcome, n) => [`requests.${outcome}`, sum(SUM.outcomes + n)] as [FigureName, Reader]),
  ["started", sum(SUM.started)],
  ["decisions", sum(SUM.decisions)],
  ["retries", sum(SUM.retries)],
  ...(["ttft", "duration", "queued"] as const).flatMap((name) =>
    QUANTILES.map(([short, q]) => [`${name}.${short}`, quantile(HISTOGRAM[name], q)] as [FigureName, Reader]),
  ),
  ["tokens.prompt", sum(SUM.prompt)],
  ["tokens.output", sum(SUM.output)],
  ["tokens.cached", sum(SUM.cached)],
  ["prefix.predicted", share(SUM.predicted, SUM.predictedBase)],
  ["prefix.reported", share(SUM.cached, SUM.cachedBase)],
  ["saturation", gauge(GAUGE.saturation)],
  ["inFlight", gauge(GAUGE.inFlight)],
  ["waiting", gauge(GAUGE.waiting)],
  ["endpoints.up", gauge(GAUGE.up)],
  ["endpoints.blind", gauge(GAUGE.blind)],
  ["endpoints.down", gauge(GAUGE.down)],
  ["cpu", gauge(GAUGE.cpu)],
  ["lag", gauge(GAUGE.lag)],
]);

/** The figures of one second. */
export function figuresAt(watch: TrafficWatch, second: number): Figures<number | null> {
  const figures: Partial<Record<FigureName, number | null>> = {};
  for (const [name, read] of FIGURES) figures[name] = shown(read(watch, second));
  return figures;
}

/** The seconds `from` to `to`. */
export function overviewOf(
  watch: TrafficWatch,
  from: number,
  to: number,
): Omit<Overview, "events" | "lastEventId" | "totals"> {
  const count = Math.max(0, to - from + 1);
  const figures: Partial<Record<FigureName, (number | null)[]>> = {};
  for (const [name, read] of FIGURES)
    figures[name] = Array.from({ length: count }, (_, n) => shown(read(watch, from + n)));
  return {
    from,
    step: 1,
    count,
    figures,
    windows: { minute: windowOf(watch, Math.max(from, to - 59), to), all: windowOf(watch, from, to) },
  };
}

/** Since the start of the process. */
export function totalsOf({ totals, tokens, routed }: TrafficWatch): Totals {
  const requests: Partial<Record<Outcome, number>> = {};
  for (const [n, outcome] of TRAFFIC_OUTCOMES.entries()) requests[outcome] = totals[n]!;
  return { requests, tokens: { ...tokens }, routed };
}

function windowOf(watch: TrafficWatch, from: number, to: number): WindowFigures {
  const { ring } = watch;
  const seconds = Math.max(1, to - from + 1);
  const total = (place: number): number => {
    let all = 0;
    for (let second = from; second <= to; second++) all += ring.sum(second, place) || 0;
    return all;
  };
  const quantiles = (histogram: number): Quantiles => {
    const buckets = ring.buckets(from, to, histogram);
    const [p50, p90, p99] = QUANTILES.map(([, q]) => shown(bucketQuantile(buckets, q)));
    return { p50: p50!, p90: p90!, p99: p99! };
  };
  const perSecond = (place: number): number => shown(total(place) / seconds) ?? 0;
  const requestsPerSecond: Partial<Record<Outcome, number>> = {};
  for (const [n, outcome] of TRAFFIC_OUTCOMES.entries()) requestsPerSecond[outcome] = perSecond(SUM.outcomes + n);
  return {
    seconds,
    requestsPerSecond,
    ttftMs: quantiles(HISTOGRAM.ttft),
    durationMs: quantiles(HISTOGRAM.duration),
    queuedMs: quantiles(HISTOGRAM.queued),
    promptTokensPerSecond: perSecond(SUM.prompt),
    outputTokensPerSecond: perSecond(SUM.output),
    predictedHitRate: shown(total(SUM.predicted) / total(SUM.predictedBase)),
    reportedHitRate: shown(total(SUM.cached) / total(SUM.cachedBase)),
    errors: causesOf(watch, from, to),
  };
}

function causesOf({ ring, causes }: TrafficWatch, from: number, to: number): ErrorCause[] {
  const found = causes.map((cause, place) => {
    let count = 0;
    for (let second = from; second <= to; second++) count += ring.counted(second, place);
    return { ...cause, count };
  });
  return found
    .filter(({ count }) => count > 0)
    .sort((a, b) => b.count - a.count)
    .slice(0, MAX_CAUSES);
}

import { TRAFFIC_OUTCOMES } from "../../../picker/core/watch/traffic-outcome.ts";
import { GAUGE, HISTOGRAM, SUM, type TrafficWatch } from "../../../picker/core/watch/traffic-watch.ts";
import type { ErrorCause, Outcome, Overview, Quantiles, Totals, WindowFigures } from "../feed/overview.ts";
import { type FigureReader, FigureTable, gauge, quantiles, quantilesOf, sum } from "./figures.ts";
import { shown } from "./process.ts";

/** The most causes in a window. */
const MAX_CAUSES = 16;
const share =
  (part: number, whole: number): FigureReader =>
  (ring, second) =>
    ring.sum(second, part) / ring.sum(second, whole);

/** Every figure of a gateway or picker. */
export const CORE_FIGURES = new FigureTable([
  ...TRAFFIC_OUTCOMES.map((outcome, n) => [`requests.${outcome}`, sum(SUM.outcomes + n)] as const),
  ["started", sum(SUM.started)],
  ["decisions", sum(SUM.decisions)],
  ["retries", sum(SUM.retries)],
  ...(["ttft", "duration", "queued"] as const).flatMap((name) => quantiles(name, HISTOGRAM[name])),
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

/** The seconds `from` to `to`. */
export function overviewOf(
  watch: TrafficWatch,
  from: number,
  to: number,
): Omit<Overview, "events" | "lastEventId" | "totals"> {
  return {
    ...CORE_FIGURES.between(watch.ring, from, to),
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
  const times = (histogram: number): Quantiles => quantilesOf(ring.buckets(from, to, histogram));
  const perSecond = (place: number): number => shown(total(place) / seconds) ?? 0;
  const requestsPerSecond: Partial<Record<Outcome, number>> = {};
  for (const [n, outcome] of TRAFFIC_OUTCOMES.entries()) requestsPerSecond[outcome] = perSecond(SUM.outcomes + n);
  return {
    seconds,
    requestsPerSecond,
    ttftMs: times(HISTOGRAM.ttft),
    durationMs: times(HISTOGRAM.duration),
    queuedMs: times(HISTOGRAM.queued),
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

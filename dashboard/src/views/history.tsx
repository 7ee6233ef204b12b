import type { FeedKind } from "../../../src/wires/admin/feed/feed.ts";
import type { HistoryFeed, HistoryFigure } from "../../../src/wires/admin/feed/history.ts";
import type { EventEntry } from "../../../src/wires/admin/feed/overview.ts";
import { useAsked } from "../feed/ask.ts";
import { count, percent, perSecond, span } from "../format.ts";
import { TimePlot } from "../plots/time-plot.tsx";

const TITLES: Readonly<Record<HistoryFigure, string>> = {
  requests: "Requests by outcome",
  errors: "Errors",
  ttft: "TTFT",
  duration: "Duration",
  tokens: "Tokens",
  prefix: "Prefix hit rate",
  saturation: "Saturation",
  inFlight: "Requests in flight",
  waiting: "Requests waiting",
  endpoints: "Endpoints",
  backlog: "Backlog",
  budget: "Dispatch budget",
};
const OF_DISPATCH: readonly HistoryFigure[] = ["backlog", "budget", "requests"];
const OF_ROUTING = (Object.keys(TITLES) as HistoryFigure[]).filter((name) => name !== "backlog" && name !== "budget");

const SAY: Readonly<Record<HistoryFeed["unit"], (value: number | null | undefined) => string>> = {
  "1/s": perSecond,
  ms: span,
  share: percent,
  count,
};
const REFRESH_MS = 60_000;

/** Figures of hours and days, from Prometheus. */
export function HistoryPlots(props: { range: string; kind: FeedKind; events: readonly EventEntry[] }) {
  const figures = props.kind === "dispatch" ? OF_DISPATCH : OF_ROUTING;
  return (
    <div class="grid">
      {figures.map((name) => (
        <HistoryPlot key={name} figure={name} range={props.range} events={props.events} />
      ))}
    </div>
  );
}

function HistoryPlot({
  figure: name,
  range,
  events,
}: {
  figure: HistoryFigure;
  range: string;
  events: readonly EventEntry[];
}) {
  const { data, problem } = useAsked<HistoryFeed>(`debug/feed/history?figure=${name}&span=${range}`, REFRESH_MS);
  const length = Math.max(0, ...(data?.series.map(({ values }) => values.length) ?? []));
  const seconds = Array.from({ length }, (_, at) => (data?.from ?? 0) + at * (data?.step ?? 1));
  return (
    <TimePlot
      title={TITLES[name]}
      seconds={seconds}
      lines={(data?.series ?? []).slice(0, 8).map(({ name: label, values }, at) => ({ label, colour: at % 8, values }))}
      window={length * (data?.step ?? 1)}
      say={SAY[data?.unit ?? "count"]}
      events={events}
      version={data?.from ?? 0}
      empty={problem ?? (data === undefined ? "Asking Prometheus" : "Prometheus has no figures of this time.")}
    />
  );
}

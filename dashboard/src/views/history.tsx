import { useEffect } from "preact/hooks";
import type { HistoryFeed, HistoryFigure } from "../../../src/wires/admin/feed/history.ts";
import type { EventEntry, EventsFeed } from "../../../src/wires/admin/feed/overview.ts";
import { ask, useAsked } from "../feed/ask.ts";
import { routes } from "../feed/kind.ts";
import type { Store } from "../feed/store.ts";
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
  messages: "Messages",
  backlog: "Backlog",
  budget: "Dispatch budget",
};
const OF_DISPATCH: readonly HistoryFigure[] = ["messages", "backlog", "budget"];
const OF_ROUTING = (Object.keys(TITLES) as HistoryFigure[]).filter((name) => !OF_DISPATCH.includes(name));

/** The words of the page for the values of labels that have others in /metrics. */
const LABELS: Readonly<Record<string, string>> = {
  complete: "answered, with any status",
  rejected: "refused",
  "client-gone": "cancelled",
  "no-response-phase": "unfollowed",
  error: "failed",
};

const SAY: Readonly<Record<HistoryFeed["unit"], (value: number | null | undefined) => string>> = {
  "1/s": perSecond,
  ms: span,
  share: percent,
  count,
};
const REFRESH_MS = 60_000;

/** Figures of hours and days, from Prometheus. */
export function HistoryPlots({ range, store }: { range: string; store: Store }) {
  const { hello, events } = store;
  const figures = routes(hello) ? OF_ROUTING : OF_DISPATCH;
  // The overview has the events of 15 minutes; the process keeps those of longer.
  useEffect(() => {
    ask<EventsFeed>("debug/feed/events").then(
      ({ events: kept }) => {
        store.takeEvents(kept);
        store.changed();
      },
      // The stream says what is wrong.
      () => undefined,
    );
  }, [store, hello?.instance]);
  return (
    <div class="grid">
      {figures.map((name) => (
        <HistoryPlot key={name} figure={name} range={range} events={events} />
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
      lines={(data?.series ?? []).slice(0, 8).map(({ name: label, values }, at) => ({
        ...{ label: LABELS[label] ?? label, colour: at, values },
      }))}
      window={length * (data?.step ?? 1)}
      say={SAY[data?.unit ?? "count"]}
      events={events}
      version={data?.from ?? 0}
      empty={problem ?? (data === undefined ? "Asking Prometheus" : "Prometheus has no figures for this time.")}
    />
  );
}

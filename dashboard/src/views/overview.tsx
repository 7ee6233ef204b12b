import type { ComponentChildren } from "preact";
import type { ErrorCause, EventEntry, FigureName, Outcome, Totals } from "../../../src/wires/admin/feed/overview.ts";
import { routes } from "../feed/kind.ts";
import { endpointCounts } from "../feed/series.ts";
import type { Store } from "../feed/store.ts";
import { useStore } from "../feed/use-store.ts";
import { count, counted, figure, percent, perSecond, span, spanOfSeconds } from "../format.ts";
import { Badge, Empty, Moment, Panel, Segments, type TileProps, Tiles } from "../parts/basics.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { toneOf } from "../plots/event-tone.ts";
import { type FigureLine, FigurePlot, quantileLines } from "../plots/figure-plot.tsx";
import type { TimePlotProps } from "../plots/time-plot.tsx";
import { linkTo, setQuery, usePlace } from "../router.ts";
import { HistoryPlots } from "./history.tsx";

const OUTCOMES: Readonly<
  Record<Outcome, { readonly text: string; readonly colour: number; readonly isError: boolean }>
> = {
  answered: { text: "answered", colour: 2, isError: false },
  "server-error": { text: "server error", colour: 1, isError: true },
  refused: { text: "refused", colour: 4, isError: true },
  cancelled: { text: "cancelled", colour: 7, isError: false },
  interrupted: { text: "interrupted", colour: 3, isError: true },
  unfollowed: { text: "unfollowed", colour: 6, isError: false },
  failed: { text: "failed", colour: 1, isError: true },
};
const NAMES = Object.keys(OUTCOMES) as Outcome[];

/** The words of an outcome. */
export function outcomeText(outcome: Outcome): string {
  return OUTCOMES[outcome]?.text ?? outcome;
}

const LIVE = [
  ["1m", "1 min"],
  ["5m", "5 min"],
  ["15m", "15 min"],
] as const;
const LONGER = [
  ["1h", "1 h"],
  ["6h", "6 h"],
  ["24h", "24 h"],
  ["7d", "7 d"],
] as const;
const WINDOWS: Readonly<Record<string, number>> = { "1m": 60, "5m": 300, "15m": 900 };

export function OverviewView() {
  const store = useStore();
  const range = usePlace().query.get("range") ?? "5m";
  const options = store.hello?.history === true ? [...LIVE, ...LONGER] : LIVE;
  const window = WINDOWS[range];
  const isRouting = routes(store.hello);
  return (
    <>
      <div class="page-head">
        <h1>Overview</h1>
        <div class="tools">
          <Segments<string>
            label="Time span"
            options={options}
            value={range}
            onChange={(value) => setQuery("range", value)}
          />
        </div>
      </div>
      <div class="live-data">
        <Tiles label="The last minute" tiles={isRouting ? routingTiles(store) : dispatchTiles(store)} />
        {window === undefined ? (
          <HistoryPlots range={range} store={store} />
        ) : (
          <LivePlots store={store} window={window} />
        )}
        <div class="grid two">
          {isRouting && <Errors store={store} />}
          <Events events={store.events} />
        </div>
        {store.totals !== undefined && <TotalsPanel totals={store.totals} />}
      </div>
    </>
  );
}

function routingTiles({ minute, series }: Store): TileProps[] {
  const rates = minute?.requestsPerSecond;
  const sum = (names: readonly Outcome[]): number => names.reduce((total, name) => total + (rates?.[name] ?? 0), 0);
  const [all, wrong] = [sum(NAMES), sum(NAMES.filter((name) => OUTCOMES[name].isError))];
  const share = all === 0 ? null : wrong / all;
  const counts = endpointCounts(series);
  const isAllUp = counts === undefined || counts.up === counts.all;
  // Streams without usage are no tokens of 0: nobody counted them.
  const usage = minute && minute.outputTokensPerSecond + minute.promptTokensPerSecond > 0 ? minute : undefined;
  const saturation = series.latest("saturation");
  const waiting = series.latest("waiting");
  const quantiles = (of: { p50: number | null; p99: number | null } | undefined): string =>
    `p50 ${span(of?.p50)} · p99 ${span(of?.p99)}`;
  return [
    { name: "Requests", value: perSecond(minute && all), also: "ended in the last minute" },
    {
      ...{ name: "Errors", value: percent(share), also: perSecond(wrong) },
      tone: share !== null && share >= 0.01 ? "bad" : "plain",
      title: "refused, server error, interrupted or failed, as a share of the requests that ended in the last minute",
    },
    {
      name: "TTFT p90",
      value: span(minute?.ttftMs.p90),
      also: quantiles(minute?.ttftMs),
      title: "time to first token",
    },
    { name: "Duration p90", value: span(minute?.durationMs.p90), also: quantiles(minute?.durationMs) },
    {
      ...{ name: "Output tokens", value: perSecond(usage?.outputTokensPerSecond) },
      also: usage ? `prompt ${perSecond(usage.promptTokensPerSecond)}` : "no usage reported",
      title: "of answers with usage; streams report usage only if clients ask for it",
    },
    {
      ...{ name: "Prefix hit rate", value: percent(minute?.predictedHitRate) },
      also: `reported ${percent(minute?.reportedHitRate)}`,
      title:
        "share of the prompt tokens in the prefix cache: as the prefix index predicted, and as model servers reported",
    },
    {
      ...{ name: "Saturation", value: percent(saturation), also: "100 % is full" },
      tone: saturation !== null && saturation >= 1 ? "bad" : "plain",
    },
    {
      ...{ name: "In flight", value: count(series.latest("inFlight")) },
      also: waiting === null ? "requests" : `${count(waiting)} waiting`,
    },
    {
      ...{ name: "Endpoints up", value: counts === undefined ? "–" : `${count(counts.up)} of ${count(counts.all)}` },
      also: isAllUp ? "all" : <a href={linkTo("endpoints", "", { state: "not-up" })}>show the others</a>,
      tone: isAllUp ? "plain" : "bad",
    },
  ];
}

function dispatchTiles({ series, hello }: Store): TileProps[] {
  const isBatches = hello?.kind === "batch-server";
  const most = series.latest("budget.N");
  const gate = series.latest("gate");
  const isAway = series.latest("broker") === 0;
  const minuteOf = (name: FigureName): number =>
    (series.values(name)?.slice(-60) ?? []).reduce<number>((sum, value) => sum + (value ?? 0), 0) / 60;
  return [
    {
      name: "Backlog",
      value: isAway ? "broker away" : count(series.latest("backlog")),
      tone: isAway ? "bad" : "plain",
      also: isAway ? (
        <a href={linkTo("queues")}>why</a>
      ) : isBatches ? (
        "lines of open batches"
      ) : (
        "messages in all queues"
      ),
    },
    {
      ...{ name: "In flight", value: count(series.latest("inFlight")) },
      also: most === null ? "no gate limits them" : `of N ${figure(most)}`,
    },
    { name: "Succeeded", value: perSecond(minuteOf("messages.success")), also: "in the last minute" },
    {
      name: "Retried",
      value: perSecond(minuteOf("messages.retried")),
      also: `failed ${perSecond(minuteOf("messages.failed"))}`,
    },
    ...(isBatches ? [] : [{ name: "Oldest message", value: spanOfSeconds(series.latest("oldest")) }]),
    { name: "Time left", value: spanOfSeconds(series.latest("eta")), also: "at the present rate" },
    {
      ...{ name: "Gate", value: gate === null ? "none" : gate === 1 ? "open" : "closed" },
      tone: gate === 0 ? "warn" : "plain",
      also: <a href={linkTo("queues")}>why</a>,
    },
  ];
}

interface PlotRow extends Pick<TimePlotProps, "title" | "say" | "top"> {
  readonly lines: readonly FigureLine[];
  /** Lines after the first one are left out while they are empty or 0. */
  readonly sparse?: boolean;
  /** The plot is left out while it is empty. */
  readonly optional?: boolean;
}

const PLOTS: readonly PlotRow[] = [
  {
    title: "Requests by outcome",
    say: perSecond,
    lines: NAMES.map((name) => [`requests.${name}`, OUTCOMES[name].text, OUTCOMES[name].colour] as const),
    sparse: true,
  },
  { title: "TTFT", say: span, lines: quantileLines("ttft") },
  { title: "Duration", say: span, lines: quantileLines("duration") },
  {
    ...{ title: "Tokens", say: perSecond },
    lines: [
      ["tokens.output", "output", 2],
      ["tokens.prompt", "prompt", 0],
      ["tokens.cached", "cached", 5],
    ],
  },
  {
    ...{ title: "Prefix hit rate", say: percent, top: 1 },
    lines: [
      ["prefix.predicted", "predicted", 0],
      ["prefix.reported", "reported", 4],
    ],
  },
  { title: "Saturation", say: percent, top: 1, lines: [["saturation", "saturation", 0]] },
  {
    ...{ title: "Requests in flight and waiting", say: figure, sparse: true },
    lines: [
      ["inFlight", "in flight", 0],
      ["waiting", "waiting", 1],
    ],
  },
  { title: "Wait in flow control", say: span, lines: quantileLines("queued"), sparse: true, optional: true },
  {
    ...{ title: "Messages", say: perSecond, sparse: true },
    lines: [
      ["messages.success", "succeeded", 2],
      ["messages.retried", "retried", 4],
      ["messages.failed", "failed", 1],
      ["messages.expired", "expired", 3],
      ["messages.shed", "shed", 7],
    ],
  },
  { title: "Backlog", say: figure, lines: [["backlog", "messages", 0]] },
  {
    ...{ title: "Dispatch budget", say: percent, top: 1, optional: true },
    lines: [
      ["budget.D", "D", 0],
      ["budget.B", "baseline B", 1],
    ],
  },
  { title: "Latency of the gateway", say: span, lines: quantileLines("latency") },
  { title: "CPU of this process", say: percent, top: 1, lines: [["cpu", "of one core", 0]] },
];

function LivePlots({ store, window }: { store: Store; window: number }) {
  const has = (name: FigureName, is: (value: number | null) => boolean): boolean =>
    store.series.values(name)?.some(is) === true;
  return (
    <div class="grid">
      {PLOTS.map(({ lines, sparse, optional, ...plot }) => {
        const known = lines.filter(
          ([name], at) =>
            store.series.values(name) !== undefined &&
            (sparse !== true || at === 0 || has(name, (value) => value !== null && value !== 0)),
        );
        const isEmpty = !known.some(([name]) => optional !== true || has(name, (value) => value !== null));
        return isEmpty ? null : <FigurePlot key={plot.title} {...plot} {...{ store, window }} lines={known} />;
      })}
    </div>
  );
}

const CAUSES: readonly Column<ErrorCause>[] = [
  {
    ...{ name: "cause", isHead: true },
    cell: ({ cause, outcome }) => (
      <a href={linkTo("decisions", "", { reason: outcome === "refused" ? cause : "failed" })}>{cause}</a>
    ),
  },
  {
    name: "outcome",
    cell: ({ outcome }) => <Badge tone={OUTCOMES[outcome]?.isError ? "bad" : "plain"}>{outcomeText(outcome)}</Badge>,
  },
  { name: "requests", numeric: true, cell: (row) => count(row.count) },
];

function Errors({ store: { minute, quarter } }: { store: Store }) {
  const window = quarter ?? minute;
  return (
    <Panel title="Errors by cause" note={window === undefined ? "" : `the last ${span(window.seconds * 1000)}`}>
      <Table
        label="Errors by cause"
        columns={CAUSES}
        rows={window?.errors ?? []}
        keyOf={({ outcome, cause }) => `${outcome} ${cause}`}
        empty={<Empty what="No errors">Every request in this time got its answer.</Empty>}
      />
    </Panel>
  );
}

/** The words for the outcomes of messages. */
const MESSAGES: Readonly<Record<string, string>> = { success: "succeeded" };

/** The newest events of the list. */
const SHOWN_EVENTS = 50;

export function Events({ events }: { events: readonly EventEntry[] }) {
  const newest = events.slice(-SHOWN_EVENTS).reverse();
  return (
    <Panel
      title="Events"
      note={events.length > SHOWN_EVENTS ? `the newest ${SHOWN_EVENTS}` : "a dashed line in each plot"}
    >
      {newest.length === 0 ? (
        <Empty what="Nothing has happened yet">This list shows changes of endpoints, configurations and gates.</Empty>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls can be reached by keyboard only when it takes the focus
        <ol class="events" tabIndex={0} aria-label="Events, the newest first">
          {newest.map((event) => (
            <li key={event.number} class={toneOf(event.kind)}>
              <Moment at={event.at} />
              <span>
                {event.text}
                {event.times > 1 && <small> ({counted(event.times, "time")})</small>}
              </span>
            </li>
          ))}
        </ol>
      )}
    </Panel>
  );
}

function TotalsPanel({ totals }: { totals: Totals }) {
  const { requests, routed, tokens, messages } = totals;
  const named: (readonly [string, string, number])[] =
    messages === undefined
      ? [
          ...NAMES.filter((name) => name === "answered" || (requests[name] ?? 0) > 0).map(
            (name) => [name, OUTCOMES[name].text, requests[name] ?? 0] as const,
          ),
          ["routed", "routed", routed],
          ["prompt", "prompt tokens", tokens.prompt],
          ["cached", "cached tokens", tokens.cached],
          ["output", "output tokens", tokens.output],
        ]
      : Object.entries(messages).map(([name, value]) => [name, MESSAGES[name] ?? name, value] as const);
  const parts = named.map(([key, text, value]): readonly [string, ComponentChildren] => [
    text,
    <output key={key} data-total={key}>
      {count(value)}
    </output>,
  ]);
  return (
    <Panel title="Since the start" note={<a href="metrics">as in /metrics</a>} padded>
      <dl class="totals">
        {parts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}

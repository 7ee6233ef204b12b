import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf } from "../../../src/base/inference/errors.ts";
import type { DecisionRow, DecisionsFeed } from "../../../src/wires/admin/feed/decisions.ts";
import { ask } from "../feed/ask.ts";
import { useStore, useTopics } from "../feed/use-store.ts";
import { count, counted, figure, span } from "../format.ts";
import { Badge, Empty, Moment, type Tone } from "../parts/basics.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { linkTo, setQuery, usePlace } from "../router.ts";
import { outcomeText } from "./overview.tsx";

const PAGE = 100;
const REASONS = ["routed", "refused", "failed", "waited", "retried"] as const;

const OUTCOME_TONES: Readonly<Partial<Record<DecisionRow["journey"]["outcome"], Tone>>> = {
  "server-error": "bad",
  refused: "bad",
  interrupted: "bad",
  failed: "bad",
  cancelled: "warn",
  running: "ours",
};

/** How a request stands: its status, or that it runs. */
export function OutcomeBadge({ journey: { outcome, status }, refused }: Pick<DecisionRow, "journey" | "refused">) {
  if (refused !== null) return <Badge tone="bad">{status === null ? "refused" : `refused ${status}`}</Badge>;
  if (outcome === "answered") return <span class="soft">{status ?? "answered"}</span>;
  const text = outcome === "running" || outcome === "lost" ? outcome : outcomeText(outcome);
  return (
    <Badge tone={OUTCOME_TONES[outcome] ?? "plain"}>
      {status === null || status < 300 ? text : `${text} ${status}`}
    </Badge>
  );
}

const COLUMNS: readonly Column<DecisionRow>[] = [
  { name: "time", width: 5.25, cell: ({ at }) => <Moment at={at} /> },
  {
    ...{ name: "request", isHead: true, width: 9 },
    cell: ({ sequence, requestId }) => (
      <a class="mono" href={linkTo("decisions", String(sequence))} title={requestId}>
        {requestId}
      </a>
    ),
  },
  { name: "model", width: 6.75, className: "not-narrow", cell: ({ model }) => <span title={model}>{model}</span> },
  {
    ...{ name: "endpoint", width: 8.5 },
    cell: ({ endpoint, served }) => (
      <span title={served === null ? (endpoint ?? undefined) : `${endpoint}, served by ${served}`}>
        {endpoint === null ? "–" : <a href={linkTo("endpoints", endpoint)}>{endpoint}</a>}
        {served !== null && <span class="warn"> served by {served}</span>}
      </span>
    ),
  },
  { name: "outcome", width: 7, cell: (row) => <OutcomeBadge {...row} /> },
  {
    ...{ name: "waited", numeric: true, width: 4.25 },
    cell: ({ waitedMs }) => (waitedMs === 0 ? "–" : span(waitedMs)),
    title: "in flow control",
  },
  { name: "TTFT", numeric: true, width: 4.5, cell: ({ journey }) => span(journey.ttftMs) },
  { name: "duration", numeric: true, width: 5, cell: ({ journey }) => span(journey.durationMs) },
  { name: "why", width: 0, cell: ({ why }) => <span title={why}>{why}</span> },
  {
    ...{ name: "tokens", numeric: true, className: "roomy", width: 9, title: "prompt, of which cached, and output" },
    cell: ({ journey: { promptTokens, cachedTokens, outputTokens } }) =>
      promptTokens === null && outputTokens === null
        ? "–"
        : `${figure(promptTokens)}${cachedTokens === null ? "" : ` (${figure(cachedTokens)})`} → ${figure(outputTokens)}`,
  },
];

export function DecisionsView() {
  const store = useStore();
  const { query } = usePlace();
  const filters = {
    q: query.get("q") ?? "",
    model: query.get("model") ?? "",
    endpoint: query.get("endpoint") ?? "",
    key: query.get("key") ?? "",
    reason: query.get("reason") ?? "",
  };
  const search = new URLSearchParams(Object.entries(filters).filter(([, value]) => value !== "")).toString();
  const list = store.decisions;
  const [held, setHeld] = useState<readonly DecisionRow[] | undefined>(undefined);
  const [answer, setAnswer] = useState<{ feed?: DecisionsFeed; problem?: string }>({});
  const [next, setNext] = useState<number | null>(null);
  const asked = useRef("");
  const instance = store.hello?.instance;

  // Typing asks once it pauses.
  const [settled, setSettled] = useState(search);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(search), 200);
    return () => clearTimeout(timer);
  }, [search]);
  useTopics({ topics: ["decisions"], query: Object.fromEntries(new URLSearchParams(settled)) });
  /** Asks for a page of the list. An answer to a former search is dropped. @param before undefined = the newest decisions */
  const askPage = (before?: number): void => {
    const mine = asked.current;
    const from = before === undefined ? "" : `&before=${before}`;
    ask<DecisionsFeed>(`debug/feed/decisions?limit=${PAGE}${from}${settled === "" ? "" : `&${settled}`}`).then(
      (feed) => {
        if (asked.current !== mine) return;
        list.add(feed.rows);
        setNext(feed.next);
        setAnswer({ feed });
        if (before === undefined) store.changed();
        else setHeld(list.rows);
      },
      (error: unknown) => {
        if (asked.current === mine)
          setAnswer((last) => ({ ...(before === undefined ? {} : last), problem: messageOf(error) }));
      },
    );
  };
  useEffect(() => {
    asked.current = `${instance} ${settled}`;
    list.clear();
    setHeld(undefined);
    askPage();
  }, [settled, instance, list, store]);
  const rows = held ?? list.rows;
  const { feed, problem } = answer;
  return (
    <>
      <div class="page-head">
        <h1>Decisions</h1>
        <span class="soft">
          {feed !== undefined && `${counted(feed.kept.count, "decision")} kept, at most ${count(feed.kept.most)}`}
          {feed !== undefined && feed.kept.oldestAt !== null && (
            <>
              , back to <Moment at={feed.kept.oldestAt} />
            </>
          )}
        </span>
        <div class="tools">
          <button
            type="button"
            class="button"
            aria-pressed={held !== undefined}
            onClick={() => setHeld(held === undefined ? list.rows : undefined)}
          >
            {held === undefined ? "Pause" : "Go on"}
          </button>
        </div>
      </div>
      {/* biome-ignore lint/a11y/useSemanticElements: the element search is not known to all browsers yet */}
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <Filter name="q" label="request ID" value={filters.q} hint="its start, or a number" wide />
        <Filter name="model" label="model" value={filters.model} />
        <Filter name="endpoint" label="endpoint" value={filters.endpoint} />
        <Filter name="key" label="key" value={filters.key} hint="its name" />
        <label class="field">
          reason
          <input
            list="reasons"
            value={filters.reason}
            placeholder="any"
            onInput={(event) => setQuery("reason", event.currentTarget.value)}
          />
          <datalist id="reasons">
            {REASONS.map((reason) => (
              <option value={reason} key={reason} />
            ))}
          </datalist>
        </label>
      </form>
      <div class="live-data">
        {list.leftOut > 0 && held === undefined && (
          <p class="note">
            A sample: {counted(list.leftOut, "decision")} of {count(list.passed)} since this view was opened are not in
            the list. The search finds them.
          </p>
        )}
        {feed !== undefined && feed.alike.length > 1 && (
          <p class="note">
            Several request IDs begin with this text:{" "}
            {feed.alike.map((id) => [
              <a key={id} href={linkTo("decisions", id)}>
                {id}
              </a>,
              " ",
            ])}
          </p>
        )}
        <div class="panel">
          <Table
            label="Decisions"
            columns={COLUMNS}
            rows={rows}
            keyOf={({ sequence }) => sequence}
            empty={
              problem !== undefined ? (
                <Empty what="The search has no answer">{problem}</Empty>
              ) : settled === "" ? (
                <Empty what="No decision yet">Each request that this process routes or refuses appears here.</Empty>
              ) : (
                <Empty what="No decision matches">
                  {feed !== undefined && feed.kept.oldestAt !== null && (
                    <>
                      The oldest kept decision is of <Moment at={feed.kept.oldestAt} />.
                    </>
                  )}
                </Empty>
              )
            }
          />
        </div>
        {next !== null && (
          <div>
            <button type="button" class="button" onClick={() => askPage(next)}>
              Older decisions
            </button>
            {problem !== undefined && rows.length > 0 && <span class="bad"> {problem}</span>}
          </div>
        )}
      </div>
    </>
  );
}

function Filter(props: { name: string; label: string; value: string; hint?: string; wide?: boolean }) {
  return (
    <label class="field">
      {props.label}
      <input
        type="search"
        class={props.wide === true ? "wide" : undefined}
        value={props.value}
        placeholder={props.hint ?? "any"}
        onInput={(event) => setQuery(props.name, event.currentTarget.value)}
      />
    </label>
  );
}

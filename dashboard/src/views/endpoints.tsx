import type { EndpointsFeed, LeftOut } from "../../../src/wires/admin/feed/endpoints.ts";
import { useAsked } from "../feed/ask.ts";
import type { EndpointRow } from "../feed/endpoint-loads.ts";
import { useStore, useTopics } from "../feed/use-store.ts";
import { absolute, count, counted, figure, percent, span } from "../format.ts";
import { Badge, Bar, Empty, Ends, Panel, Search, Segments, type Tone } from "../parts/basics.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { Spark } from "../plots/spark.tsx";
import { linkTo, setQuery, usePlace } from "../router.ts";

export const STATE_TONES: Readonly<Record<EndpointRow["state"], Tone>> = { up: "good", blind: "warn", down: "bad" };
const LEFT_OUT_EVERY_MS = 5_000;
const WISH = { topics: ["endpoints"], query: {} } as const;

/** The names of models for one cell. */
export function modelsText(models: EndpointRow["models"]): string {
  if (models === null) return "not known";
  const [first = "none", second] = models.names;
  const more = models.count - 2;
  return `${first}${second === undefined ? "" : `, ${second}`}${more > 0 ? ` and ${count(more)} more` : ""}`;
}

function Models({ models, adapters }: Pick<EndpointRow, "models" | "adapters">) {
  return (
    <span class="cut" title={models?.names.join("\n") ?? "This endpoint gets requests for every model."}>
      {modelsText(models)}
      {adapters.running.length > 0 && <span class="soft"> + {counted(adapters.running.length, "adapter")}</span>}
    </span>
  );
}

const KNOWN = (value: number | null): number => value ?? Number.NEGATIVE_INFINITY;

function columnsAt(now: number): readonly Column<EndpointRow>[] {
  return [
    {
      ...{ name: "endpoint", isHead: true, sort: ({ id }) => id },
      cell: ({ id, hostPort, models, adapters }) => (
        <>
          <a href={linkTo("endpoints", id)} aria-label={id} title={`${id} at ${hostPort}`}>
            <Ends text={id} />
          </a>
          <div class="soft narrower">
            <Models models={models} adapters={adapters} />
          </div>
        </>
      ),
    },
    {
      ...{ name: "state", sort: ({ state }) => state },
      cell: ({ state, since, cause, ageMs, fresh }) => (
        <>
          <Badge tone={STATE_TONES[state]} title={cause}>
            {state}
          </Badge>{" "}
          <span class="soft" title={`since ${absolute(since)}`}>
            {span(now - since)}
          </span>
          {state !== "up" && (
            <span class="roomy">
              {" "}
              <span class="cut cause" title={cause}>
                {cause}
              </span>
            </span>
          )}
          {(state !== "up" || fresh !== 1) && (
            <div class="warn narrower">
              <span class="cut" title={cause}>
                {state !== "up" ? cause : ageMs === null ? "never scraped" : `metrics ${span(ageMs)} old`}
              </span>
            </div>
          )}
        </>
      ),
    },
    {
      name: "in flight",
      numeric: true,
      sort: ({ inFlight }) => inFlight,
      cell: ({ inFlight }) => count(inFlight),
      title: "requests of this process in flight",
    },
    {
      name: "last minute",
      cell: ({ spark, id }) => (
        <Spark values={spark} label={`requests in flight at ${id} in the last minute, now ${spark.at(-1) ?? 0}`} />
      ),
    },
    {
      name: "running",
      numeric: true,
      sort: ({ running }) => KNOWN(running),
      cell: ({ running }) => figure(running),
      title: "as the model server reports",
    },
    {
      name: "waiting",
      numeric: true,
      sort: ({ waiting }) => KNOWN(waiting),
      cell: ({ waiting }) => figure(waiting),
      title: "as the model server reports",
    },
    {
      ...{ name: "KV cache", numeric: true, sort: ({ kvUsage }) => KNOWN(kvUsage) },
      cell: ({ kvUsage }) => (
        <>
          {percent(kvUsage)}
          {kvUsage !== null && <Bar of={kvUsage} isLimit />}
        </>
      ),
    },
    {
      ...{
        name: "traffic",
        numeric: true,
        sort: ({ share }) => KNOWN(share),
        title: "share of the requests routed in the last minute",
      },
      cell: ({ share }) => (
        <>
          {percent(share)}
          {share !== null && <Bar of={share} />}
        </>
      ),
    },
    {
      name: "TTFT",
      numeric: true,
      sort: ({ ttftMs }) => KNOWN(ttftMs),
      cell: ({ ttftMs }) => span(ttftMs),
      title: "mean of the last minute",
    },
    {
      name: "per token",
      numeric: true,
      sort: ({ tpotMs }) => KNOWN(tpotMs),
      cell: ({ tpotMs }) => span(tpotMs),
      title: "mean time per output token in the last minute",
    },
    {
      name: "tokens/s",
      numeric: true,
      sort: ({ tokensPerSecond }) => KNOWN(tokensPerSecond),
      cell: ({ tokensPerSecond }) => figure(tokensPerSecond),
      title: "output tokens",
    },
    {
      name: "failures",
      numeric: true,
      sort: ({ failures }) => failures,
      cell: ({ failures }) => count(failures),
      title: "failed attempts since the start",
    },
    {
      ...{ name: "models", className: "roomy", sort: ({ models }) => modelsText(models) },
      cell: ({ models, adapters }) => <Models models={models} adapters={adapters} />,
    },
    {
      ...{
        name: "metrics age",
        numeric: true,
        className: "roomy",
        sort: ({ ageMs }) => ageMs ?? Number.POSITIVE_INFINITY,
      },
      cell: ({ ageMs, fresh }) => (
        <span class={fresh === 1 ? undefined : "warn"}>{ageMs === null ? "never" : span(ageMs)}</span>
      ),
    },
  ];
}

const STATES = [
  ["", "all"],
  ["up", "up"],
  ["not-up", "not up"],
] as const;

export function EndpointsView() {
  const store = useStore();
  useTopics(WISH);
  const { query } = usePlace();
  const [text, state, label] = [query.get("q") ?? "", query.get("state") ?? "", query.get("label") ?? ""];
  const leftOut = useAsked<EndpointsFeed>("debug/feed/endpoints?limit=1", LEFT_OUT_EVERY_MS).data?.leftOut;
  const { rows, total } = store.endpoints;
  const shown = rows.filter((row) => matches(row, text, state, label));
  const [labelName = "", labelValue = ""] = label.split(/=(.*)/s);
  return (
    <>
      <div class="page-head">
        <h1>Endpoints</h1>
        <span class="soft">
          {shown.length === rows.length
            ? counted(rows.length, "endpoint")
            : `${count(shown.length)} of ${counted(rows.length, "endpoint")}`}
          {total !== undefined && total > rows.length && ` shown, ${count(total)} in the pool`}
        </span>
        <div class="tools">
          <Search
            label="Name, address or model"
            placeholder="Name, address or model"
            value={text}
            onInput={(value) => setQuery("q", value)}
          />
          <LabelFilter rows={rows} value={labelName === "" ? "" : `${labelName}=${labelValue}`} />
          <Segments<string>
            label="State"
            options={STATES}
            value={state}
            onChange={(value) => setQuery("state", value)}
          />
        </div>
      </div>
      <div class="live-data">
        <div class="panel">
          <Table
            label="Endpoints"
            columns={columnsAt(store.now())}
            rows={shown}
            keyOf={({ id }) => id}
            rowClass={({ state: is, fresh }) => (is === "down" || fresh === 0 ? "old" : undefined)}
            empty={
              rows.length === 0 ? (
                <Empty what={total === undefined ? "Waiting for the endpoints" : "No endpoints yet"}>
                  Endpoints come from the endpoints file, from DNS or from the InferencePool.
                </Empty>
              ) : (
                <Empty what="No endpoint matches">Clear the search or choose another label or state.</Empty>
              )
            }
          />
        </div>
        {leftOut !== undefined && <LeftOutPanel leftOut={leftOut} />}
      </div>
    </>
  );
}

function matches(row: EndpointRow, text: string, state: string, label: string): boolean {
  if (state === "not-up" ? row.state === "up" : state !== "" && row.state !== state) return false;
  const [name = "", value = ""] = label.split(/=(.*)/s);
  if (name !== "" && row.labels[name] !== value) return false;
  const wanted = text.toLowerCase();
  return [row.id, row.hostPort, ...(row.models?.names ?? [])].some((part) => part.toLowerCase().includes(wanted));
}

/** The most values of a label in the list. */
const MOST_VALUES = 64;

function LabelFilter({ rows, value }: { rows: readonly EndpointRow[]; value: string }) {
  const values = new Map<string, Set<string>>();
  for (const { labels } of rows)
    for (const [name, of] of Object.entries(labels)) {
      const known = values.get(name) ?? new Set<string>();
      if (known.size < MOST_VALUES) known.add(of);
      values.set(name, known);
    }
  if (values.size === 0) return null;
  return (
    <select aria-label="Label" value={value} onChange={(event) => setQuery("label", event.currentTarget.value)}>
      <option value="">every label</option>
      {[...values].sort().map(([name, of]) => (
        <optgroup label={name} key={name}>
          {[...of].sort().map((one) => (
            <option value={`${name}=${one}`} key={one}>
              {name}={one}
            </option>
          ))}
        </optgroup>
      ))}
    </select>
  );
}

const REASON_TEXT: Readonly<Record<string, string>> = {
  down: "the endpoint is down",
  "served-models": "does not serve the model",
};

const LEFT_OUT_COLUMNS: readonly Column<LeftOut["reasons"][number]>[] = [
  { name: "reason", isHead: true, cell: ({ reason }) => REASON_TEXT[reason] ?? reason },
  {
    name: "decisions",
    numeric: true,
    cell: ({ decisions }) => count(decisions),
    title: "decisions that left out an endpoint for this reason",
  },
  {
    ...{ name: "endpoints", className: "wrap" },
    cell: ({ reason, endpoints, named }) =>
      reason === "down" ? (
        // Decision records count them without their names.
        <a href={linkTo("endpoints", "", { state: "not-up" })}>endpoints that are not up</a>
      ) : endpoints.length === 0 ? (
        "–"
      ) : (
        <>
          {endpoints.map(({ id, times }, at) => (
            <span key={id}>
              {at > 0 && ", "}
              <a href={linkTo("endpoints", id)}>{id}</a> <span class="soft">{counted(times, "time")}</span>
            </span>
          ))}
          {!named && <span class="soft"> and others: a record names at most eight</span>}
        </>
      ),
  },
];

/** Which endpoints took no part in decisions, and why. */
export function LeftOutPanel({ leftOut }: { leftOut: LeftOut }) {
  return (
    <Panel title="Left out of decisions" note={`${counted(leftOut.decisions, "decision")} in the last minute`}>
      <Table
        label="Left out of decisions"
        columns={LEFT_OUT_COLUMNS}
        rows={leftOut.reasons}
        keyOf={({ reason }) => reason}
        empty={<Empty what="No endpoint was left out">Every endpoint was a candidate of every decision.</Empty>}
      />
    </Panel>
  );
}

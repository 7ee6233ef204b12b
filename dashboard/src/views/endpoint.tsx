import type { EndpointDetail, Spark, StateChange } from "../../../src/wires/admin/feed/endpoints.ts";
import { useAsked } from "../feed/ask.ts";
import { valuesAt } from "../feed/endpoint-loads.ts";
import { useStore } from "../feed/use-store.ts";
import { count, counted, figure, percent, perSecond, span } from "../format.ts";
import { Badge, Empty, Facts, Moment, Panel, StateStrip, Tiles } from "../parts/basics.tsx";
import { TimePlot } from "../plots/time-plot.tsx";
import { linkTo } from "../router.ts";
import { LeftOutPanel, modelsText, STATE_TONES } from "./endpoints.tsx";

const EVERY_MS = 2_000;
const SPARK_SECONDS = 900;

/** One endpoint: its figures, its last 15 minutes, its states and why it was left out. */
export function EndpointView({ id }: { id: string }) {
  const store = useStore();
  const { data, problem } = useAsked<EndpointDetail>(`debug/feed/endpoint?id=${encodeURIComponent(id)}`, EVERY_MS);
  return (
    <>
      <div class="page-head">
        <nav class="crumbs" aria-label="Path">
          <a href={linkTo("endpoints")}>Endpoints</a> <span aria-hidden="true">/</span>
        </nav>
        <h1>{id}</h1>
        {data !== undefined && <Badge tone={STATE_TONES[data.endpoint.state]}>{data.endpoint.state}</Badge>}
        <div class="tools">
          <a class="button" href={linkTo("decisions", "", { endpoint: id })}>
            Decisions of this endpoint
          </a>
        </div>
      </div>
      {data === undefined ? (
        <Empty what={problem === undefined ? "Loading" : "The endpoint is not shown"}>{problem}</Empty>
      ) : (
        <div class="live-data">
          <Detail detail={data} now={store.now()} />
        </div>
      )}
    </>
  );
}

function Detail({ detail, now }: { detail: EndpointDetail; now: number }) {
  const { endpoint, ttftMs, spark, timeline, earlier, leftOut } = detail;
  const is = valuesAt(detail.columns, 0);
  return (
    <>
      <Tiles
        label="Figures of the endpoint"
        tiles={[
          { name: "In flight", value: count(is.inFlight), also: `${count(is.inFlightTokens)} tokens` },
          { name: "Running", value: figure(is.running), also: `waiting ${figure(is.waiting)}` },
          {
            name: "KV cache",
            value: percent(is.kvUsage),
            also: endpoint.blocks === null ? "" : counted(endpoint.blocks, "block"),
          },
          { name: "Traffic", value: percent(is.share), also: "of the last minute" },
          { name: "TTFT p90", value: span(ttftMs.p90), also: `p50 ${span(ttftMs.p50)} · p99 ${span(ttftMs.p99)}` },
          { name: "Per output token", value: span(is.tpotMs), also: "last minute" },
          { name: "Output tokens", value: perSecond(is.tokensPerSecond) },
          {
            ...{ name: "Metrics age", value: is.ageMs === null ? "never" : span(is.ageMs) },
            also: `next in ${span(is.nextScrapeMs)}`,
            tone: is.fresh === 1 ? "plain" : "warn",
          },
        ]}
      />
      <div class="grid four">
        <SparkPlot title="Requests in flight" spark={spark} of="inFlight" say={count} />
        <SparkPlot title="Requests ended" spark={spark} of="requestsPerSecond" say={perSecond} />
        <SparkPlot title="KV cache" spark={spark} of="kvUsage" say={percent} top={1} />
        <SparkPlot title="Output tokens" spark={spark} of="tokensPerSecond" say={perSecond} />
      </div>
      <div class="grid two">
        <Panel title="States" note={earlier > 0 ? `${counted(earlier, "earlier change")} not kept` : undefined}>
          <Timeline timeline={timeline} now={now} />
        </Panel>
        <Panel title="About the endpoint" padded>
          <Facts
            facts={[
              ["address", <code key="address">{`${endpoint.scheme}://${endpoint.hostPort}`}</code>],
              [
                "models",
                endpoint.models === null ? "not known: it gets requests for every model" : modelsText(endpoint.models),
              ],
              ["adapters", adaptersText(endpoint.adapters)],
              ["labels", labelsOf(endpoint.labels)],
              ["most seen at once", endpoint.capacity === null ? "not known" : counted(endpoint.capacity, "request")],
              ["scraped every", span(endpoint.scrapeIntervalMs)],
              ["routed", counted(is.requests, "request")],
              ["failed attempts", count(is.failures)],
            ]}
          />
        </Panel>
      </div>
      <LeftOutPanel leftOut={leftOut} />
    </>
  );
}

function adaptersText({ running, waiting, most }: EndpointDetail["endpoint"]["adapters"]): string {
  if (running.length + waiting.length === 0) return most === null ? "none" : `none of at most ${count(most)}`;
  const waits = waiting.length === 0 ? "" : `; waiting: ${waiting.join(", ")}`;
  return `${running.join(", ") || "none running"}${waits}${most === null ? "" : ` (at most ${count(most)})`}`;
}

function labelsOf(labels: Readonly<Record<string, string>>) {
  const all = Object.entries(labels);
  if (all.length === 0) return "none";
  return all.map(([name, value]) => (
    <a key={name} class="badge" href={linkTo("endpoints", "", { label: `${name}=${value}` })}>
      {name}={value}
    </a>
  ));
}

function SparkPlot(props: {
  readonly title: string;
  readonly spark: Spark;
  readonly of: "inFlight" | "kvUsage" | "requestsPerSecond" | "tokensPerSecond";
  readonly say: (value: number | null | undefined) => string;
  readonly top?: number;
}) {
  const { spark, of, title, say, top } = props;
  const values = spark[of];
  return (
    <TimePlot
      low
      title={title}
      seconds={values.map((_, at) => spark.from + at * spark.step)}
      lines={[{ label: "in steps of 15 s", colour: 0, values }]}
      window={SPARK_SECONDS}
      say={say}
      version={spark.from}
      {...(top === undefined ? {} : { top })}
    />
  );
}

/** The states as a strip, and each change with its cause. */
function Timeline({ timeline, now }: { timeline: readonly StateChange[]; now: number }) {
  return (
    <div class="inside">
      <StateStrip timeline={timeline} now={now} tones={STATE_TONES} />
      <ol class="events">
        {timeline.toReversed().map(({ at, state, cause }) => (
          <li key={at}>
            <Moment at={at} />
            <span>
              <Badge tone={STATE_TONES[state]}>{state}</Badge> {cause}
            </span>
          </li>
        ))}
      </ol>
    </div>
  );
}

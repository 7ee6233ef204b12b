import type { FeedHello } from "../../../src/wires/admin/feed/feed.ts";
import type { BandFeed, FlowControlFeed } from "../../../src/wires/admin/feed/queues.ts";
import type { Store } from "../feed/store.ts";
import { useStore, useTopics } from "../feed/use-store.ts";
import { bytes, count, counted, figure, percent, perSecond, span } from "../format.ts";
import { Badge, Bar, Cut, Empty, Panel, Tiles } from "../parts/basics.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { FigurePlot, quantileLines } from "../plots/figure-plot.tsx";
import { linkTo } from "../router.ts";
import { Batches } from "./batches.tsx";
import { Capacities, DispatchQueues } from "./dispatch-queues.tsx";
import { Limits } from "./limits.tsx";

const WISH = { topics: ["queues"], query: {} } as const;
const WINDOW = 900;

/** The name of the view: a batch server has nothing but batches in its queues. */
export function queuesTitle(hello: FeedHello | undefined): string {
  return hello?.kind === "batch-server" ? "Batches" : "Queues";
}

export function QueuesView() {
  const store = useStore();
  useTopics(WISH);
  const { queues, hello } = store;
  return (
    <>
      <div class="page-head">
        <h1>{queuesTitle(hello)}</h1>
      </div>
      <div class="live-data">
        {queues === undefined && <Empty what="Waiting for the queues" />}
        {queues?.kind === "off" && (
          <Panel title="Flow control">
            <Empty what="Flow control is off">{`${queues.text[0]?.toUpperCase()}${queues.text.slice(1)}`}</Empty>
          </Panel>
        )}
        {queues?.kind === "flow-control" && <FlowControl queues={queues} store={store} />}
        {hello?.kind === "dispatch" && queues?.kind === "dispatch" && <DispatchQueues queues={queues} store={store} />}
        {hello?.batches === true && <Batches now={store.now()} />}
        {hello?.kind === "batch-server" && queues?.kind === "dispatch" && <Capacities queues={queues} store={store} />}
        {hello?.limits === true && <Limits />}
      </div>
    </>
  );
}

const loadOf = (used: number, most: number | null, say: (value: number) => string): string =>
  most === null ? say(used) : `${say(used)} of ${say(most)}`;

function FlowControl({ queues, store }: { queues: FlowControlFeed; store: Store }) {
  const { saturation, expected, bands } = queues;
  return (
    <>
      <Tiles
        label="Flow control"
        tiles={[
          {
            name: "Waiting",
            value: count(queues.requests),
            also: `requests, ${loadOf(queues.bytes, queues.maxBytes, bytes)}`,
          },
          {
            ...{ name: "Saturation", value: percent(saturation), also: `expected ${percent(expected)}` },
            tone: saturation !== null && saturation >= 1 ? "bad" : "plain",
            title: "expected: includes requests sent since the last scrape",
          },
          { name: "Admitted", value: perSecond(queues.leftPerSecond), also: "in the last minute" },
          {
            ...{ name: "Refused", value: perSecond(queues.refusedPerSecond), also: "in the last minute" },
            tone: queues.refusedPerSecond > 0 ? "bad" : "plain",
          },
          ...Object.entries(queues.stages).map(([stage, value]) => ({
            name: `Saturation of ${stage}`,
            value: percent(value),
          })),
        ]}
      />
      {queues.problem !== null && <p class="bad">{queues.problem}</p>}
      <Panel title="Bands" note="the highest priority first; at its ceiling, a band holds its requests back">
        <Table
          label="Bands"
          columns={BANDS}
          rows={bands}
          keyOf={({ priority }) => priority}
          below={(band) => (band.flows.length > 0 ? <Flows band={band} /> : undefined)}
          empty={<Empty what="No band yet">A band appears with the first request of its priority.</Empty>}
        />
      </Panel>
      <div class="grid">
        <FigurePlot
          {...{ store, window: WINDOW, say: figure }}
          title="Requests waiting"
          lines={[["waiting", "waiting", 1]]}
        />
        <FigurePlot
          {...{ store, window: WINDOW, say: span }}
          title="Wait of requests that left the queue"
          lines={quantileLines("queued")}
        />
        <FigurePlot
          {...{ store, window: WINDOW, say: percent }}
          title="Saturation"
          top={1}
          lines={[["saturation", "saturation", 0]]}
        />
      </div>
      <p>
        <a href={linkTo("decisions", "", { reason: "waited" })}>Decisions that waited</a>
      </p>
    </>
  );
}

const BANDS: readonly Column<BandFeed>[] = [
  { name: "priority", isHead: true, cell: ({ priority }) => String(priority) },
  { name: "state", cell: ({ open }) => <Badge tone={open ? "good" : "warn"}>{open ? "open" : "held back"}</Badge> },
  { name: "waiting", numeric: true, cell: ({ requests, maxRequests }) => loadOf(requests, maxRequests, count) },
  { name: "bytes", numeric: true, cell: ({ bytes: used, maxBytes }) => loadOf(used, maxBytes, bytes) },
  {
    name: "ceiling",
    numeric: true,
    cell: ({ ceiling }) => percent(ceiling),
    title: "the saturation at which the band begins to hold back",
  },
  { name: "flows", numeric: true, cell: ({ flowCount }) => count(flowCount) },
  { name: "held by", className: "why whole", cell: ({ heldBy }) => heldBy ?? "–" },
];

/** @param most requests of the longest flow */
const flowColumns = (most: number): readonly Column<BandFeed["flows"][number]>[] => [
  { name: "fairness ID", isHead: true, cell: ({ fairnessId }) => <Cut text={fairnessId} /> },
  {
    ...{ name: "requests", numeric: true },
    cell: ({ requests }) => (
      <>
        {count(requests)}
        <Bar of={requests / most} />
      </>
    ),
  },
  { name: "head waits", numeric: true, cell: ({ headWaitMs }) => span(headWaitMs) },
];

function Flows({ band }: { band: BandFeed }) {
  return (
    <Table
      label={`Flows of band ${band.priority}`}
      caption={
        band.flows.length === band.flowCount
          ? counted(band.flowCount, "flow")
          : `the longest ${count(band.flows.length)} of ${counted(band.flowCount, "flow")}`
      }
      columns={flowColumns(Math.max(...band.flows.map(({ requests }) => requests)))}
      rows={band.flows}
      keyOf={({ fairnessId }) => fairnessId}
      empty=""
    />
  );
}

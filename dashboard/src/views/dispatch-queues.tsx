import type { CapacityFeed, DispatchFeed, QueueFeed } from "../../../src/wires/admin/feed/queues.ts";
import type { Store } from "../feed/store.ts";
import { absolute, count, counted, figure, percent, perSecond, span, spanOfSeconds } from "../format.ts";
import { Badge, Bar, Cut, Empty, Moment, Panel, StateStrip, Tiles, type Tone } from "../parts/basics.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { FigurePlot } from "../plots/figure-plot.tsx";
import { Messages } from "./messages.tsx";

const WINDOW = 900;
const CAPACITY_TONES: Readonly<Record<CapacityFeed["state"], Tone>> = {
  open: "good",
  closed: "warn",
  latched: "warn",
  unreadable: "bad",
  unknown: "plain",
};

/** Any other state holds messages back. */
const QUEUE_TONES: Readonly<Partial<Record<string, Tone>>> = {
  ...{ flowing: "good", claiming: "good", empty: "good", stopped: "plain", failing: "bad", unavailable: "bad" },
} as const;

/** The queues, capacities and worker pools of the Async Processor. */
export function DispatchQueues({ queues, store }: { queues: DispatchFeed; store: Store }) {
  const waiting = sumOf(queues.queues, ({ waiting: of }) => of);
  const rate = sumOf(queues.queues, ({ endedPerSecond }) => endedPerSecond);
  const eta = queues.queues.reduce<number | null>(
    (most, { etaSeconds }) => (etaSeconds === null ? most : Math.max(most ?? 0, etaSeconds)),
    null,
  );
  const late = queues.queues.filter(({ makesIt }) => makesIt === false);
  return (
    <>
      <Tiles
        label="Backlog"
        tiles={[
          { name: "Waiting", value: count(waiting), also: "messages in all queues" },
          { name: "Claimed", value: count(queues.claims), also: `${count(queues.unwritten)} results not written` },
          { name: "Ended", value: perSecond(rate) },
          {
            name: "Time left",
            value: spanOfSeconds(eta),
            also: eta === null ? "not known" : `until ${absolute(store.now() + eta * 1000).slice(11, 19)}`,
          },
          {
            ...{
              name: "Deadlines",
              value: late.length > 0 ? "at risk" : queues.queues.some(({ makesIt }) => makesIt === true) ? "met" : "–",
            },
            also: late.length > 0 ? late.map(({ queue }) => queue).join(", ") : "at the present rate",
            tone: late.length > 0 ? "bad" : "plain",
          },
        ]}
      />
      <Panel title="Queues of messages" note={queues.brokerProblem === null ? undefined : "the last known counts"}>
        {queues.brokerProblem !== null && (
          <p class="inside bad" role="alert">
            Sluice cannot claim messages, or cannot write results: {queues.brokerProblem}
          </p>
        )}
        <Table
          label="Queues of messages"
          columns={queueColumns(store.now())}
          rows={queues.queues}
          keyOf={({ queue }) => queue}
          rowClass={() => (queues.brokerProblem === null ? undefined : "old")}
          empty={<Empty what="No queue is configured" />}
        />
      </Panel>
      <Capacities queues={queues} store={store} />
      {queues.noMessages !== null ? (
        <p class="note">{queues.noMessages}</p>
      ) : (
        queues.queues.length > 0 && <Messages queues={queues.queues.map(({ queue }) => queue)} now={store.now()} />
      )}
      <p class="note">
        <code>sluice batch</code> shows the progress of its batch in its own terminal. <code>sluice queue</code>{" "}
        inspects and repairs queues.
      </p>
    </>
  );
}

/** What may go, why, and who works on it. */
export function Capacities({ queues, store }: { queues: DispatchFeed; store: Store }) {
  const hasGate = queues.capacities.length > 0;
  return (
    <>
      <Panel
        title="Capacities"
        note={hasGate ? "dispatch budget D, baseline B; N = max_SYS × (D − B) may be in flight" : undefined}
      >
        {hasGate ? (
          <Table
            label="Capacities"
            columns={CAPACITIES}
            rows={queues.capacities}
            keyOf={({ capacity }) => capacity}
            below={(capacity) =>
              capacity.timeline.length > 0 ? <GateTimeline capacity={capacity} now={store.now()} /> : undefined
            }
            empty=""
          />
        ) : (
          <Empty what="No gate reads a budget">Each waiting message starts as soon as a worker is free.</Empty>
        )}
      </Panel>
      <div class="grid">
        <FigurePlot
          {...{ store, window: WINDOW, say: figure }}
          title="Backlog"
          lines={[
            ["backlog", "waiting", 1],
            ["inFlight", "in flight", 0],
          ]}
        />
        {hasGate && (
          <FigurePlot
            {...{ store, window: WINDOW, say: percent }}
            title="Dispatch budget"
            top={1}
            lines={[
              ["budget.D", "D", 0],
              ["budget.B", "baseline B", 1],
            ]}
          />
        )}
        <FigurePlot
          {...{ store, window: WINDOW, say: figure }}
          title={hasGate ? "In flight and N" : "In flight"}
          lines={[["inFlight", "in flight", 0], ...(hasGate ? [["budget.N", "N", 4] as const] : [])]}
        />
      </div>
      <Panel title="Worker pools">
        <Table
          label="Worker pools"
          columns={POOLS}
          rows={queues.pools}
          keyOf={({ pool }) => pool}
          empty={<Empty what="No worker pool" />}
        />
      </Panel>
    </>
  );
}

function sumOf(queues: readonly QueueFeed[], of: (queue: QueueFeed) => number | null): number | null {
  const known = queues.map(of).filter((value) => value !== null);
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0);
}

function queueColumns(now: number): readonly Column<QueueFeed>[] {
  return [
    {
      name: "queue",
      isHead: true,
      cell: ({ queue }) => <Cut text={queue} />,
    },
    {
      name: "state",
      cell: ({ state, because }) => (
        <Badge tone={QUEUE_TONES[state] ?? "warn"} title={because}>
          {state}
        </Badge>
      ),
    },
    { name: "waiting", numeric: true, cell: ({ waiting }) => count(waiting) },
    { name: "claimed", numeric: true, cell: ({ claimed }) => count(claimed) },
    { name: "retries", numeric: true, cell: ({ retries }) => count(retries) },
    {
      name: "dead",
      numeric: true,
      cell: ({ dead }) => <span class={dead !== null && dead > 0 ? "bad" : undefined}>{count(dead)}</span>,
    },
    { name: "oldest", numeric: true, cell: ({ oldestAgeSeconds }) => spanOfSeconds(oldestAgeSeconds) },
    {
      name: "ended",
      numeric: true,
      cell: ({ endedPerSecond }) => perSecond(endedPerSecond),
    },
    { name: "time left", numeric: true, cell: ({ etaSeconds }) => spanOfSeconds(etaSeconds) },
    {
      name: "nearest deadline",
      cell: ({ nextDeadline, makesIt }) =>
        nextDeadline === null ? (
          "–"
        ) : (
          <>
            <span title={absolute(nextDeadline * 1000)}>in {span(Math.max(0, nextDeadline * 1000 - now))}</span>{" "}
            {makesIt !== null && <Badge tone={makesIt ? "good" : "bad"}>{makesIt ? "makes it" : "too late"}</Badge>}
          </>
        ),
    },
    { name: "gate", cell: ({ gate, heldByGate }) => `${gate}${heldByGate > 0 ? `, holds ${count(heldByGate)}` : ""}` },
    { name: "why", className: "why whole", cell: ({ because }) => because },
  ];
}

const CAPACITIES: readonly Column<CapacityFeed>[] = [
  {
    name: "capacity",
    isHead: true,
    cell: ({ capacity }) => <Cut text={capacity} />,
  },
  { name: "gate", cell: ({ state }) => <Badge tone={CAPACITY_TONES[state]}>{state}</Badge> },
  { name: "D", numeric: true, cell: ({ D }) => figure(D), title: "dispatch budget: the free share of the system" },
  { name: "B", numeric: true, cell: ({ B }) => figure(B), title: "baseline: the share kept free" },
  { name: "max_SYS", numeric: true, cell: ({ maxSys }) => (typeof maxSys === "number" ? count(maxSys) : maxSys) },
  {
    ...{ name: "in flight of N", numeric: true },
    cell: ({ own, N, unit }) => (
      <>
        {count(own)} of {figure(N)} {unit}
        {N > 0 && <Bar of={own / N} />}
      </>
    ),
  },
  { name: "may start", numeric: true, cell: ({ moreMayStart }) => figure(moreMayStart) },
  { name: "sample age", numeric: true, cell: ({ sampleAgeSeconds }) => spanOfSeconds(sampleAgeSeconds) },
  { name: "why", className: "why whole", cell: ({ because }) => because },
];

function GateTimeline({ capacity: { timeline }, now }: { capacity: CapacityFeed; now: number }) {
  const newest = timeline.at(-1);
  return (
    <div class="gate-timeline">
      <StateStrip
        {...{ timeline, now, tones: CAPACITY_TONES }}
        label={`${counted(timeline.length, "state")} of the gate since ${absolute(timeline[0]?.at ?? now)}`}
      />
      {newest !== undefined && (
        <span class="note">
          {newest.state} since <Moment at={newest.at} />
        </span>
      )}
    </div>
  );
}

const POOLS: readonly Column<DispatchFeed["pools"][number]>[] = [
  { name: "worker pool", isHead: true, cell: ({ pool }) => pool },
  { name: "gate", cell: ({ gate }) => gate },
  {
    ...{ name: "workers running", numeric: true },
    cell: ({ running, workers }) => (
      <>
        {count(running)} of {count(workers)}
        <Bar of={running / workers} />
      </>
    ),
  },
];

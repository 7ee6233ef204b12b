import type { PeerFeed, PeersFeed } from "../../../src/wires/admin/feed/peers.ts";
import { useAsked } from "../feed/ask.ts";
import type { Store } from "../feed/store.ts";
import { useStore } from "../feed/use-store.ts";
import { absolute, bytes, count, counted, percent, span } from "../format.ts";
import { Badge, Bar, Empty, Facts, Moment, Panel, type Tone } from "../parts/basics.tsx";
import { type Column, Table } from "../parts/table.tsx";

const EVERY_MS = 1_000;

/** A replica in the table: this one or another. */
interface ReplicaRow {
  readonly id: string;
  readonly isSelf: boolean;
  readonly state: PeerFeed["state"];
  readonly startedAt: number;
  /** Null of this one. */
  readonly ageMs: number | null;
  readonly requests: number | null;
  readonly tokens: number | null;
  /** Of the requests in flight of all replicas that live; null = there are none. */
  readonly share: number | null;
  readonly endpoints: PeerFeed["endpoints"];
  readonly endpointCount: number;
}

/** The replicas that share what they know, and the store between them. */
export function ReplicasView() {
  const store = useStore();
  const { data, problem } = useAsked<PeersFeed>("debug/peers", EVERY_MS);
  return (
    <>
      <div class="page-head">
        <h1>Replicas</h1>
        {data !== undefined && (
          <span class="soft">
            {counted(data.replicas.filter(({ state }) => state === "live").length + 1, "live replica")}
          </span>
        )}
      </div>
      {data === undefined ? (
        <Empty what={problem === undefined ? "Loading" : "The replicas are not shown"}>{problem}</Empty>
      ) : (
        <div class="live-data">
          <Panel title="Replicas" note="each replica adds the load of all others to its own">
            <Table
              label="Replicas"
              columns={columnsAt(store.now())}
              rows={rowsOf(data, store)}
              keyOf={({ id }) => id}
              rowClass={({ state }) => (state === "gone" ? "old" : undefined)}
              empty=""
            />
          </Panel>
          <div class="grid two">
            <StorePanel feed={data} />
            <Messages feed={data} />
          </div>
        </div>
      )}
    </>
  );
}

function rowsOf({ self, replicas }: PeersFeed, { series }: Store): ReplicaRow[] {
  const own = series.latest("inFlight");
  const live = replicas.filter(({ state }) => state === "live");
  const all = live.reduce((sum, { requests }) => sum + requests, own ?? 0);
  const shareOf = (requests: number | null): number | null => (requests === null || all === 0 ? null : requests / all);
  return [
    {
      ...{ id: self.id, isSelf: true, state: "live" as const, startedAt: Date.parse(self.startedAt), ageMs: null },
      ...{ requests: own, tokens: null, share: shareOf(own), endpoints: [], endpointCount: 0 },
    },
    ...replicas.map((replica) => ({
      ...replica,
      isSelf: false,
      startedAt: Date.parse(replica.startedAt),
      share: replica.state === "live" ? shareOf(replica.requests) : null,
    })),
  ];
}

const STATES: Readonly<Record<PeerFeed["state"], Tone>> = { live: "good", gone: "bad" };

const columnsAt = (now: number): readonly Column<ReplicaRow>[] => [
  {
    ...{ name: "replica", isHead: true, sort: ({ id }) => id },
    cell: ({ id, isSelf }) => (
      <>
        {id} {isSelf && <Badge tone="ours">this one</Badge>}
      </>
    ),
  },
  { name: "state", cell: ({ state }) => <Badge tone={STATES[state]}>{state}</Badge> },
  {
    name: "runs for",
    numeric: true,
    cell: ({ startedAt }) => (
      <span title={`since ${absolute(startedAt)}, by its own clock`}>{span(now - startedAt)}</span>
    ),
  },
  {
    ...{ name: "heard", numeric: true, title: "the age of its last message; its load counts for 3 s" },
    cell: ({ ageMs }) => (ageMs === null ? "–" : `${span(ageMs)} ago`),
  },
  {
    ...{ name: "in flight", numeric: true, sort: ({ requests }) => requests ?? 0 },
    cell: ({ requests }) => count(requests),
    title: "requests of the replica in flight",
  },
  { name: "tokens in flight", numeric: true, cell: ({ tokens }) => count(tokens) },
  {
    name: "share",
    numeric: true,
    cell: ({ share }) => (
      <>
        {percent(share)}
        {share !== null && <Bar of={share} />}
      </>
    ),
    title: "of the requests in flight of all replicas",
  },
  {
    ...{ name: "endpoints with its load", className: "wrap" },
    cell: ({ endpoints, endpointCount }) =>
      endpointCount === 0
        ? "–"
        : `${endpoints
            .slice(0, 3)
            .map(({ endpoint, requests }) => `${endpoint}: ${count(requests)}`)
            .join(", ")}${endpointCount > 3 ? ` and ${count(endpointCount - 3)} more` : ""}`,
  },
];

/** What the states of this replica mean. */
const IN_STEP: Readonly<Record<string, readonly [Tone, string]>> = {
  connecting: ["warn", "The store was not reached yet."],
  "catching-up": ["warn", "This replica reads what the others have placed."],
  "in-step": ["good", "This replica knows what the others know."],
  away: ["bad", "This replica decides with its own load and what it has learnt."],
  closed: ["plain", "The process ends."],
};

function StorePanel({ feed: { state, store } }: { feed: PeersFeed }) {
  const [tone, text] = IN_STEP[state] ?? ["plain", ""];
  return (
    <Panel title="Store" padded>
      <Facts
        facts={[
          ["server", <code key="server">{store.server}</code>],
          [
            "state",
            <span key="state">
              <Badge tone={store.state === "up" ? "good" : "bad"}>{store.state}</Badge> since{" "}
              <Moment at={Date.parse(store.since)} />
            </span>,
          ],
          ...(store.reason === null ? [] : [["reason", store.reason] as const]),
          ["last answer", span(store.answerMs)],
          [
            "this replica",
            <span key="step">
              <Badge tone={tone}>{state}</Badge> {text}
            </span>,
          ],
        ]}
      />
    </Panel>
  );
}

/** A store hands each replica its own messages back, and some of another one twice. */
const USUAL: ReadonlySet<string> = new Set(["own", "old"]);

function Messages({ feed: { sent, received, waiting, dropped, refused } }: { feed: PeersFeed }) {
  const reasons = Object.entries(refused).filter(([reason, times]) => times > 0 && !USUAL.has(reason));
  return (
    <Panel title="Messages" note="since the start" padded>
      <Facts
        facts={[
          ["sent", `${count(sent.loads)} of load, ${count(sent.placed)} of placed blocks, ${bytes(sent.bytes)}`],
          ["received", `${count(received.loads)} of load, ${count(received.placed)} of placed blocks`],
          ["learnt", `${counted(received.blocks, "block")} of ${counted(received.decisions, "decision")}`],
          ["wait for the store", count(waiting)],
          [
            "dropped",
            <span key="dropped" class={dropped > 0 ? "warn" : undefined}>
              {count(dropped)}
            </span>,
          ],
          [
            "ignored",
            <span key="refused" class={reasons.length > 0 ? "bad" : undefined}>
              {reasons.length === 0 ? "0" : reasons.map(([reason, times]) => `${reason} ${count(times)}`).join(", ")}
            </span>,
          ],
        ]}
      />
    </Panel>
  );
}

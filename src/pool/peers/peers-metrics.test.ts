import { expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { render } from "../../base/telemetry/exposition.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { REFUSALS } from "./message.ts";
import { PeerTable } from "./peer-table.ts";
import type { Peers } from "./peers.ts";
import { showPeers } from "./peers-metrics.ts";
import { peersView } from "./peers-view.ts";
import type { StoreView } from "./redis-transport.ts";

const STORE: StoreView = {
  ...{ server: "store:6379", state: "full", since: 500, reason: "OOM", waiting: 4, dropped: 3 },
  ...{ loads: 7, placed: 5, bytes: 900, answerMs: 2, loadsRead: 21, placedRead: 15, damaged: 1 },
};
const load = (id: string, sequence: number) => ({
  ...{ id, epoch: 1000 * 1024 + 5, sequence, facts: undefined },
  loads: [
    { key: "10.0.0.1:8000", requests: 2, tokens: 100 },
    { key: "10.0.0.2:8000", requests: 1, tokens: 50 },
  ],
});

function known(): { clock: VirtualClock; peers: Peers } {
  const clock = new VirtualClock(1_000_000);
  const table = new PeerTable("self", () => {});
  table.hear(load("old", 1), 0);
  clock.advance(3000);
  table.expire(clock.now());
  table.hear(load("new", 1), 2500);
  const refused = { ...Object.fromEntries(REFUSALS.map((reason) => [reason, 0])), cluster: 2, own: 9 };
  const placedLog = { counts: { decisions: 11, blocks: 40 } };
  const self = { id: "self", epoch: 2000 * 1024 };
  return { clock, peers: { table, refused, placedLog, self, state: "away" } as unknown as Peers };
}

it("shows the replicas, the store and the way to it on the page of metrics", () => {
  const { clock, peers } = known();
  const registry = new MetricsRegistry();
  const stop = showPeers(registry, peers, { view: STORE }, clock);
  const page = render(registry, "text");
  for (const line of [
    'sluice_peers{state="live"} 1',
    'sluice_peers{state="gone"} 1',
    "sluice_peers_store_up 0",
    "sluice_peers_silence_seconds 0.5",
    "sluice_peers_store_answer_seconds 0.002",
    "sluice_peers_requests_in_flight 3",
    "sluice_peers_tokens_in_flight 150",
    "sluice_peers_waiting_messages 4",
    'sluice_peers_sent_total{kind="load"} 7',
    'sluice_peers_sent_total{kind="placed"} 5',
    "sluice_peers_sent_bytes_total 900",
    'sluice_peers_received_total{kind="placed"} 15',
    "sluice_peers_dropped_total 3",
    'sluice_peers_refused_total{reason="cluster"} 2',
    'sluice_peers_refused_total{reason="damaged"} 1',
    'sluice_peers_refused_total{reason="version"} 0',
  ])
    expect(page).toContain(`\n${line}\n`);
  // What is usual is no refusal for people.
  expect(page).not.toContain('reason="own"');
  expect(render(registry, "text")).toBe(page);
  stop();
});

it("lists at most 64 replicas with at most 100 endpoints each (bound)", () => {
  const { clock, peers } = known();
  const loads = Array.from({ length: 300 }, (_, i) => ({ key: `10.0.1.${i}:8000`, requests: 1, tokens: 10 }));
  for (let n = 0; n < 80; n++) peers.table.hear({ ...load(`r${n}`, 1), loads }, clock.now());
  const view = peersView(peers, STORE, clock);
  expect(view.replicas).toHaveLength(64);
  const last = view.replicas.at(-1)!;
  expect(last).toMatchObject({ requests: 300, tokens: 3000, endpointCount: 300 });
  expect(last.endpoints).toHaveLength(100);
  expect(JSON.stringify(view).length).toBeLessThan(1 << 20);
});

it("lists the replicas with their ages and loads, and the store with its reason", () => {
  const { clock, peers } = known();
  expect(peersView(peers, STORE, clock)).toEqual({
    self: { id: "self", startedAt: "1970-01-01T00:00:02.000Z" },
    state: "away",
    store: {
      ...{ server: "store:6379", state: "full", reason: "OOM", answerMs: 2 },
      since: "1970-01-01T00:16:40.500Z",
    },
    replicas: [
      {
        ...{ id: "old", state: "gone", startedAt: "1970-01-01T00:00:01.000Z", ageMs: 3000, messages: 1 },
        ...{ requests: 0, tokens: 0, endpoints: [], endpointCount: 0 },
      },
      {
        ...{ id: "new", state: "live", startedAt: "1970-01-01T00:00:01.000Z", ageMs: 500, messages: 1 },
        ...{ requests: 3, tokens: 150, endpointCount: 2 },
        endpoints: [
          { endpoint: "10.0.0.1:8000", requests: 2, tokens: 100 },
          { endpoint: "10.0.0.2:8000", requests: 1, tokens: 50 },
        ],
      },
    ],
    ignoredLoads: 0,
    sent: { loads: 7, placed: 5, bytes: 900 },
    received: { loads: 21, placed: 15, decisions: 11, blocks: 40 },
    waiting: 4,
    dropped: 3,
    refused: { garbage: 0, version: 0, cluster: 2, own: 9, old: 0, crowded: 0, excess: 0, damaged: 1 },
  });
});

import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { MAX_FLOW_LOADS } from "./flow-loads.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";
import { EndpointRegistry } from "./registry.ts";

function setUp(count = 2): { pool: EndpointRegistry; endpoints: PoolEndpoint[]; shown: () => string[] } {
  const pool = new EndpointRegistry({ clock: new VirtualClock(), random: new SeededRandom(1) });
  const endpoints = Array.from({ length: count }, (_, i) => {
    const spec = { namespace: "default", name: `e${i}`, address: `10.0.0.${i}`, port: 8000, rank: 0, labels: {} };
    return pool.upsert(spec)!;
  });
  const shown = () =>
    Array.from(
      pool.inFlight.flows,
      ({ endpoint, flow, requests, tokens }) =>
        `${endpoint.name} ${flow.fairnessId} ${flow.priority}: ${requests} ${tokens}`,
    );
  return { pool, endpoints, shown };
}

const RED = { fairnessId: "red", priority: "0" };
const URGENT = { fairnessId: "red", priority: "7" };

describe("FlowLoads (scheduling 3.12)", () => {
  it("tells flows apart by fairness ID and priority, follows them to another endpoint, and says 0 at the end", () => {
    const { pool, endpoints, shown } = setUp();
    const [a, b] = endpoints as [PoolEndpoint, PoolEndpoint];
    const first = pool.inFlight.open(a, 100, RED);
    const second = pool.inFlight.open(a, 50, RED);
    const third = pool.inFlight.open(a, 7, URGENT);
    pool.inFlight.open(a, 5);
    expect(shown()).toEqual(["e0 red 0: 2 150", "e0 red 7: 1 7"]);
    first.moveTo(b, 80);
    second.firstResponseByte();
    expect(shown()).toEqual(["e0 red 0: 1 0", "e0 red 7: 1 7", "e1 red 0: 1 80"]);
    for (const ticket of [first, second, third]) {
      ticket.release();
      ticket.release();
    }
    expect(shown()).toEqual(["e0 red 0: 0 0", "e0 red 7: 0 0", "e1 red 0: 0 0"]);
  });

  it("forgets an endpoint that has left, and a namesake starts without any", () => {
    const { pool, endpoints, shown } = setUp(1);
    const [a] = endpoints as [PoolEndpoint];
    const ticket = pool.inFlight.open(a, 5, RED);
    pool.remove(a.id);
    const again = pool.upsert(a)!;
    ticket.moveTo(a, 5);
    ticket.release();
    expect(shown()).toEqual([]);
    pool.inFlight.open(again, 1, RED);
    expect(shown()).toEqual(["e0 red 0: 1 1"]);
  });

  it("lets flows at zero go when all places are taken, and keeps those that are not (bound)", () => {
    const { pool, endpoints, shown } = setUp(1);
    const [a] = endpoints as [PoolEndpoint];
    const flow = (i: number) => ({ fairnessId: `f${i}`, priority: "0" });
    pool.inFlight.open(a, 0, flow(0));
    for (let i = 1; i < MAX_FLOW_LOADS; i++) pool.inFlight.open(a, 0, flow(i)).release();
    expect(shown().length).toBe(MAX_FLOW_LOADS);
    pool.inFlight.open(a, 0, flow(MAX_FLOW_LOADS));
    expect(shown()).toEqual(["e0 f0 0: 1 0", `e0 f${MAX_FLOW_LOADS} 0: 1 0`]);
  });

  it("counts further flows together when all places are held, and loses none (bound)", () => {
    const { pool, endpoints, shown } = setUp(2);
    const [a, b] = endpoints as [PoolEndpoint, PoolEndpoint];
    const open = (endpoint: PoolEndpoint, i: number) =>
      pool.inFlight.open(endpoint, 1, { fairnessId: `f${i}`, priority: "0" });
    for (let i = 0; i < MAX_FLOW_LOADS; i++) open(a, i);
    const late = [open(a, -1), open(a, -2), open(b, 0)];
    expect(shown().length).toBe(MAX_FLOW_LOADS + 2);
    expect(shown().filter((line) => line.includes("other"))).toEqual(["e0 other other: 2 2", "e1 other other: 1 1"]);
    for (const ticket of late) ticket.release();
    expect(shown().filter((line) => line.includes("other"))).toEqual(["e0 other other: 0 0", "e1 other other: 0 0"]);
  });
});

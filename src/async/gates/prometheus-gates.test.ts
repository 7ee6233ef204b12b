import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakePrometheus, type FakeReply } from "../../../test/support/fake-prometheus.ts";
import { type MetricGateBench, metricGateBench } from "../../../test/support/metric-gates.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { budgetQueries, queuedPodsQuery, readyPodsQuery } from "./promql.ts";

const P = { pool: "p", namespace: undefined };
const ERROR = { status: 422, body: '{"status":"error","error":"found duplicate series"}' };

let clock: VirtualClock;
let fake: FakePrometheus;
const open: MetricGateBench[] = [];
/** What each expression gives; nothing = no samples. */
let series: Map<string, FakeReply>;
const sources = budgetQueries(P, 100, false).map(({ query }) => query);

beforeEach(async () => {
  clock = new VirtualClock(1_800_000_000_000);
  fake = await FakePrometheus.start(clock);
  series = new Map([[readyPodsQuery(P), [5]]]);
  fake.reply = (query) => series.get(query) ?? [];
});

afterEach(async () => {
  for (const bench of open.splice(0)) await bench.close();
  await fake.close();
});

function gate(parameters = {}, cacheTtl = 0) {
  const bench = metricGateBench(
    "prometheus-budget",
    { pool: "p", ...parameters },
    { clock, prometheusUrl: fake.url, cacheTtl },
  );
  open.push(bench);
  return bench;
}

/** Source `index` gives this, those before it nothing. */
function only(index: number, reply: FakeReply): void {
  for (const query of sources) series.delete(query);
  series.set(sources[index]!, reply);
}

const transitions = ({ logs }: MetricGateBench) =>
  logs.filter(({ message }) => /resolved|recovered|using fallback metric/.test(message));

describe("prometheus-budget", () => {
  it("falls from source to source and logs each change once (A-16)", async () => {
    const bench = gate();
    only(0, [0.9]);
    expect(await bench.read()).toMatchObject({ budget: 0.9, kind: "queue-only" });
    await bench.read();
    only(1, [0.8]);
    expect(await bench.read()).toMatchObject({ budget: 0.8, kind: "queue-only" });
    await bench.read();
    only(2, [0.7]);
    series.set(sources[0]!, ERROR);
    series.set(sources[1]!, "cut");
    expect(await bench.read()).toMatchObject({ budget: 0.7, kind: "occupancy" });
    await bench.read();
    only(0, [0.6]);
    expect(await bench.read()).toMatchObject({ budget: 0.6, kind: "queue-only" });
    await bench.read();
    expect(transitions(bench).map(({ message, fields }) => [message, fields])).toEqual([
      ["metric source resolved", { pool: "p", sourceIndex: 0 }],
      ["using fallback metric source", { pool: "p", fallbackIndex: 1, previousIndex: 0 }],
      ["using fallback metric source", { pool: "p", fallbackIndex: 2, previousIndex: 1 }],
      ["primary metric source recovered", { pool: "p" }],
    ]);
  });

  it("says which source it found first, and nothing when that one comes back after an outage (A-16)", async () => {
    const bench = gate();
    only(1, [0.8]);
    await bench.read();
    only(1, []);
    expect(await bench.read()).toMatchObject({
      readable: false,
      problem: "all metric sources unavailable (0: no samples; 1: no samples; 2: no samples)",
    });
    only(1, [0.8]);
    await bench.read();
    expect(transitions(bench).map(({ fields }) => fields)).toEqual([{ pool: "p", sourceIndex: 1 }]);
  });

  it("a sample that is no number ends the cascade all the same (A-16)", async () => {
    only(1, [0.8]);
    series.set(sources[0]!, [Number.NaN]);
    const bench = gate();
    expect(await bench.read()).toMatchObject({ readable: false, problem: "a sample has the value NaN" });
    expect(fake.queries).not.toContain(sources[1]);
  });

  it("max_SYS is ready pods times max_concurrency, the largest of several series", async () => {
    only(0, [0.7]);
    series.set(readyPodsQuery(P), [5, 4]);
    const n = async (parameters: object) => (await gate({ max_concurrency: 100, ...parameters }).read()).maxSys;
    expect(await n({})).toBe(500);
    expect(await n({ capacity_per_pod: 8000, unit: "tokens" })).toBe(40_000);
    expect(await n({ max_sys: 77 })).toBe(77);
    // The example: F 0.3, B 0.1, 5 servers of 10 each.
    for (const [index, { query }] of budgetQueries(P, 10, false).entries()) series.set(query, index === 0 ? [0.7] : []);
    const { maxSys = 0, budget, baseline } = await gate({ max_concurrency: 10, baseline: 0.1 }).read();
    expect(maxSys * (budget - baseline)).toBeCloseTo(30, 9);
  });

  it("max_SYS comes from the queues of the model servers when nobody says how many are ready", async () => {
    only(1, [0.7]);
    series.set(readyPodsQuery(P), ERROR);
    series.set(queuedPodsQuery(P), [3]);
    expect((await gate().read()).maxSys).toBe(300);
    series.delete(queuedPodsQuery(P));
    expect(await gate().read()).toMatchObject({ readable: true, maxSys: undefined });
  });

  it("max_SYS stays when one answer lacks it, as after a scrape that failed, for as long as a sample may count", async () => {
    only(0, [0.7]);
    const bench = gate({ max_sample_age: "60s" });
    expect((await bench.read()).maxSys).toBe(500);
    series.delete(readyPodsQuery(P));
    await clock.advance(60_000);
    expect(await bench.read()).toMatchObject({ readable: true, maxSys: 500 });
    await clock.advance(1);
    expect(await bench.read()).toMatchObject({ readable: true, maxSys: undefined });
    series.set(readyPodsQuery(P), [4]);
    expect((await bench.read()).maxSys).toBe(400);
  });

  it("no ready pod: unreadable, whatever the queues say (B-7)", async () => {
    only(0, [1]);
    series.set(readyPodsQuery(P), [0]);
    const bench = gate();
    expect(await bench.gate.budget()).toBe(0);
    expect(bench.shown()).toMatchObject({ readable: false, problem: "no model server of the pool is ready" });
  });

  it("keeps max_SYS for the fallback when only the budget cannot be read (A-8)", async () => {
    const reading = await gate({ fallback: 0.2 }).read();
    expect(reading).toMatchObject({ readable: true, maxSys: 500, kind: "queue-only" });
    expect(reading.maxSys! * (reading.budget - reading.baseline)).toBeCloseTo(100, 9);
  });

  it("carries the time of the sample, not of the question", async () => {
    only(0, [0.7]);
    fake.sampleAge = 8000;
    const bench = gate({}, 5000);
    expect((await bench.read()).sampleTime).toBe(clock.wall() - 8000);
    fake.sampleAge = undefined;
    expect((await bench.read(true)).sampleTime).toBe(clock.wall() - 15_000);
    fake.sampleAge = 60_001;
    expect(await bench.read(true)).toMatchObject({ readable: false, sampleTime: clock.wall() - 60_001 });
  });

  it("asks for everything once per TTL (A-17)", async () => {
    only(1, [0.7]);
    const bench = gate({}, 5000);
    await Promise.all(Array.from({ length: 64 }, () => bench.read()));
    expect([...fake.queries].sort()).toEqual([readyPodsQuery(P), sources[0], sources[1]].sort());
    expect(fake.questions).toHaveLength(5);
  });
});

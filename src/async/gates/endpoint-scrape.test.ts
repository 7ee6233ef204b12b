import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakePrometheus } from "../../../test/support/fake-prometheus.ts";
import { type MetricGateBench, metricGateBench } from "../../../test/support/metric-gates.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";

let clock: VirtualClock;
/** Any HTTP servers will do for pages: one with the load, one with the number of model servers. */
let load: FakePrometheus;
let pods: FakePrometheus;
const open: MetricGateBench[] = [];

beforeEach(async () => {
  clock = new VirtualClock(1_800_000_000_000);
  load = await FakePrometheus.start(clock);
  pods = await FakePrometheus.start(clock);
});

afterEach(async () => {
  for (const bench of open.splice(0)) await bench.close();
  await load.close();
  await pods.close();
});

function gate(page: string, parameters = {}) {
  load.reply = () => ({ body: page });
  const bench = metricGateBench(
    "endpoint-scrape",
    { url: `${load.url}/metrics`, metric: "load", ...parameters },
    { clock },
  );
  open.push(bench);
  return bench;
}

const dynamic = (page: string) => {
  pods.reply = () => ({ body: page });
  return { max_count_per_pod: 10, pods_url: `${pods.url}/metrics`, pods_metric: "pods" };
};

describe("endpoint-scrape (A-28)", () => {
  it("direct: the metric is the saturation", async () => {
    expect(await gate("load 0.25\n", { baseline: 0.05 }).read()).toMatchObject({
      budget: 0.75,
      baseline: 0.05,
      maxSys: undefined,
      kind: "occupancy",
      sampleTime: clock.wall(),
    });
    expect((await gate("load 3\n").read()).budget).toBe(0);
    expect((await gate("load -1\n").read()).budget).toBe(1);
  });

  it("static: the metric is a count out of max_count_per_pod", async () => {
    expect(await gate("load 5\n", { max_count_per_pod: "20" }).read()).toMatchObject({ budget: 0.75, maxSys: 20 });
    expect((await gate("load 25\n", { max_count_per_pod: 20 }).read()).budget).toBe(0);
  });

  it("dynamic: the capacity grows with the model servers", async () => {
    expect(await gate("load 5\n", dynamic("pods 2\n")).read()).toMatchObject({ budget: 0.75, maxSys: 20 });
    const labelled = dynamic('pods{pool="a"} 1\npods{pool="b"} 4\n');
    const only = { ...labelled, pods_labels: { pool: "b" } };
    expect(await gate("load 5\n", only).read()).toMatchObject({ budget: 0.875, maxSys: 40 });
    expect(await gate("load 5\n", labelled).read()).toMatchObject({ budget: 0.5, maxSys: 10 });
  });

  it("takes the samples whose labels match, the fullest of them", async () => {
    const page = 'load{m="a",x="1"} 0.1\nload{m="b"} 0.9\nload{m="a"} 0.3\n';
    expect((await gate(page, { labels: '{"m":"a"}' }).read()).budget).toBeCloseTo(0.7, 12);
    expect((await gate("load 5\nload 15\n", { max_count_per_pod: 20 }).read()).budget).toBe(0.25);
    expect((await gate(page, { labels: { m: "c" } }).read()).problem).toBe("the metric has no samples");
  });

  it.each([
    ["a missing metric", "other 1\n", "pods 2\n", "the metric has no samples"],
    ["0 pods", "load 1\n", "pods 0\n", "the number of model servers is 0"],
    ["missing pods", "load 1\n", "", "the metric has no samples"],
    ["pods that are no number", "load 1\n", "pods NaN\n", "a sample has the value NaN"],
  ])("%s: the fallback, and the gauge says so", async (_, page, count, problem) => {
    const closed = gate(page, dynamic(count));
    expect(await closed.gate.budget()).toBe(0);
    expect(closed.shown()).toMatchObject({ readable: false, problem });
    const open = gate(page, { ...dynamic(count), fallback: 0.25 });
    expect(await open.gate.budget()).toBe(0.25);
    expect(open.shown()).toMatchObject({ readable: false, problem });
  });

  it("a 500 of either page", async () => {
    const bench = gate("load 1\n", dynamic("pods 2\n"));
    pods.reply = () => ({ status: 500, body: "pods 2\n" });
    expect(await bench.gate.budget()).toBe(0);
    expect(bench.shown().problem).toMatch(/HTTP 500$/);
    pods.reply = () => ({ body: "pods 2\n" });
    load.reply = () => ({ status: 500, body: "load 1\n" });
    expect(await bench.gate.budget()).toBe(0);
    load.reply = () => ({ body: "load 1\n" });
    expect(await bench.gate.budget()).toBe(0.95);
  });
});

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { type MetricGateBench, metricGateBench } from "../../../test/support/metric-gates.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { defineMetricSource, type MetricAnswer } from "../../base/plugin/gate.ts";

let clock: VirtualClock;
/** What the sources of the name give; a function that throws is a source that fails. */
let answers: Record<string, () => MetricAnswer | Promise<MetricAnswer>>;
const open: MetricGateBench[] = [];

beforeEach(() => {
  clock = new VirtualClock(1_800_000_000_000);
  answers = {};
});

afterEach(async () => {
  for (const bench of open.splice(0)) await bench.close();
});

/** As a user would write one. */
const table = defineMetricSource({
  type: "table",
  describe: "Reads a figure of this test.",
  parameters: z.strictObject({ name: z.string() }),
  create: ({ name }) => ({ query: async () => answers[name]!() }),
});

const source = (name: string) => ({ type: "table", parameters: { name } });
const gives = (...values: number[]) => ({
  samples: values.map((value) => ({ labels: {}, value })),
  time: clock.wall(),
});

function gate(parameters = {}, cacheTtl = 0) {
  const setup = { clock, cacheTtl, sources: [table] };
  const bench = metricGateBench("metric-budget", { source: source("d"), ...parameters }, setup);
  open.push(bench);
  return bench;
}

describe("metric-budget", () => {
  it("reads a source that a user defined, as a budget or as a saturation", async () => {
    answers["d"] = () => gives(0.75, 0.5);
    expect(await gate().read()).toMatchObject({ budget: 0.5, baseline: 0.05, kind: "occupancy", maxSys: undefined });
    expect(await gate({ value: "saturation" }).read()).toMatchObject({ budget: 0.25 });
    expect(await gate({ kind: "queue-only", baseline: 0.3 }).read()).toMatchObject({
      kind: "queue-only",
      baseline: 0.3,
    });
  });

  it("counts a capacity per model server", async () => {
    answers["d"] = () => gives(0.75);
    answers["pods"] = () => gives(3, 4);
    const parameters = { unit: "bytes", max_concurrency: 1024, pods_source: source("pods") };
    expect(await gate(parameters).read()).toMatchObject({ unit: "bytes", maxSys: 4096, readable: true });
    answers["pods"] = () => gives(0);
    expect(await gate(parameters).read()).toMatchObject({ readable: false });
  });

  it("the example in KiB: 614.4 of 1,024", async () => {
    answers["d"] = () => gives(0.7);
    const { maxSys = 0, budget, baseline } = await gate({ unit: "bytes", max_sys: 1024, baseline: 0.1 }).read();
    expect(maxSys * (budget - baseline)).toBeCloseTo(614.4, 9);
  });

  it("believes no time from the future, and none that is none", async () => {
    answers["d"] = () => ({ ...gives(1), time: clock.wall() + 3_600_000 });
    expect((await gate().read()).sampleTime).toBe(clock.wall());
    answers["d"] = () => ({ ...gives(1), time: Number.NaN });
    expect(await gate().read()).toMatchObject({ readable: false, problem: "the samples have no timestamp" });
  });

  it("a source that throws, or never answers, is closed (A-7)", async () => {
    answers["d"] = () => {
      throw new TypeError("undefined is not a function");
    };
    const bench = gate();
    expect(await bench.gate.budget()).toBe(0);
    expect(bench.shown()).toMatchObject({ readable: false, problem: "undefined is not a function" });
    answers["d"] = () => new Promise(() => {});
    const asked = bench.gate.budget();
    await clock.advanceAsync(10_000);
    expect(await asked).toBe(0);
    expect(bench.shown().problem).toBe("no answer within 10000 ms");
    answers["d"] = () => gives(1);
    expect(await bench.gate.budget()).toBeCloseTo(0.95, 12);
  });
});

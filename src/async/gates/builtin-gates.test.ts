import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakePrometheus, type FakeReply } from "../../../test/support/fake-prometheus.ts";
import { deadPort } from "../../../test/support/loopback.ts";
import { gateMessage, type MetricGateBench, metricGateBench } from "../../../test/support/metric-gates.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";

const EPOCH = 1_800_000_000_000;

let clock: VirtualClock;
let fake: FakePrometheus;
const open: MetricGateBench[] = [];

beforeEach(async () => {
  clock = new VirtualClock(EPOCH);
  fake = await FakePrometheus.start(clock);
});

afterEach(async () => {
  for (const bench of open.splice(0)) await bench.close();
  await fake.close();
});

function gate(type: string, parameters: Readonly<Record<string, unknown>> = {}, cacheTtl = 0, url = fake.url) {
  const bench = metricGateBench(
    type,
    { ...REQUIRED[type], ...own(type), ...parameters },
    { clock, prometheusUrl: url, cacheTtl },
  );
  open.push(bench);
  return bench;
}

/** What each gate cannot do without. */
const REQUIRED: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  "prometheus-saturation": { pool: "p" },
  "prometheus-budget": { pool: "p" },
  "prometheus-query": { query: "free" },
  "endpoint-scrape": { metric: "load" },
  "metric-budget": { source: { type: "prometheus", parameters: { query: "free" } } },
};
const TYPES = Object.keys(REQUIRED);
const own = (type: string) => (type === "endpoint-scrape" ? { url: `${fake.url}/metrics` } : {});

/** Answers every gate so that it sees D. */
function free(type: string, d: number): void {
  fake.reply = (query) => {
    if (type === "endpoint-scrape") return { body: `load ${1 - d}\n` };
    return query.startsWith("inference_pool_ready_pods") ? [5] : [d];
  };
}

const apply = async ({ gate: made }: MetricGateBench, more = {}) =>
  (await made.apply(gateMessage(more), { add() {} })).kind;

const BASELINE: Readonly<Record<string, number>> = {
  "prometheus-saturation": 1 - 0.8,
  "prometheus-budget": 0.05,
  "prometheus-query": 0,
  "endpoint-scrape": 0,
  "metric-budget": 0.05,
};

describe.each(TYPES)("%s", (type) => {
  const baseline = BASELINE[type]!;

  it("passes messages while D is above its threshold", async () => {
    free(type, 0.75);
    const bench = gate(type);
    expect(await bench.gate.budget()).toBeCloseTo(0.75 - baseline, 12);
    expect(await apply(bench)).toBe("continue");
    expect(await bench.read()).toMatchObject({
      readable: true,
      problem: "",
      budget: 0.75,
      baseline,
      unit: "requests",
      value: 0.75,
      threshold: baseline,
    });
    expect(bench.shown()).toMatchObject({ readable: true, value: 0.75, threshold: baseline });
  });

  it("is closed at its threshold and below", async () => {
    for (const d of [baseline, baseline / 2, 0]) {
      free(type, d);
      const bench = gate(type);
      expect(await bench.gate.budget()).toBe(0);
      expect(await apply(bench)).toBe("refuse");
      expect(bench.shown()).toMatchObject({ readable: true, budget: d });
    }
  });

  it("clamps D to [0, 1] (B-6)", async () => {
    free(type, 1.3);
    const bench = gate(type);
    expect(await bench.gate.budget()).toBeCloseTo(1 - baseline, 12);
    expect((await bench.read()).budget).toBe(1);
    free(type, -3);
    expect(await bench.gate.budget()).toBe(0);
    expect((await bench.read()).budget).toBe(0);
  });

  it("lets a message pass that its capacity has room for already", async () => {
    free(type, 0);
    const bench = gate(type);
    expect(await apply(bench, { admitted: true })).toBe("continue");
    expect(bench.figures).toEqual([]);
  });

  const unreadable: readonly (readonly [string, FakeReply])[] = [
    ["empty", type === "endpoint-scrape" ? { body: "" } : []],
    ["NaN", type === "endpoint-scrape" ? { body: "load NaN\n" } : [Number.NaN]],
    ["+Inf", type === "endpoint-scrape" ? { body: "load +Inf\n" } : [Number.POSITIVE_INFINITY]],
    ["-Inf", type === "endpoint-scrape" ? { body: "load -Inf\n" } : [Number.NEGATIVE_INFINITY]],
    ["one NaN of two", type === "endpoint-scrape" ? { body: "load 0\nload NaN\n" } : [1, Number.NaN]],
    ["scalar", { body: '{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}' }],
    ["HTTP 500", { status: 500, body: "load 0\n" }],
    ["HTTP 422", { status: 422, body: '{"status":"error","error":"many-to-many"}' }],
    ["a cut connection", "cut"],
  ];
  it.each(unreadable)("%s: closed and told apart from full (A-7)", async (_, reply) => {
    fake.reply = () => reply;
    const bench = gate(type);
    expect(await bench.gate.budget()).toBe(0);
    expect(await apply(bench)).toBe("refuse");
    const reading = await bench.read();
    expect(reading).toMatchObject({ readable: false, budget: 0 });
    expect(reading.problem).not.toBe("");
    expect(bench.shown().readable).toBe(false);
    const errors = bench.logs.filter(({ level }) => level === "error");
    expect(errors).toHaveLength(1);
    expect(errors[0]).toMatchObject({
      message: "using fallback value",
      fields: { fallback: type === "prometheus-saturation" ? 1 : 0, problem: reading.problem },
    });
    // It recovers by itself.
    free(type, 0.75);
    expect(await apply(bench)).toBe("continue");
    expect(bench.shown().readable).toBe(true);
  });

  it("a server that is down closes it (A-7)", async () => {
    const dead = `http://127.0.0.1:${await deadPort()}`;
    const bench = gate(type, type === "endpoint-scrape" ? { url: dead } : {}, 0, dead);
    expect(await bench.gate.budget()).toBe(0);
    expect(bench.shown().readable).toBe(false);
    expect(bench.shown().problem).toContain("ECONNREFUSED");
  });

  it("several series: the least free one counts", async () => {
    fake.reply = () => (type === "endpoint-scrape" ? { body: "load 0.2\nload 0.6\nload 0.3\n" } : [0.8, 0.4, 0.7]);
    expect((await gate(type).read()).budget).toBeCloseTo(0.4, 12);
  });

  it("an explicit fallback opens it, in the documented space (A-8)", async () => {
    fake.reply = () => ({ status: 500, body: "" });
    const bench = gate(type, { fallback: 0.3 });
    // The saturation gate's is a saturation: 0.8 - 0.3 are left. All others are budgets above the baseline.
    const left = type === "prometheus-saturation" ? 0.5 : 0.3;
    expect(await bench.gate.budget()).toBe(left);
    expect(await apply(bench)).toBe("continue");
    const reading = await bench.read();
    expect(reading.readable).toBe(true);
    expect(reading.budget - reading.baseline).toBeCloseTo(left, 12);
    // What runs is not in a number that nobody measured, and it is no news after an overload.
    expect(reading).toMatchObject({ kind: "queue-only", sampleTime: EPOCH - 15_000 });
    // The metric is still told to be unreadable.
    expect(bench.shown()).toMatchObject({ readable: false, budget: 0 });
  });

  it("a fallback is never more than an idle system has (G-17)", async () => {
    fake.reply = () => ({ status: 500, body: "" });
    const generous = gate(type, { fallback: type === "prometheus-saturation" ? -2 : 7 });
    expect(await generous.gate.budget()).toBeCloseTo(1 - baseline, 12);
    expect((await generous.read()).budget).toBeLessThanOrEqual(1);
    const closed = gate(type, { fallback: type === "prometheus-saturation" ? 0.8 : -1 });
    expect(await closed.gate.budget()).toBe(0);
    expect((await closed.read()).readable).toBe(false);
  });

  it("a sample that has become too old by being kept is asked for anew (G-15)", async () => {
    free(type, 1);
    const bench = gate(type, { max_sample_age: "20s", metric_lag: "5s" }, 3_600_000);
    const first = await bench.read();
    const asked = fake.questions.length;
    clock.advance(20_000 - (EPOCH - first.sampleTime));
    expect(await apply(bench)).toBe("continue");
    expect(fake.questions).toHaveLength(asked);
    clock.advance(1);
    free(type, 0.75);
    expect(await bench.read()).toMatchObject({ readable: true, budget: 0.75 });
    clock.advance(20_001);
    fake.reply = () => "cut";
    expect(await apply(bench)).toBe("refuse");
    expect(bench.shown().readable).toBe(false);
  });

  it("answers at once from what is kept, one question for many messages (A-17)", async () => {
    free(type, 1);
    const bench = gate(type, {}, 5000);
    const verdicts = await Promise.all(Array.from({ length: 64 }, () => apply(bench)));
    expect(new Set(verdicts)).toEqual(new Set(["continue"]));
    const asked = fake.questions.length;
    expect(bench.gate.apply(gateMessage(), { add() {} })).toMatchObject({ kind: "continue" });
    expect(await bench.gate.budget()).toBeGreaterThan(0);
    expect(fake.questions).toHaveLength(asked);
    await bench.read(true);
    expect(fake.questions.length).toBe(2 * asked);
  });

  it("a hung server delays only its own callers, and those no longer than its limit (A-17)", async () => {
    const other = await FakePrometheus.start(clock);
    other.reply = () => "hang";
    const url = type === "endpoint-scrape" ? { url: other.url } : {};
    const hung = gate(type, url, 5000, other.url);
    other.sampleAge = undefined;
    const asked = hung.gate.budget();
    const leaving = new AbortController();
    const abandoned = hung.gate.apply(gateMessage({ signal: leaving.signal }), { add() {} });
    free(type, 0.75);
    const quick = gate(type);
    expect(await apply(quick)).toBe("continue");
    // A caller that leaves does so alone.
    leaving.abort(new Error("left"));
    await expect(abandoned).rejects.toThrow("left");
    await clock.advanceAsync(type === "endpoint-scrape" || type === "metric-budget" ? 10_000 : 5000);
    expect(await asked).toBe(0);
    expect(hung.shown().problem).toMatch(/no answer within \d+ ms/);
    await other.close();
  });

  it("closes while a question is under way", async () => {
    fake.reply = () => "hang";
    const bench = gate(type);
    const asked = bench.gate.budget();
    await bench.close();
    expect(await asked).toBe(0);
  });

  it("a capacity is the same for equal parameters, however they are written", () => {
    const key = (parameters = {}) => gate(type, parameters).gate.capacities[0]!.key;
    expect(key({ max_sys: "10", max_sample_age: "1m" })).toBe(key({ max_sample_age: "60s", max_sys: 10 }));
    expect(key({ max_sys: 11 })).not.toBe(key({ max_sys: 10 }));
    expect(key()).toMatch(new RegExp(`^${type}:[0-9a-f]{16}$`));
  });

  it("counts in other units when it knows how much there is", async () => {
    free(type, 1);
    expect(await gate(type, { unit: "tokens", max_sys: 5e6 }).read()).toMatchObject({ unit: "tokens", maxSys: 5e6 });
    expect(() => gate(type, { unit: "bytes" })).toThrow(new RegExp(`${type}.*unit: .bytes. needs`));
  });

  const mistakes: readonly (readonly [Readonly<Record<string, unknown>>, RegExp])[] = [
    [{ max_sys: 0 }, /max_sys: must be more than 0/],
    [{ max_sample_age: 60 }, /max_sample_age: expected a duration/],
    [{ max_sample_age: "10s" }, /max_sample_age: must be more than metric_lag/],
    [{ metric_lag: "-1s" }, /metric_lag: must be at least 0/],
    [{ unit: "pages" }, /unit: expected one of `requests`, `tokens`, `bytes`/],
    [{ fallback: "open" }, /fallback: expected a number/],
    [{ fallbak: 1 }, /unknown key `fallbak`; did you mean `fallback`/],
    ...Object.keys(REQUIRED[type]!).map((name) => [{ [name]: null }, new RegExp(`${name}: is missing`)] as const),
  ];
  it.each(mistakes)("refuses %j at start, with its name (A-12)", (parameters, problem) => {
    expect(() => gate(type, parameters)).toThrow(problem);
    expect(() => gate(type, parameters)).toThrow(`gate \`${type}\` of queue \`queue\``);
  });

  if (type.startsWith("prometheus"))
    it("needs --prometheus-url (A-12)", () => {
      const make = (prometheusUrl: string) => metricGateBench(type, REQUIRED[type]!, { clock, prometheusUrl });
      expect(() => make("")).toThrow(new RegExp(`${type}.*--prometheus-url is missing`));
      expect(() => make("prometheus:9090")).toThrow(new RegExp(`${type}.*must begin with http`));
    });
});

describe("parameters of single gates", () => {
  it.each([
    ["prometheus-saturation", { threshold: 0 }, /threshold: must be more than 0/],
    ["prometheus-saturation", { threshold: 1.2 }, /threshold: must be at most 1/],
    ["prometheus-budget", { baseline: 1 }, /baseline: must be less than 1/],
    ["prometheus-budget", { baseline: -0.1 }, /baseline: must be at least 0/],
    ["prometheus-budget", { max_concurrency: 0 }, /max_concurrency: must be more than 0/],
    ["endpoint-scrape", { url: "localhost:9090/metrics" }, /must begin with http/],
    ["endpoint-scrape", { pods_url: "http://x/" }, /pods_metric: is missing/],
    ["endpoint-scrape", { pods_metric: "pods" }, /pods_url: is missing/],
    ["endpoint-scrape", { labels: "a=b" }, /labels: .*not JSON/],
    ["endpoint-scrape", { max_count_per_pod: -1 }, /max_count_per_pod: must be at least 0/],
    ["metric-budget", { source: { type: "nothing" } }, /metric source `nothing` is not known/],
    ["metric-budget", { source: { type: "prometheus", parameters: {} } }, /`prometheus`: query: is missing/],
    ["metric-budget", { source: { type: "scrape", parameters: { url: "x", metric: "m" } } }, /must begin with http/],
    ["metric-budget", { max_concurrency: 5 }, /pods_source: is missing/],
    ["metric-budget", { pods_source: '{"type":"prometheus"}' }, /max_concurrency: is missing/],
  ])("%s refuses %j (A-12)", (type, parameters, problem) => {
    expect(() => gate(type, parameters)).toThrow(problem);
    expect(() => gate(type, parameters)).toThrow(`gate \`${type}\` of queue \`queue\``);
  });

  it("texts and numbers are the same (A-14)", async () => {
    free("prometheus-budget", 0.5);
    const parameters = { baseline: "0.1", max_concurrency: "50", fallback: "0", max_sys: "80", robust: "true" };
    expect(await gate("prometheus-budget", parameters).read()).toMatchObject({ baseline: 0.1, maxSys: 80 });
    const source = JSON.stringify({ type: "prometheus", parameters: JSON.stringify({ query: "free" }) });
    expect(await gate("metric-budget", { source }).read()).toMatchObject({ budget: 0.5 });
  });
});

describe("what gates log at start (A-15)", () => {
  it("prometheus-saturation", () => {
    const { logs } = gate("prometheus-saturation", { namespace: "n" });
    expect(logs).toContainEqual({
      level: "info",
      message: "prometheus-saturation metric source",
      fields: {
        pool: "p",
        query: '1 - inference_extension_flow_control_pool_saturation{inference_pool="p",namespace="n"}',
      },
    });
  });

  it("prometheus-budget", () => {
    const { logs } = gate("prometheus-budget", { max_concurrency: 20, baseline: 0.25 });
    const sources = logs.filter(({ message }) => message === "prometheus-budget metric source");
    expect(sources.map(({ fields }) => fields)).toEqual([
      { pool: "p", sourceIndex: 0, query: expect.stringContaining("flow_control_queue_size") },
      { pool: "p", sourceIndex: 1, query: expect.stringContaining("per_pod_queue_size") },
      { pool: "p", sourceIndex: 2, query: expect.stringContaining("num_requests_running") },
    ]);
    expect(logs).toContainEqual({
      level: "info",
      message: "prometheus-budget gate configured",
      fields: { pool: "p", maxConcurrency: 20, baseline: 0.25, closesAtLoadPerReadyPod: 15 },
    });
  });

  it("what is sent is what is logged", async () => {
    fake.reply = () => [];
    const { logs, gate: made } = gate("prometheus-budget");
    await made.budget();
    const logged = logs.flatMap(({ fields }) => ("query" in fields ? [fields["query"]] : []));
    expect(fake.queries).toEqual(expect.arrayContaining(logged));
  });
});

it("the pool is told with the figures", async () => {
  free("prometheus-query", 1);
  const named = gate("prometheus-query", { pool: "shown" });
  await named.read();
  expect(named.figures.at(-1)?.pool).toBe("shown");
  const nameless = gate("prometheus-query");
  await nameless.read();
  expect(nameless.figures.at(-1)?.pool).toBe("");
});

it("a sample that is too old is not believed, and is asked for no more often than another (G-15)", async () => {
  free("prometheus-saturation", 1);
  fake.sampleAge = 60_001;
  const bench = gate("prometheus-saturation", {}, 5000);
  for (let i = 0; i < 10; i++) expect(await apply(bench)).toBe("refuse");
  expect(bench.shown()).toMatchObject({
    readable: false,
    problem: "the sample is older than max_sample_age (60000 ms)",
  });
  expect(fake.queries).toHaveLength(1);
  // Nor does what it said of running work count for the fallback.
  const spent = await gate("prometheus-saturation", { fallback: 0.3 }).read();
  expect(spent).toMatchObject({ readable: true, kind: "queue-only", sampleTime: EPOCH - 15_000 });
  fake.sampleAge = 59_999;
  clock.advance(5000);
  expect(await apply(bench)).toBe("continue");
});

it("says once a minute that a metric cannot be read, and that it can be again", async () => {
  fake.reply = () => [];
  const bench = gate("prometheus-query");
  const count = (message: string) => bench.logs.filter((line) => line.message === message).length;
  for (let i = 0; i < 10; i++) await bench.read();
  expect(count("using fallback value")).toBe(1);
  clock.advance(60_000);
  await bench.read();
  expect(count("using fallback value")).toBe(2);
  fake.reply = () => [1];
  await bench.read();
  await bench.read();
  expect(count("metric source is readable again")).toBe(1);
});

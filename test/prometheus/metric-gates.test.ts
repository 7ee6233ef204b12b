import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { budgetQueries, queuedPodsQuery, readyPodsQuery, saturationQuery } from "../../src/async/gates/promql.ts";
import { realClock } from "../../src/base/clock/real.ts";
import type { CapacityReading } from "../../src/base/plugin/gate.ts";
import { flowPage } from "../support/flow-page.ts";
import { gateMessage, type MetricGateBench, metricGateBench } from "../support/metric-gates.ts";
import { poll } from "../support/poll.ts";
import { type RunningPrometheus, startPrometheus } from "../support/prometheus.ts";

/** A page that Prometheus scrapes; "" is one without metrics. */
class Page {
  text = "";
  readonly #server: Server = createServer((_, response) => response.end(this.text));

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/metrics`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

/** Two Endpoint Pickers and the model servers. */
const eppA = new Page();
const eppB = new Page();
const servers = new Page();
const pages = [eppA, eppB, servers];
let prometheus: RunningPrometheus;
const open: MetricGateBench[] = [];

// What an Endpoint Picker and vLLM publish, as far as the gates read it.
const ready = (pods: number) => `inference_pool_ready_pods{name="p"} ${pods}\n`;
const queued = (requests: number) =>
  `inference_extension_flow_control_queue_size{inference_pool="p",priority="0"} ${requests}\n`;
const saturation = (share: number) => `inference_extension_flow_control_pool_saturation{inference_pool="p"} ${share}\n`;
const waiting = (...perPod: number[]) =>
  perPod
    .map((requests, pod) => `inference_pool_per_pod_queue_size{name="p",model_server_pod="pod-${pod}"} ${requests}\n`)
    .join("");
const running = (...perPod: number[]) =>
  perPod
    .map((requests, pod) => `vllm:num_requests_running{inference_pool="p",pod="pod-${pod}"} ${requests}\n`)
    .join("");

beforeAll(async () => {
  const targets = await Promise.all(pages.map((page) => page.listen()));
  servers.text = running(0);
  prometheus = await startPrometheus({ targets, scrapeIntervalMs: 200 });
  await prometheus.values("vllm:num_requests_running");
});

afterAll(async () => {
  await prometheus?.stop();
  for (const page of pages) page.close();
});

beforeEach(() => {
  for (const page of pages) page.text = "";
});

afterEach(async () => {
  for (const bench of open.splice(0)) await bench.close();
});

function gate(type: string, parameters: Readonly<Record<string, unknown>>): MetricGateBench {
  const bench = metricGateBench(type, parameters, { clock: realClock, prometheusUrl: prometheus.url });
  open.push(bench);
  return bench;
}

/** What is wanted of a reading: of each member its value, or what a text is to contain, or a question about it. */
type Wanted = {
  readonly [Name in keyof CapacityReading]?: CapacityReading[Name] | RegExp | ((value: number) => boolean);
};

/**
 * Reads until the reading is as wanted; the last one is part of the message when it never is. Any reading may be of a moment
 * in which a scrape has failed, because the machine stood still.
 */
async function reading(bench: MetricGateBench, wanted: Wanted): Promise<CapacityReading> {
  let last: CapacityReading | undefined;
  const matches = (found: CapacityReading) =>
    Object.entries(wanted).every(([name, value]) => {
      const actual = found[name as keyof CapacityReading];
      if (value instanceof RegExp) return value.test(String(actual));
      if (typeof value === "function") return value(Number(actual));
      return typeof value === "number" && typeof actual === "number"
        ? Math.abs(value - actual) < 1e-9
        : value === actual;
    });
  try {
    return await poll("the reading", async () => {
      last = await bench.read();
      return matches(last) ? last : undefined;
    });
  } catch {
    throw new Error(`wanted ${JSON.stringify(wanted)}, last ${JSON.stringify(last)}`);
  }
}

const apply = async ({ gate: made }: MetricGateBench) => (await made.apply(gateMessage(), { add() {} })).kind;
const applies = (bench: MetricGateBench, verdict: string): Promise<unknown> =>
  poll(`${verdict} by the gate`, async () => (await apply(bench)) === verdict);

describe("metric gates on a real Prometheus", () => {
  it("every published query is one that Prometheus evaluates (A-15)", async () => {
    const ask = async (query: string) => {
      const body = new URLSearchParams({ query });
      const answer = await fetch(`${prometheus.url}/api/v1/query`, { method: "POST", body });
      return (await answer.json()) as { status: string; error?: string };
    };
    for (const namespace of [undefined, 'n"\\\n'])
      for (const robust of [true, false])
        for (const perPod of [100, 0.5, 1e6, 1e-7]) {
          const selection = { pool: 'p"} or vector(1)\\\n\u0001ä', namespace };
          const built = [saturationQuery(selection), ...budgetQueries(selection, perPod, robust)];
          const queries = built.flatMap(({ query, timestampQuery }) => [query, timestampQuery]);
          for (const query of [...queries, readyPodsQuery(selection), queuedPodsQuery(selection)])
            expect({ query, ...(await ask(query)) }).toMatchObject({ status: "success" });
        }
  });

  it("reads what an Endpoint Picker with flow control publishes: stages, tenants and priorities", async () => {
    const ask = gate("prometheus-query", {
      query: '1 - llm_d_epp_flow_control_pool_saturation{inference_pool="p",stage="effective"}',
    });
    const saturated = gate("prometheus-saturation", { pool: "p", threshold: 0.8 });
    const budget = gate("prometheus-budget", { pool: "p", max_concurrency: 6 });
    eppA.text = flowPage(2);
    // The stage for prompts is idle, the other one is half full: the fuller one counts.
    await reading(saturated, { budget: 0.5, kind: "occupancy" });
    await reading(ask, { budget: 0.5 });
    await reading(budget, { budget: 1, kind: "queue-only", maxSys: 12 });
    eppA.text = flowPage(10);
    await reading(saturated, { budget: 0 });
    await reading(ask, { budget: 0 });
    // Three requests of each of two tenants wait; two servers take twelve.
    await reading(budget, { budget: 0.5, kind: "queue-only", maxSys: 12 });
    expect(await apply(saturated)).toBe("refuse");
  });

  it("falls from source to source as series go, and back as they come (A-16)", async () => {
    const bench = gate("prometheus-budget", { pool: "p", max_concurrency: 10 });
    eppA.text = ready(5) + queued(15) + waiting(1, 1, 1, 1, 1);
    servers.text = running(2, 2, 2, 2, 2);
    await reading(bench, { budget: 0.7, kind: "queue-only", maxSys: 50 });
    eppA.text = ready(5) + waiting(1, 1, 1, 1, 1);
    await reading(bench, { budget: 0.9, kind: "queue-only", maxSys: 50 });
    eppA.text = ready(5);
    await reading(bench, { budget: 0.8, kind: "occupancy", maxSys: 50 });
    eppA.text = "";
    await reading(bench, { readable: false, budget: 0 });
    expect(await apply(bench)).toBe("refuse");
    eppA.text = ready(5) + queued(0) + waiting(1, 1, 1, 1, 1);
    await reading(bench, { budget: 1, kind: "queue-only", maxSys: 50 });
    await applies(bench, "continue");
    expect(
      bench.logs
        .map(({ message }) => message)
        .filter((message) => /metric source (res|rec)|fallback metric/.test(message)),
    ).toEqual(expect.arrayContaining(["using fallback metric source", "primary metric source recovered"]));
  });

  it("a stock install without flow control: max_SYS from the queues of the model servers, each counted once", async () => {
    const bench = gate("prometheus-budget", { pool: "p", max_concurrency: 10 });
    eppA.text = waiting(4, 0, 2);
    eppB.text = waiting(4, 0, 2);
    await reading(bench, { budget: 0.8, kind: "queue-only", maxSys: 30 });
  });

  it("two Endpoint Picker replicas break sources 0 and 2, and not their robust forms (async-processor 3.7)", async () => {
    const published = gate("prometheus-budget", { pool: "p", max_concurrency: 10 });
    const robust = gate("prometheus-budget", { pool: "p", max_concurrency: 10, robust: true });
    for (const page of [eppA, eppB]) page.text = ready(5) + queued(5);
    servers.text = running(2, 2, 2, 2, 2);
    await reading(robust, { budget: 0.8, kind: "queue-only", maxSys: 50 });
    const problem = /0: .*duplicate series.*; 1: no samples; 2: .*duplicate series/;
    await reading(published, { readable: false, problem });
    for (const page of [eppA, eppB]) page.text = ready(5);
    await reading(robust, { budget: 0.8, kind: "occupancy", maxSys: 50 });
    // Source 1 does not need the number of ready pods.
    for (const page of [eppA, eppB]) page.text = ready(5) + waiting(1, 1, 1, 1, 1);
    await reading(published, { budget: 0.9, kind: "queue-only", maxSys: 50 });
  });

  it("an empty pool is not an idle one (B-7)", async () => {
    const bench = gate("prometheus-budget", { pool: "p", max_concurrency: 10 });
    eppA.text = ready(2) + queued(0);
    await reading(bench, { budget: 1 });
    eppA.text = ready(0) + queued(0);
    await reading(bench, { readable: false });
    await poll("no budget", async () => (await bench.gate.budget()) === 0);
  });

  it("of several saturations the highest counts; the time is that of the scrape", async () => {
    const bench = gate("prometheus-saturation", { pool: "p" });
    const before = realClock.wall();
    eppA.text = saturation(0.25);
    eppB.text = saturation(0.5);
    // What an earlier test left in Prometheus may look like this for a while.
    const ofNow = (time: number) => time > before - 1000;
    const { sampleTime } = await reading(bench, { budget: 0.5, kind: "occupancy", sampleTime: ofNow });
    expect(sampleTime).toBeLessThanOrEqual(realClock.wall());
    await poll("a budget of 0.3", async () => Math.abs((await bench.gate.budget()) - 0.3) < 1e-9);
    // Each further scrape is a later sample.
    await poll("a later sample", async () => (await bench.read()).sampleTime > sampleTime);
    eppB.text = saturation(0.8);
    await reading(bench, { budget: 1 - 0.8 });
    expect(await apply(bench)).toBe("refuse");
    eppB.text = saturation(Number.NaN);
    await reading(bench, { readable: false, problem: "a sample has the value NaN" });
  });

  it("a sample that Prometheus still shows but nobody renews is not believed (G-15)", async () => {
    const old = realClock.wall() - 100_000;
    const pool = 'inference_pool="old"';
    eppA.text = `inference_extension_flow_control_pool_saturation{${pool}} 0.1 ${old}\n`;
    await prometheus.values(`inference_extension_flow_control_pool_saturation{${pool}}`);
    const strict = gate("prometheus-saturation", { pool: "old" });
    const patient = gate("prometheus-saturation", { pool: "old", max_sample_age: "5m" });
    const { sampleTime } = await reading(strict, { readable: false, problem: /max_sample_age/ });
    expect(Math.abs(sampleTime - old)).toBeLessThan(2000);
    expect(await strict.gate.budget()).toBe(0);
    await reading(patient, { budget: 0.9 });
  });

  it("a query of one's own: vectors only (A-7)", async () => {
    eppA.text = ready(4);
    const bench = gate("prometheus-query", { query: "inference_pool_ready_pods / 8" });
    const { sampleTime } = await reading(bench, { budget: 0.5 });
    expect(realClock.wall() - sampleTime).toBeGreaterThanOrEqual(15_000);
    const scalar = gate("prometheus-query", { query: "1" });
    expect((await scalar.read()).problem).toContain("the answer is a scalar, not a vector");
    expect(await gate("prometheus-query", { query: "vector(1)" }).gate.budget()).toBe(1);
    const wrong = await gate("prometheus-query", { query: "sum(" }).read();
    expect(wrong).toMatchObject({ readable: false, problem: expect.stringMatching(/HTTP 400: .*parse error/) });
  });

  it("the generic gate reads it too", async () => {
    eppA.text = ready(4) + saturation(0.25);
    const source = (query: string) => ({
      type: "prometheus",
      parameters: { query, timestamp_query: `timestamp(${query})` },
    });
    const bench = gate("metric-budget", {
      source: source('inference_extension_flow_control_pool_saturation{inference_pool="p"}'),
      value: "saturation",
      unit: "tokens",
      max_concurrency: 5000,
      pods_source: source('inference_pool_ready_pods{name="p"}'),
    });
    await reading(bench, { budget: 0.75, maxSys: 20_000 });
    // Value and time are asked for one by one: the first value that there is may come without, and counts as 15 s old then.
    await poll("a sample with its time", async () => realClock.wall() - (await bench.read()).sampleTime < 10_000);
  });

  it("a page can be read without Prometheus (A-28)", async () => {
    servers.text = running(3, 4);
    eppA.text = ready(2);
    const bench = gate("endpoint-scrape", {
      url: servers.url,
      metric: "vllm:num_requests_running",
      labels: { pod: "pod-1" },
      max_count_per_pod: 8,
      pods_url: eppA.url,
      pods_metric: "inference_pool_ready_pods",
    });
    expect(await bench.read()).toMatchObject({ budget: 0.75, maxSys: 16, readable: true });
  });

  it("an idle pool keeps D at 1 and the gate open, scrape after scrape", async () => {
    eppA.text = ready(5) + queued(0) + waiting(0, 0, 0, 0, 0) + saturation(0);
    servers.text = running(0, 0, 0, 0, 0);
    const gates = [gate("prometheus-budget", { pool: "p" }), gate("prometheus-saturation", { pool: "p" })];
    for (const bench of gates) {
      await reading(bench, { budget: 1 });
      const samples = new Set<number>();
      await poll("ten samples", async () => {
        const found = await bench.read();
        expect(found).toMatchObject({ readable: true, budget: 1 });
        expect(await apply(bench)).toBe("continue");
        return samples.add(found.sampleTime).size >= 10;
      });
    }
  });

  it("a dead Prometheus closes the gate, and it opens by itself when Prometheus is back (A-7)", async () => {
    eppA.text = ready(5) + queued(0);
    const bench = gate("prometheus-budget", { pool: "p", max_concurrency: 10 });
    const { sampleTime } = await reading(bench, { budget: 1, maxSys: 50 });
    await prometheus.kill();
    await reading(bench, { readable: false, budget: 0 });
    expect(await apply(bench)).toBe("refuse");
    expect(bench.shown().readable).toBe(false);
    await prometheus.restart();
    await reading(bench, { readable: true, budget: 1, maxSys: 50 });
    await poll("a sample from after the restart", async () => (await bench.read()).sampleTime > sampleTime);
    await applies(bench, "continue");
  });
});

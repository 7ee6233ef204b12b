import { describe, expect, it, type TestContext } from "vitest";
import { realClock } from "../../src/base/clock/real.ts";
import { openStore } from "../support/dispatch-store.ts";
import { startGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { type RunningPrometheus, startPrometheus } from "../support/prometheus.ts";
import { slownessAtStart } from "../support/slowness.ts";
import { endpointsFile, startSims } from "../support/stack.ts";
import { Cleanup, Dispatching, inSeconds, MetricsPage, ScriptedGateway } from "./dispatching.ts";

/** Of one test: they run side by side, since each mostly waits for scrapes. */
function cleanupOf({ onTestFinished }: TestContext): Cleanup {
  const cleanup = new Cleanup();
  onTestFinished(() => cleanup.run());
  return cleanup;
}

interface ShownCapacity {
  readonly state: string;
  readonly because: string;
  readonly D: number | null;
  readonly N: number;
  readonly maxSys: number;
  readonly own: number;
}
const capacityOf = async (dispatching: Dispatching): Promise<ShownCapacity> => {
  const { capacities } = await dispatching.debug<{ capacities: ShownCapacity[] }>("gates");
  expect(capacities).toHaveLength(1);
  return capacities[0]!;
};
/** Waits until the capacity is shown like this: where the machine stands still, a scrape fails, and nothing is known until the next one. */
const shows = (what: string, dispatching: Dispatching, wanted: object): Promise<unknown> =>
  poll(what, async () => {
    expect(await capacityOf(dispatching)).toMatchObject(wanted);
    return true;
  });
/** The same for a metric. */
const measures = (dispatching: Dispatching, name: string, wanted: number, labels = ""): Promise<unknown> =>
  poll(`${name} of ${wanted}`, async () => {
    expect(await dispatching.metric(name, labels)).toBeCloseTo(wanted, 9);
    return true;
  });
const BUDGET = { gate_type: "prometheus-budget", gate_params: { pool: "p", max_concurrency: 10, baseline: 0.1 } };
/** What an Endpoint Picker publishes of an idle pool of five servers. @param at Unix milliseconds of the samples */
const page = (queued: number, at = ""): string =>
  `inference_pool_ready_pods{name="p"} 5 ${at}\ninference_extension_flow_control_queue_size{inference_pool="p"} ${queued} ${at}\n`;
const requests = (count: number, prefix = "m", seconds = 600) =>
  Array.from({ length: count }, (_, i) => ({ id: `${prefix}${i}`, deadline: inSeconds(seconds), payload: { n: i } }));

/** A queue, its gateway, a page that a real Prometheus reads four times a second, and a dispatcher behind the gate. */
async function scene(cleanup: Cleanup, more: { readonly gate?: object; readonly text?: string } = {}) {
  const metrics = cleanup.add(await new MetricsPage().open(), (each) => each.close());
  metrics.text = more.text ?? page(0);
  const prometheus: RunningPrometheus = cleanup.add(
    await startPrometheus({ targets: [metrics.address], scrapeIntervalMs: 250 }),
    (each) => each.stop(),
  );
  await prometheus.values("inference_pool_ready_pods");
  const store = cleanup.add(await openStore("Redis"), (each) => each.close());
  const gateway = cleanup.add(await new ScriptedGateway().open(), (each) => each.close());
  const dispatching = cleanup.add(
    await Dispatching.start({
      ...{ transport: store.transport, gateway: gateway.url, workers: 64 },
      queue: { ...BUDGET, gate_params: { ...BUDGET.gate_params, ...more.gate } },
      args: ["--prometheus-url", prometheus.url, "--prometheus-cache-ttl", "250ms"],
    }),
    ({ process }) => process.stop(),
  );
  return { metrics, prometheus, store, gateway, dispatching };
}

describe.concurrent("the budget of a real Prometheus", () => {
  it("bounds what is in flight by N of its latest sample: F 0.3, B 0.1, 5 servers of 10: 30 (A-1, A-4)", async (context) => {
    const { metrics, store, gateway, dispatching } = await scene(cleanupOf(context));
    metrics.text = page(15);
    await shows("D of 0.7", dispatching, { D: 0.7 });
    gateway.reply = () => ({ after: 1500 });
    await store.submit(requests(200));
    await poll("thirty", () => gateway.running === 30);
    await shows("thirty", dispatching, { D: 0.7, N: 30, maxSys: 50, own: 30, state: "open" });
    await poll("a hundred", () => gateway.seen.length >= 100);
    expect(gateway.peak).toBe(30);
    await measures(dispatching, "dispatch_allowance", 30);
    await measures(dispatching, "dispatch_budget", 0.6);
    await measures(dispatching, "gate_metric_value", 0.7, 'inference_pool="p"');
    await measures(dispatching, "gate_metric_threshold", 0.1, 'inference_pool="p"');
    await measures(dispatching, "gate_metric_source_available", 1, 'inference_pool="p"');
  });

  it("after a 429 nothing leaves until a sample of later than that shows room, and then in steps (A-5, A-10)", async (context) => {
    // Samples that say when they were taken: from before the answer that is to come. All of them do, since Prometheus ends a
    // series that begins to say so, at the time of the scrape, and takes no sample from before that.
    const { metrics, store, gateway, dispatching } = await scene(cleanupOf(context), {
      text: page(0, String(realClock.wall())),
      gate: { max_sample_age: "1h" },
    });
    await shows("an open gate", dispatching, { state: "open" });
    let overloadedAt = Number.NaN;
    gateway.reply = ({ attempt, id }) => {
      if (id !== "m0" || attempt > 1) return { after: 300 };
      overloadedAt = performance.now();
      return { status: 429, headers: { "retry-after": "1" } };
    };
    await store.submit(requests(1));
    await shows("a latched gate", dispatching, { state: "latched" });
    await store.submit(requests(200, "later"));
    const scrapes = metrics.read.length;
    // Prometheus reads the page again and again, and has nothing newer to tell.
    await poll("twelve scrapes", () => metrics.read.length > scrapes + 12);
    expect(gateway.seen).toHaveLength(1);
    await measures(dispatching, "overload_latch", 1);
    await measures(dispatching, "dispatch_budget", 0);
    await shows("why", dispatching, { because: expect.stringContaining("reported overload") });
    // A newer sample that shows no room does not open it.
    metrics.text = page(50, String(realClock.wall()));
    await shows("a closed gate", dispatching, { state: "closed" });
    expect(gateway.seen).toHaveLength(1);
    metrics.text = page(0);
    await poll("all results", async () => (await store.countResults()) === 201, 30_000);
    expect(gateway.seen[1]!.at).toBeGreaterThan(overloadedAt + 1000);
    expect(gateway.peak).toBeLessThanOrEqual(45);
    const statuses = (await store.results()).map((text) => (JSON.parse(text) as { status_code: number }).status_code);
    expect(new Set(statuses)).toEqual(new Set([200]));
  });

  it("a dead Prometheus closes the gate, which says why, and it opens by itself when Prometheus is back (A-7)", async (context) => {
    const { prometheus, store, gateway, dispatching } = await scene(cleanupOf(context));
    await store.submit(requests(5));
    await poll("five results", async () => (await store.countResults()) === 5);
    await prometheus.kill();
    const because = expect.stringMatching(/cannot be read: .*ECONNREFUSED/);
    await shows("an unreadable gate", dispatching, { state: "unreadable", because });
    await measures(dispatching, "gate_metric_source_available", 0, 'inference_pool="p"');
    await store.submit(requests(5, "during"));
    // What expires meanwhile has its result all the same.
    await store.submit(requests(3, "late", 2 + Math.ceil(slownessAtStart())));
    await poll("three results more", async () => (await store.countResults()) === 8);
    expect(gateway.seen).toHaveLength(5);
    await measures(dispatching, "expired_at_pull_total", 3);
    await poll("closed", async () => (await dispatching.metric("gate_decisions_total", 'reason="gate_closed"')) > 0);
    expect((await dispatching.probe("/readyz")).status).toBe(200);
    await prometheus.restart();
    await poll("all results", async () => (await store.countResults()) === 13, 30_000);
    await shows("an open gate", dispatching, { state: "open" });
  });
});

describe.concurrent("an idle pool that is scraped every second", () => {
  it("keeps D at 1 and the gate open, and work goes to our own gateway and simulator", async (context) => {
    const cleanup = cleanupOf(context);
    const sims = await startSims(2);
    for (const sim of sims) cleanup.add(sim, ({ process }) => process.stop());
    const real = await startGateway(endpointsFile(sims.map(({ port }) => port)));
    cleanup.add(real, ({ process }) => process.stop());
    const targets = [real.adminUrl.slice("http://".length)];
    const prometheus = cleanup.add(await startPrometheus({ targets, scrapeIntervalMs: 1000 }), (each) => each.stop());
    await prometheus.values("inference_pool_per_pod_queue_size");
    const store = cleanup.add(await openStore("SQLite"), (each) => each.close());
    const dispatching = cleanup.add(
      await Dispatching.start({
        transport: store.transport,
        gateway: real.url,
        queue: { gate_type: "prometheus-budget", gate_params: { pool: "gateway", max_concurrency: 8 } },
        args: ["--prometheus-url", prometheus.url, "--prometheus-cache-ttl", "0s"],
      }),
      ({ process }) => process.stop(),
    );
    await shows("an open gate", dispatching, { state: "open" });
    const samples = new Set<number>();
    await poll(
      "eight samples",
      async () => {
        const shown = await capacityOf(dispatching);
        expect(shown).toMatchObject({ state: "open", D: 1, maxSys: 16, N: 15 });
        samples.add((await prometheus.values("timestamp(inference_pool_ready_pods)"))[0]!);
        return samples.size >= 8;
      },
      30_000,
    );
    await measures(dispatching, "gate_metric_value", 1);
    await measures(dispatching, "gate_metric_source_available", 1);
    const chat = { model: "sim", max_tokens: 3, messages: [{ role: "user", content: "hello" }] };
    await store.submit(
      Array.from({ length: 20 }, (_, i) => ({
        ...{ id: `m${i}`, deadline: inSeconds(600), payload: chat },
        endpoint: "/v1/chat/completions",
      })),
    );
    await poll("twenty results", async () => (await store.countResults()) === 20);
    for (const text of await store.results()) {
      const { status_code, payload } = JSON.parse(text) as { status_code: number; payload: string };
      expect(status_code).toBe(200);
      expect(JSON.parse(payload)).toMatchObject({ object: "chat.completion", model: "sim" });
    }
  });
});

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RedisStore } from "../support/dispatch-store.ts";
import { freePort } from "../support/free-port.ts";
import { poll } from "../support/poll.ts";
import { type RunningPrometheus, startPrometheus } from "../support/prometheus.ts";
import { slownessAtStart } from "../support/slowness.ts";
import { Cleanup, Dispatching, inSeconds, MetricsPage, ScriptedGateway } from "./dispatching.ts";

const cleanup = new Cleanup();
let dispatching: Dispatching;
let prometheus: RunningPrometheus;
let first = "";

const PREFIX = "llm_d_async_async_";
const QUEUE = ["pool_name", "queue_id", "queue_name"];

/** Names and labels as 8.6 has them. */
const TABLE: Readonly<Record<string, readonly string[]>> = {
  request_total: QUEUE,
  request_retries_total: QUEUE,
  successful_requests_total: QUEUE,
  failed_requests_total: QUEUE,
  exceeded_deadline_requests_total: QUEUE,
  shedded_requests_total: QUEUE,
  queue_depth: QUEUE,
  inflight_requests: QUEUE,
  broker_backlog: QUEUE,
  dispatch_budget: QUEUE,
  pool_worker_limit: ["pool_name"],
  gate_decisions_total: [...QUEUE, "reason"],
  gate_metric_value: ["inference_pool", ...QUEUE],
  gate_metric_threshold: ["inference_pool", ...QUEUE],
  gate_metric_source_available: ["inference_pool", ...QUEUE],
  inference_latency_time_millis_count: QUEUE,
  inference_latency_time_millis_sum: QUEUE,
  inference_latency_time_millis_bucket: ["le", ...QUEUE],
  queue_residence_time_millis_count: QUEUE,
  queue_residence_time_millis_sum: QUEUE,
  queue_residence_time_millis_bucket: ["le", ...QUEUE],
  claims_active: QUEUE,
  dead_lettered_total: QUEUE,
  retry_backlog: [],
  overload_latch: QUEUE,
  dispatch_allowance: QUEUE,
  redis_write_retries_total: [],
  expired_at_pull_total: QUEUE,
};
/** Of events that this traffic has none of: leases that are lost. */
const ABSENT = ["claims_reclaimed_total", "leases_recovered_total", "results_fenced_total", "results_recovered_total"];
/** There when the connection to the broker took longer than the first looks at the backlog. */
const POSSIBLE = "broker_backlog_poll_errors_total";
/** Pub/Sub alone. */
const PUBSUB = ["message_latency_time_millis_count"];

/** Label names of every series of a family, in the order of the page. */
function families(page: string): Map<string, readonly string[]> {
  const found = new Map<string, readonly string[]>();
  for (const line of page.split("\n")) {
    const match = /^llm_d_async_async_(\w+)(?:\{([^}]*)\})? /.exec(line);
    if (match !== null)
      found.set(
        match[1]!,
        [...(match[2] ?? "").matchAll(/(\w+)="/g)].map(([, name]) => name!),
      );
  }
  return found;
}

beforeAll(async () => {
  const epp = cleanup.add(await new MetricsPage().open(), (each) => each.close());
  epp.text = 'inference_extension_flow_control_pool_saturation{inference_pool="llama"} 0.25\n';
  const port = await freePort();
  prometheus = cleanup.add(
    await startPrometheus({
      targets: [epp.address, `127.0.0.1:${port}`],
      scrapeIntervalMs: 500,
      labels: { namespace: "batch" },
    }),
    (each) => each.stop(),
  );
  await prometheus.values("inference_extension_flow_control_pool_saturation");
  const store = cleanup.add(await RedisStore.start(), (each) => each.close());
  const gateway = cleanup.add(await new ScriptedGateway().open(), (each) => each.close());
  gateway.reply = ({ body, attempt }) => {
    const { kind } = JSON.parse(body) as { kind: string };
    if (kind === "missing") return { status: 404 };
    if (kind === "busy" && attempt === 1)
      return { status: 429, headers: { "x-llm-d-request-dropped-reason": "evicted" } };
    return kind === "slow" ? { after: Number.POSITIVE_INFINITY } : { after: 5 };
  };
  dispatching = cleanup.add(
    await Dispatching.start({
      ...{ transport: store.transport, gateway: gateway.url, workers: 8 },
      queue: { id: "the-q", gate_type: "prometheus-saturation", gate_params: { pool: "llama", threshold: 0.8 } },
      args: [
        ...["--prometheus-url", prometheus.url, "--prometheus-cache-ttl", "500ms"],
        ...["--metrics-port", String(port), "--metrics-backlog-poll-interval", "200ms"],
      ],
    }),
    ({ process }) => process.stop(),
  );
  await dispatching.ready();
  await poll("an open gate", async () => (await dispatching.metric("dispatch_budget")) > 0);
  first = await poll("the first look at the backlog", async () => {
    const page = await dispatching.page();
    return page.includes(`${PREFIX}broker_backlog{`) ? page : undefined;
  });
  const submit = (kind: string, count: number, seconds: number): Promise<void> =>
    store.submit(
      Array.from({ length: count }, (_, i) => ({ id: `${kind}${i}`, deadline: inSeconds(seconds), payload: { kind } })),
    );
  const known = (count: number): Promise<unknown> =>
    poll(
      "Prometheus to know",
      async () => (await prometheus.values(`sum(${PREFIX}request_total)`).catch(() => []))[0] === count,
    );
  // Their time ends while they run: they come before all others, and it is so long that they have begun by then.
  await submit("slow", 2, 3 * Math.ceil(slownessAtStart()) + 5);
  await poll("both to have begun", () => gateway.seen.length === 2);
  // A rate needs two samples with something between them.
  await submit("fine", 10, 600);
  await submit("busy", 5, 600);
  await known(15);
  await store.submit(
    Array.from({ length: 40 }, (_, i) => ({ id: `more${i}`, deadline: inSeconds(600), payload: { kind: "fine" } })),
  );
  await submit("missing", 5, 600);
  await store.redis.send(["ZADD", "q", "1", "no JSON"]);
  const data = `{"id":"late","deadline":${inSeconds(-5)},"payload":{}}`;
  await store.redis.send(["ZADD", "q", "2", `{"internal":{},"request_kind":"redis","data":${data}}`]);
  await poll("all results", async () => (await store.countResults()) === 63, 30_000);
  // A later scrape knows all of it.
  await known(63);
});
afterAll(() => cleanup.run());

describe("the page (A-91, async-processor 8.6)", () => {
  it("has after its start what needs no event, and all reasons of decisions at 0", () => {
    const names = [...families(first).keys()];
    for (const name of ["pool_worker_limit", "broker_backlog", "gate_decisions_total", "dispatch_budget"])
      expect(names).toContain(name);
    for (const name of ["request_total", "successful_requests_total", "queue_depth", "inflight_requests"])
      expect(names).not.toContain(name);
    for (const reason of ["gate_closed", "quota_exhausted", "dropped", "error"])
      expect(first).toMatch(
        new RegExp(`gate_decisions_total\\{pool_name="default",queue_id="the-q",queue_name="q",reason="${reason}"\\} `),
      );
    expect(first).toContain(`${PREFIX}pool_worker_limit{pool_name="default"} 8\n`);
  });

  it("has after traffic exactly the series of the table, with their labels in alphabetical order", async () => {
    const found = families(await dispatching.page());
    for (const [name, labels] of Object.entries(TABLE)) {
      const got = found.get(name);
      expect([name, got?.filter((label) => label !== "le")]).toEqual([name, labels.filter((label) => label !== "le")]);
    }
    expect([...ABSENT, ...PUBSUB].filter((name) => found.has(name))).toEqual([]);
    const ours = [...found.keys()].filter((name) => !(name in TABLE) && name !== POSSIBLE).sort();
    expect(ours).toEqual(["backlog_eta_seconds", "oldest_message_age_seconds"]);
  });

  it("labels come from the configuration alone", async () => {
    const page = await dispatching.page();
    const values = new Set(
      [...page.matchAll(/llm_d_async_async_\w+\{([^}]*)\}/g)].map(([, labels]) =>
        labels!.replace(/(le|reason)="[^"]*",?/g, "").replace(/,$/, ""),
      ),
    );
    expect([...values].sort()).toEqual([
      'inference_pool="llama",pool_name="default",queue_id="the-q",queue_name="q"',
      'pool_name="default"',
      'pool_name="default",queue_id="the-q",queue_name="q"',
    ]);
  });

  it("has the figures of what happened", async () => {
    const of = (name: string): Promise<number> => dispatching.metric(name, 'queue_id="the-q"');
    expect(await of("request_total")).toBe(63);
    expect(await of("successful_requests_total")).toBe(55);
    expect(await of("failed_requests_total")).toBe(5);
    expect(await of("exceeded_deadline_requests_total")).toBe(3);
    expect(await of("expired_at_pull_total")).toBe(1);
    expect(await of("request_retries_total")).toBe(5);
    expect(await of("shedded_requests_total")).toBe(5);
    expect(await of("dead_lettered_total")).toBe(1);
    expect(await of("inference_latency_time_millis_count")).toBe(50 + 5 + 10 + 2);
    // What was written is forgotten when the server has answered.
    await poll(
      "nothing in hand",
      async () => (await of("inflight_requests")) === 0 && (await of("claims_active")) === 0,
    );
    // A scrape that failed leaves the gate without a value until the next one.
    await poll("the value of the gate", async () => Math.abs((await of("gate_metric_value")) - 0.75) < 1e-9);
    expect(await of("gate_metric_threshold")).toBeCloseTo(0.2, 9);
    await poll("an empty backlog", async () => (await of("broker_backlog")) === 0);
  });

  it("has the buckets of the table", async () => {
    const page = await dispatching.page();
    const bounds = (name: string): number[] =>
      [...page.matchAll(new RegExp(`${name}_bucket\\{(?:[^}]*,)?le="([^"]+)"`, "g"))].map(([, bound]) =>
        Number(bound!.replace("+Inf", "Infinity")),
      );
    expect(bounds("inference_latency_time_millis")).toEqual([
      ...[10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 120_000],
      Number.POSITIVE_INFINITY,
    ]);
    expect(bounds("queue_residence_time_millis")).toEqual([
      ...[500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000, 7_200_000],
      ...[21_600_000, 43_200_000, 86_400_000, Number.POSITIVE_INFINITY],
    ]);
  });

  it("has the process's own figures as well", async () => {
    expect(await dispatching.page()).toMatch(/^process_resident_memory_bytes \d/m);
  });
});

describe("alerts and dashboards of the reference (A-92)", () => {
  const rate = (name: string): string => `sum by (namespace) (rate(${PREFIX}${name}[5m]))`;
  const share = (name: string): string => `${rate(name)} / ${rate("request_total")}`;
  it.each([
    ["retries above a half", `${share("request_retries_total")} > bool 0.5`],
    ["deadlines above a tenth", `${share("exceeded_deadline_requests_total")} > bool 0.1`],
    ["successes below nine tenths", `${share("successful_requests_total")} < bool 0.9`],
    ["shed load above a tenth", `${share("shedded_requests_total")} > bool 0.1`],
  ])("the alert on %s evaluates on a real Prometheus, one answer per namespace", async (_, query) => {
    const values = await prometheus.values(query);
    expect(values).toHaveLength(1);
    expect([0, 1]).toContain(values[0]);
  });

  it.each([
    `histogram_quantile(0.99, sum by (le) (rate(${PREFIX}inference_latency_time_millis_bucket[5m])))`,
    `histogram_quantile(0.5, sum by (le, queue_name) (rate(${PREFIX}queue_residence_time_millis_bucket[5m])))`,
    `sum by (pool_name) (${PREFIX}inflight_requests) / on(pool_name) ${PREFIX}pool_worker_limit`,
    `sum by (queue_name) (${PREFIX}broker_backlog)`,
    `sum by (queue_name, reason) (rate(${PREFIX}gate_decisions_total[5m]))`,
    `max by (queue_name) (${PREFIX}dispatch_budget)`,
    `min by (inference_pool) (${PREFIX}gate_metric_source_available)`,
    `${PREFIX}gate_metric_value > on(inference_pool, queue_id) group_left ${PREFIX}gate_metric_threshold`,
    `rate(${PREFIX}inference_latency_time_millis_sum[5m]) / rate(${PREFIX}inference_latency_time_millis_count[5m])`,
  ])("%s is a number", async (query) => {
    const values = await prometheus.values(query);
    for (const value of values) expect(Number.isFinite(value)).toBe(true);
  });
});

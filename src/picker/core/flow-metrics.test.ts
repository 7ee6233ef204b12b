import { describe, expect, it } from "vitest";
import { samplesOf } from "../../../test/support/core.ts";
import { endpointOf, requestOf } from "../../../test/support/scheduling/fakes.cases.ts";
import { slowRead } from "../../../test/support/slow-exposition.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import { render } from "../../base/telemetry/exposition.ts";
import { LabelGuard } from "../../base/telemetry/label-guard.ts";
import { type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { createMetrics } from "../../base/telemetry/names.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { FlowControl, type Ticket } from "../flowcontrol/flow-control.ts";
import { FLOW_RULES } from "../flowcontrol/rules.ts";
import type { FlowControlSettings } from "../flowcontrol/settings.ts";
import { showSaturation } from "./core-metrics.ts";
import { FlowMetrics } from "./flow-metrics.ts";

const QUEUED = ["fairness_id", "priority", "inference_pool", "model_name", "target_model_name"];
const WAITED = "0.0001 0.0005 0.001 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 60";
const FAST = "0.0001 0.0002 0.0005 0.001 0.002 0.005 0.01 0.02 0.05 0.1";
/** The table of scheduling 8.6: name, labels, whether v1.5 has it too, bounds of a histogram. */
const TABLE: readonly (readonly [name: string, labels: readonly string[], twin: boolean, bounds?: string])[] = [
  ["request_queue_duration_seconds", [...QUEUED, "outcome"], true, WAITED],
  ["dispatch_cycle_duration_seconds", [], true, FAST],
  ["request_enqueue_duration_seconds", ["fairness_id", "priority", "outcome"], true, FAST],
  ["queue_size", QUEUED, true],
  ["queue_bytes", QUEUED, true],
  ["pool_saturation", ["inference_pool", "stage"], true],
  ["stale_endpoints", ["detector"], false],
  ["capacity_utilization_requests", ["priority", "inference_pool"], false],
  ["capacity_utilization_bytes", ["priority", "inference_pool"], false],
  ["global_capacity_utilization_requests", ["inference_pool"], false],
  ["global_capacity_utilization_bytes", ["inference_pool"], false],
  ["requests_total", ["outcome", "priority", "inference_pool"], false],
  ["revocations_issued_total", ["priority", "inference_pool"], false],
  ["revocations_total", ["outcome", "inference_pool"], false],
  ["reclaim_target", ["inference_pool"], false],
  ["pending_reclaim", ["inference_pool"], false],
  ["revocation_confirmation_seconds", ["inference_pool"], false, "0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10"],
];
/** Those that the reference does not have. */
const SLUICE_TABLE: readonly (readonly [name: string, labels: readonly string[]])[] = [
  ["sluice_flow_control_queue_tokens", QUEUED],
  ["sluice_flow_control_predicted_wait_seconds", ["inference_pool"]],
];
const OURS = "llm_d_epp_flow_control_";
const OLDER = "inference_extension_flow_control_";

const NO_LIMIT = Number.POSITIVE_INFINITY;
const BAND = {
  ...{ maxBytes: 1000, maxRequests: 10, ttl: 60_000 },
  ordering: { rank: ({ enqueuedAt }: { enqueuedAt: number }) => enqueuedAt },
  fairness: {
    oneQueue: true,
    choice: () => {
      throw new Error("one queue needs no choice");
    },
  },
};

/** A real flow control with its metrics, in front of a pool whose saturation the test sets. */
class Driven {
  readonly clock = new VirtualClock();
  readonly registry = new MetricsRegistry({ onRenderError: (error) => this.renderErrors.push(error) });
  readonly metrics = createMetrics(this.registry);
  readonly renderErrors: unknown[] = [];
  readonly logged: Record<string, unknown>[] = [];
  pool: readonly Endpoint[] = [endpointOf(0)];
  saturation: (endpoints: readonly Endpoint[]) => number = () => 2;
  readonly flowMetrics: FlowMetrics;
  readonly flowControl: FlowControl;

  constructor(settings: Partial<FlowControlSettings> = {}) {
    const { clock, metrics, registry } = this;
    const write = (fields: object): void => void this.logged.push(fields as Record<string, unknown>);
    const log: Logger = { ...silentLogger, warn: write, error: write };
    const failures = new RateLimitedLog(log, clock, { intervalMs: 10_000, maxKeys: 16 });
    this.flowMetrics = new FlowMetrics({
      ...{ metrics, clock, log, failures, poolName: "p" },
      models: new LabelGuard(1000),
      fairness: new LabelGuard(1000),
    });
    const detector = { saturation: (endpoints: readonly Endpoint[]) => this.saturation(endpoints), staleEndpoints: 3 };
    this.flowControl = new FlowControl({
      ...{ clock, events: this.flowMetrics, rate: this.flowMetrics.rate, pool: () => this.pool },
      settings: {
        ...{ maxBytes: NO_LIMIT, maxRequests: NO_LIMIT, noEndpointTtl: 60_000, detector },
        ...{ bands: new Map([[10, { ...BAND, maxRequests: 4 }]]), template: BAND, negativeTemplate: BAND },
        ...{ usageLimit: { limit() {} }, rules: FLOW_RULES[""] },
        ...settings,
      },
    });
    registry.onRender(() => this.flowMetrics.refresh(this.flowControl));
    const saturation = () => {
      const { effective: value, ...stages } = this.flowControl.saturation();
      return { detector: "mine", value, stages, staleEndpoints: 3 };
    };
    showSaturation({ registry, metrics, saturation }, "p");
  }

  enter(fake: Partial<InferenceRequest> = {}, bytes = 100): Ticket {
    const entered = this.flowControl.enter(requestOf("p", fake), bytes, 0, { dispatched() {}, evicted() {} });
    return entered as Ticket;
  }

  samples(): ReadonlyMap<string, number> {
    return samplesOf(render(this.registry));
  }

  /** The samples of flow control whose name begins so, without their prefix. */
  shown(name: string): Record<string, number> {
    const page = render(this.registry).split("\n");
    const lines = page.filter((line) => line.startsWith(`${OURS}${name}`));
    const samples = lines.length === 0 ? [] : [...samplesOf(lines.join("\n"))];
    return Object.fromEntries(samples.map(([key, value]) => [key.slice(OURS.length), value]));
  }
}

/** Lets a sheddable request go, then revokes it for another one, and ends it. */
function evictOne(driven: Driven): void {
  driven.saturation = () => 0;
  const victim = driven.enter({ priority: -1, model: "m", targetModel: "m-v2", fairnessId: "team" });
  driven.flowControl.decided(victim);
  driven.saturation = () => 1;
  driven.enter({ priority: 10, model: "m", targetModel: "m-v2", fairnessId: "team" });
  driven.clock.advance(40);
  driven.flowControl.ended(victim, { promptTokens: 1, completionTokens: 1 });
}

const labels = (fairness: string, priority: string, model = "model", target = model): string =>
  `{fairness_id="${fairness}",priority="${priority}",inference_pool="p",model_name="${model}",target_model_name="${target}"}`;

describe("what the page shows of revoked requests", () => {
  it("counts them for the priority that needs room, and shows what is to come back", () => {
    const driven = new Driven({ eviction: true });
    evictOne(driven);
    expect({ ...driven.shown("revocations_"), ...driven.shown("revocation_confirmation_seconds_sum") }).toEqual({
      'revocations_issued_total{priority="10",inference_pool="p"}': 1,
      'revocations_total{outcome="confirmed",inference_pool="p"}': 1,
      'revocation_confirmation_seconds_sum{inference_pool="p"}': 0.04,
    });
    expect([driven.shown("reclaim_target"), driven.shown("pending_reclaim")]).toEqual([
      { 'reclaim_target{inference_pool="p"}': 0 },
      { 'pending_reclaim{inference_pool="p"}': 1 },
    ]);
  });
});

describe("what the page shows of flow control (S-90)", () => {
  const driven = new Driven({ maxRequests: 5, maxBytes: 1000 });
  for (let i = 0; i < 7; i++) driven.enter({ priority: 10, model: "m", targetModel: "m-v2", fairnessId: "team" });
  driven.pool = [endpointOf(0, { labels: { "llm-d.ai/role": "prefill" } }), endpointOf(1)];
  driven.clock.advance(2000);
  driven.saturation = () => 0.5;
  driven.flowControl.changed();
  driven.clock.advance(0);
  // The families of revocations, from another flow control: this one counts below.
  driven.flowMetrics.revoked(10);
  driven.flowMetrics.revocationEnded("confirmed", 40);
  const page = render(driven.registry);
  const samples = slowRead(Buffer.from(page)).flatMap(({ sample }) => (sample === undefined ? [] : [sample]));
  const families = [
    ...TABLE.flatMap(([name, of, twin, bounds]) =>
      [OURS, ...(twin ? [OLDER] : [])].map((prefix) => [`${prefix}${name}`, of, bounds] as const),
    ),
    ...SLUICE_TABLE.map(([name, of]) => [name, of, undefined] as const),
  ];

  it.each(families)("%s {%o}", (name, of, bounds) => {
    const found = samples.filter((sample) => sample.name === (bounds === undefined ? name : `${name}_count`));
    expect(found.length, "series").toBeGreaterThan(0);
    for (const sample of found) expect(Object.keys(sample.labels).sort()).toEqual([...of].sort());
    if (bounds === undefined) return;
    expect(Math.max(...found.map(({ value }) => value))).toBeGreaterThan(0);
    const les = samples.filter((sample) => sample.name === `${name}_bucket`).map(({ labels: { le } }) => String(le));
    expect(les.slice(0, bounds.split(" ").length + 1).join(" ")).toBe(`${bounds} +Inf`);
  });

  it("has no other family of flow control", () => {
    const names = [...page.matchAll(/^# TYPE (\w+_flow_control_\w+) /gm)].map(([, name]) => name!);
    expect(names.sort()).toEqual(families.map(([name]) => name).sort());
  });

  it("counts each outcome once, refusals included, under the priority of the request", () => {
    const total = (outcome: string): string => `requests_total{outcome="${outcome}",priority="10",inference_pool="p"}`;
    expect(driven.shown("requests_total")).toEqual({ [total("RejectedCapacity")]: 3, [total("Dispatched")]: 4 });
  });

  it("times the wait by outcome, in seconds", () => {
    const of = (what: string, outcome: string): number | undefined =>
      driven
        .samples()
        .get(
          `${OURS}request_queue_duration_seconds_${what}{fairness_id="team",priority="10",outcome="${outcome}",inference_pool="p",model_name="m",target_model_name="m-v2"}`,
        );
    expect([of("count", "Dispatched"), of("sum", "Dispatched")]).toEqual([4, 8]);
    expect([of("count", "RejectedCapacity"), of("sum", "RejectedCapacity")]).toEqual([3, 0]);
    const entered = driven.shown("request_enqueue_duration_seconds_count");
    const outcome = (name: string): string =>
      `request_enqueue_duration_seconds_count{fairness_id="team",priority="10",outcome="${name}"}`;
    expect(entered).toEqual({ [outcome("NotYetFinalized")]: 4, [outcome("RejectedCapacity")]: 3 });
  });
});

describe("the gauges of queues", () => {
  it("follow requests from entering to leaving, and each flow by its models", () => {
    const driven = new Driven();
    const first = driven.enter({ fairnessId: "a" }, 30);
    driven.enter({ fairnessId: "a", model: "other-model", targetModel: "t" }, 40);
    driven.enter({ fairnessId: "b", priority: 10 }, 50);
    expect(driven.shown("queue_")).toEqual({
      [`queue_size${labels("a", "0")}`]: 1,
      [`queue_bytes${labels("a", "0")}`]: 30,
      [`queue_size${labels("a", "0", "other-model", "t")}`]: 1,
      [`queue_bytes${labels("a", "0", "other-model", "t")}`]: 40,
      [`queue_size${labels("b", "10")}`]: 1,
      [`queue_bytes${labels("b", "10")}`]: 50,
    });
    driven.flowControl.cancel(first);
    expect(driven.shown("queue_")[`queue_size${labels("a", "0")}`]).toBe(0);
    driven.flowControl.close();
    expect(new Set(Object.values(driven.shown("queue_")))).toEqual(new Set([0]));
    expect(
      driven.shown("requests_total")['requests_total{outcome="EvictedOther",priority="10",inference_pool="p"}'],
    ).toBe(1);
  });

  it("keep the priority of the request where band 0 holds it (S-80)", () => {
    const driven = new Driven();
    driven.enter({ priority: -7 });
    expect(driven.shown("queue_size")).toEqual({ [`queue_size${labels("default-flow", "-7")}`]: 1 });
    expect(driven.shown("capacity_utilization_requests")).toMatchObject({
      'capacity_utilization_requests{priority="0",inference_pool="p"}': 0.1,
    });
  });

  it("leave the page with their histograms once the flow has been idle for 5 minutes, and not before", () => {
    const driven = new Driven();
    const idle = driven.enter({ fairnessId: "idle" });
    const busy = driven.enter({ fairnessId: "busy" });
    driven.flowControl.cancel(idle);
    const count = (): number => [...driven.samples().keys()].filter((key) => key.includes('fairness_id="idle"')).length;
    const before = count();
    expect(before).toBeGreaterThan(50);
    driven.clock.advance(299_999);
    expect(count()).toBe(before);
    driven.clock.advance(1);
    expect(count()).toBe(0);
    expect(driven.shown("queue_size")).toMatchObject({ [`queue_size${labels("busy", "0")}`]: 0 });
    // The request of the busy flow expired after a minute; a request later, the flow is known again.
    driven.flowControl.cancel(busy);
    driven.enter({ fairnessId: "idle" });
    expect(driven.shown("queue_size")[`queue_size${labels("idle", "0")}`]).toBe(1);
  });

  it("stay while the flow has a request, however old its last arrival", () => {
    const driven = new Driven({ template: { ...BAND, ttl: NO_LIMIT } });
    const size = (): number | undefined => driven.shown("queue_size")[`queue_size${labels("a", "0")}`];
    const [first] = [driven.enter({ fairnessId: "a" }), driven.enter({ fairnessId: "a" })];
    driven.flowControl.cancel(first!);
    driven.clock.advance(300_000);
    expect(size()).toBe(1);
    driven.flowControl.close();
    expect(size()).toBe(0);
  });

  it("stay when the flow gets a request again, and come back when it gets one later", () => {
    const driven = new Driven({ template: { ...BAND, ttl: NO_LIMIT } });
    const size = (): number | undefined => driven.shown("queue_size")[`queue_size${labels("a", "0")}`];
    driven.flowControl.cancel(driven.enter({ fairnessId: "a" }));
    driven.clock.advance(200_000);
    const again = driven.enter({ fairnessId: "a" });
    driven.clock.advance(300_000);
    expect(size()).toBe(1);
    driven.flowControl.cancel(again);
    driven.clock.advance(300_000);
    expect(size()).toBeUndefined();
    driven.enter({ fairnessId: "a" });
    expect(size()).toBe(1);
  });

  it("tell priorities and models of one fairness ID apart, and each of them leaves alone", () => {
    const driven = new Driven({ template: { ...BAND, ttl: NO_LIMIT } });
    const of = (priority: number, model: string) => ({ fairnessId: "a", priority, model, targetModel: "t" });
    const gone = driven.enter(of(0, "m"));
    driven.enter(of(0, "n"));
    driven.enter(of(10, "n"));
    const size = (priority: string, model: string) => `queue_size${labels("a", priority, model, "t")}`;
    const all = { [size("0", "m")]: 1, [size("0", "n")]: 1, [size("10", "n")]: 1 };
    expect(driven.shown("queue_size")).toEqual(all);
    driven.flowControl.cancel(gone);
    driven.clock.advance(300_000);
    expect(driven.shown("queue_size")).toMatchObject({ [size("0", "n")]: 1 });
    expect(driven.shown("queue_size")[size("0", "m")]).toBeUndefined();
    const entered = 'request_enqueue_duration_seconds_count{fairness_id="a",priority="0",outcome="NotYetFinalized"}';
    expect(driven.shown("request_enqueue_duration_seconds_count")[entered]).toBe(2);
    driven.flowControl.close();
    expect(driven.shown("queue_size")[size("0", "n")]).toBe(0);
  });
});

describe("flows that clients make up", () => {
  const wide = { template: { ...BAND, maxRequests: NO_LIMIT, maxBytes: NO_LIMIT, ttl: NO_LIMIT } };
  const series = (driven: Driven, name: string): number =>
    Object.keys(driven.shown(name)).filter((key) => key.startsWith(`${name}{`)).length;

  it("are other from the 1,001st fairness ID on", () => {
    const driven = new Driven(wide);
    for (let i = 0; i < 1003; i++) driven.flowControl.cancel(driven.enter({ fairnessId: `f${i}` }));
    const last = driven.shown("queue_size");
    expect(last[`queue_size${labels("f1000", "0")}`]).toBeUndefined();
    expect(last[`queue_size${labels("other", "0")}`]).toBe(0);
    expect(series(driven, "queue_size")).toBe(1000);
  });

  it("have 1,000 series at most, the idle ones of which go first, and the gauges add up all the same (bound)", () => {
    const driven = new Driven(wide);
    const entered: Ticket[] = [];
    for (let i = 0; i < 1000; i++) entered.push(driven.enter({ model: `m${i % 40}`, fairnessId: `f${i}` }, i));
    // All places have requests: these share one series.
    for (let i = 0; i < 20; i++) entered.push(driven.enter({ model: "x", fairnessId: `f${i}` }, 7));
    const sum = (name: string): number => Object.values(driven.shown(name)).reduce((a, b) => a + b, 0);
    const shared = `{fairness_id="other",priority="other",inference_pool="p",model_name="other",target_model_name="other"}`;
    expect(driven.shown("queue_size")[`queue_size${shared}`]).toBe(20);
    expect(driven.shown("queue_bytes")[`queue_bytes${shared}`]).toBe(140);
    expect([series(driven, "queue_size"), sum("queue_size")]).toEqual([1001, 1020]);
    // Two places become free. One of the flows in the shared series gets one of them, and then its older request leaves.
    for (const ticket of entered.splice(0, 2)) driven.flowControl.cancel(ticket);
    entered.push(driven.enter({ model: "x", fairnessId: "f3" }, 11));
    driven.flowControl.cancel(entered.splice(998 + 3, 1)[0]!);
    expect(driven.shown("queue_size")[`queue_size${shared}`]).toBe(19);
    expect(driven.shown("queue_bytes")[`queue_bytes${labels("f3", "0", "x", "model")}`]).toBe(11);
    expect(sum("queue_bytes")).toBe(driven.flowControl.bytes);
    for (const ticket of entered) driven.flowControl.cancel(ticket);
    expect(new Set(Object.values(driven.shown("queue_")))).toEqual(new Set([0]));
    driven.clock.advance(300_000);
    expect(Object.keys(driven.shown("queue_size"))).toEqual([`queue_size${shared}`]);
  });
});

describe("requests that go on at once", () => {
  const pass = (driven: Driven, fairnessId: string): void => {
    driven.saturation = () => 0;
    driven.flowControl.ended(driven.enter({ fairnessId }));
  };
  const flows = (driven: Driven): string[] =>
    Object.keys(driven.shown("queue_size")).map((key) => /fairness_id="([^"]*)"/.exec(key)![1]!);

  it("count as entered and dispatched, and leave the gauges at 0", () => {
    const driven = new Driven();
    pass(driven, "a");
    const of = (name: string): readonly [string, number][] => Object.entries(driven.shown(name));
    expect(of("queue_size")).toEqual([[`queue_size${labels("a", "0")}`, 0]]);
    expect(of("queue_bytes")).toEqual([[`queue_bytes${labels("a", "0")}`, 0]]);
    const counts = [
      ...of("request_enqueue_duration_seconds_count"),
      ...of("request_queue_duration_seconds_count"),
      ...of("dispatch_cycle_duration_seconds_count"),
      ...of("requests_total"),
    ];
    expect(counts).toEqual([
      [`request_enqueue_duration_seconds_count{fairness_id="a",priority="0",outcome="NotYetFinalized"}`, 1],
      [expect.stringContaining('outcome="Dispatched"'), 1],
      ["dispatch_cycle_duration_seconds_count", 1],
      [expect.stringContaining('outcome="Dispatched"'), 1],
    ]);
  });

  it("renew the time for which the series of their flow stay", () => {
    const driven = new Driven();
    for (const flow of ["a", "b"]) pass(driven, flow);
    driven.clock.advance(200_000);
    pass(driven, "a");
    driven.clock.advance(100_000);
    expect(flows(driven)).toEqual(["a"]);
    driven.clock.advance(200_000);
    expect(flows(driven)).toEqual([]);
  });

  it("leave no series for ever, when another one of their flow has waited", () => {
    const driven = new Driven();
    pass(driven, "a");
    driven.saturation = () => 1;
    driven.flowControl.cancel(driven.enter({ fairnessId: "a" }));
    driven.clock.advance(300_000);
    expect(flows(driven)).toEqual([]);
  });
});

describe("a request that shared a series", () => {
  it("gets one of its own the next time", () => {
    const driven = new Driven();
    const { flowMetrics } = driven;
    const size = { bytes: 1, tokens: 1 };
    const flow = (fairnessId: string) => requestOf("p", { fairnessId, model: "m", targetModel: "m" });
    const others = Array.from({ length: 1000 }, (_, i) => flow(`f${i}`));
    for (const other of others) flowMetrics.entered(other, size);
    const late = { ...flow("f0"), model: "late" };
    flowMetrics.entered(late, size);
    flowMetrics.left(late, size, "Dispatched", 0);
    flowMetrics.left(others[1]!, size, "Dispatched", 0);
    flowMetrics.entered(late, size);
    flowMetrics.left(late, size, "Dispatched", 0);
    const shown = driven.shown("queue_size");
    expect(shown[`queue_size${labels("f0", "0", "late", "m")}`]).toBe(0);
    expect(shown[`queue_size${labels("other", "other", "other")}`]).toBe(0);
  });
});

describe("the figures for autoscalers", () => {
  const shown = (driven: Driven, name: string): number | undefined =>
    driven.samples().get(`sluice_flow_control_${name}`);
  const tokens = (driven: Driven, flow: string, priority: string): number | undefined =>
    shown(driven, `queue_tokens${labels(flow, priority)}`);
  const wait = (driven: Driven): number | undefined => shown(driven, 'predicted_wait_seconds{inference_pool="p"}');

  it("has the tokens of waiting prompts by flow, as the model learned them, until they leave", () => {
    const driven = new Driven();
    const prompt = (bytes: number) => ({ prompts: [[{ start: 0, end: bytes }]], fairnessId: "a" });
    const first = driven.enter(prompt(400));
    driven.enter({ ...prompt(400), bytesPerToken: 2 });
    driven.enter({ ...prompt(40), priority: 10 });
    expect([tokens(driven, "a", "0"), tokens(driven, "a", "10")]).toEqual([300, 10]);
    driven.flowControl.cancel(first);
    expect(tokens(driven, "a", "0")).toBe(200);
    driven.flowControl.close();
    expect([tokens(driven, "a", "0"), tokens(driven, "a", "10")]).toEqual([0, 0]);
    driven.clock.advance(300_000);
    expect(tokens(driven, "a", "0")).toBeUndefined();
  });

  it("predicts the wait by the rate of dispatches, and leaves the page with flow control", () => {
    const driven = new Driven();
    driven.saturation = () => 0;
    for (let i = 0; i < 10; i++) {
      driven.enter();
      driven.clock.advance(1000);
    }
    expect(wait(driven)).toBe(0);
    driven.saturation = () => 2;
    for (let i = 0; i < 4; i++) driven.enter();
    const predicted = wait(driven)!;
    expect([predicted > 4, predicted < 8]).toEqual([true, true]);
    driven.registry.onRender(() => driven.flowMetrics.refresh(undefined));
    expect(wait(driven)).toBeUndefined();
  });
});

describe("capacity", () => {
  it("is the share of the limit of each band", () => {
    const driven = new Driven();
    driven.enter({ priority: 10 }, 250);
    driven.enter({}, 100);
    const of = (name: string): unknown => driven.shown(name);
    expect(of("capacity_utilization_requests")).toEqual({
      'capacity_utilization_requests{priority="10",inference_pool="p"}': 0.25,
      'capacity_utilization_requests{priority="0",inference_pool="p"}': 0.1,
    });
    expect(of("capacity_utilization_bytes")).toEqual({
      'capacity_utilization_bytes{priority="10",inference_pool="p"}': 0.25,
      'capacity_utilization_bytes{priority="0",inference_pool="p"}': 0.1,
    });
    expect(of("global_capacity")).toEqual({});
  });

  it("is absent where a band has no limit, and over all bands present only with a common limit", () => {
    const driven = new Driven({ maxBytes: 400, template: { ...BAND, maxRequests: NO_LIMIT } });
    driven.enter({}, 100);
    expect(driven.shown("capacity_utilization_requests")).toEqual({
      'capacity_utilization_requests{priority="10",inference_pool="p"}': 0,
    });
    expect(driven.shown("global_capacity")).toEqual({
      'global_capacity_utilization_bytes{inference_pool="p"}': 0.25,
    });
  });

  it("leaves the page with its band, and with flow control", () => {
    const driven = new Driven();
    driven.flowControl.usePriorities(new Set([3]));
    const third = 'capacity_utilization_requests{priority="3",inference_pool="p"}';
    expect(driven.shown("capacity_utilization_requests")[third]).toBe(0);
    driven.flowControl.usePriorities(new Set());
    driven.clock.advance(600_000);
    expect(driven.shown("capacity_utilization_requests")[third]).toBeUndefined();
    driven.registry.onRender(() => driven.flowMetrics.refresh(undefined));
    expect(driven.shown("capacity_utilization")).toEqual({});
    expect(driven.renderErrors).toEqual([]);
  });
});

describe("the saturation of stages", () => {
  const stage = (name: string): string => `pool_saturation{inference_pool="p",stage="${name}"}`;
  const prefill = endpointOf(0, { labels: { "llm-d.ai/role": "prefill" } });

  it("S-83: has a series for each stage that has endpoints, and the effective one is the higher", () => {
    const driven = new Driven();
    driven.saturation = (endpoints) => (endpoints.includes(prefill) ? 0.25 : 0.75);
    expect(driven.shown("pool_saturation")).toEqual({ [stage("decode")]: 0.75, [stage("effective")]: 0.75 });
    driven.pool = [prefill, endpointOf(1)];
    expect(driven.shown("pool_saturation")).toEqual({
      ...{ [stage("prefill")]: 0.25, [stage("decode")]: 0.75 },
      [stage("effective")]: 0.75,
    });
    driven.pool = [prefill];
    expect(driven.shown("pool_saturation")).toEqual({ [stage("prefill")]: 0.25, [stage("effective")]: 0.25 });
    driven.pool = [];
    expect(driven.shown("pool_saturation")).toEqual({ [stage("effective")]: 0.75 });
    expect(driven.shown("stale_endpoints")).toEqual({ 'stale_endpoints{detector="mine"}': 3 });
  });

  it("is NaN in each stage where the detector fails", () => {
    const driven = new Driven();
    driven.shown("");
    driven.saturation = () => {
      throw new Error("broken");
    };
    expect(driven.shown("pool_saturation")).toEqual({
      [stage("decode")]: Number.NaN,
      [stage("effective")]: Number.NaN,
    });
    expect(driven.shown("stale_endpoints")).toEqual({});
    expect(driven.renderErrors.map(String)).toEqual(["Error: broken", "Error: broken"]);
  });
});

describe("the log of flow control", () => {
  it("names a priority without a band once in 10 minutes, and at most 65 of them (bound)", () => {
    const driven = new Driven();
    const strange = (): unknown[] => driven.logged.splice(0).map(({ priority }) => priority);
    for (let i = 0; i < 3; i++) driven.flowControl.cancel(driven.enter({ priority: -5 }));
    driven.flowControl.cancel(driven.enter({ priority: -6 }));
    expect(strange()).toEqual([-5, -6]);
    driven.clock.advance(599_999);
    driven.flowControl.cancel(driven.enter({ priority: -5 }));
    expect(strange()).toEqual([]);
    driven.clock.advance(1);
    driven.flowControl.cancel(driven.enter({ priority: -5 }));
    expect(strange()).toEqual([-5]);
    driven.clock.advance(600_000);
    for (let i = 1; i < 200; i++) driven.flowControl.cancel(driven.enter({ priority: -i }));
    expect(strange().length).toBe(65);
  });

  it("has a line about a part that fails, once per 10 s", () => {
    const driven = new Driven({
      usageLimit: {
        limit() {
          throw new Error("no ceilings");
        },
      },
    });
    for (let i = 0; i < 3; i++) driven.enter();
    expect(driven.logged).toEqual([{ err: new Error("no ceilings"), policy: "usage limit policy" }]);
  });
});

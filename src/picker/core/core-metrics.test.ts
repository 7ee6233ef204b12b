import { describe, expect, it } from "vitest";
import { samplesOf } from "../../../test/support/core.ts";
import { buildDefaultPlan } from "../../../test/support/scheduling/default-profile.ts";
import { endpointOf, requestOf } from "../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { defineSaturationDetector } from "../../base/plugin/define.ts";
import { render } from "../../base/telemetry/exposition.ts";
import { type LogFields, type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { createMetrics } from "../../base/telemetry/names.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { objectivesFromFlags } from "../../pool/resources/objectives.ts";
import { loadConfig } from "../config/load.ts";
import { Scheduler } from "../scheduling/scheduler.ts";
import { rewriteCounter, schedulerHooks, showSaturation } from "./core-metrics.ts";
import { InferenceCore } from "./inference-core.ts";
import { PLUGIN_REGISTRY } from "./plugins/plugins.ts";

/** Hooks on a scheduler with the default profile, the metrics they count in, and the lines they log. */
function hooked() {
  const clock = new VirtualClock();
  const random = new SeededRandom(1);
  const registry = new MetricsRegistry();
  const metrics = createMetrics(registry);
  const lines: { fields: LogFields; message: string }[] = [];
  const logger: Logger = { ...silentLogger, error: (fields, message) => lines.push({ fields, message }) };
  const hooks = schedulerHooks(metrics, new RateLimitedLog(logger, clock, { intervalMs: 1000, maxKeys: 8 }));
  const scheduler = new Scheduler({ plan: buildDefaultPlan(clock, random), clock, random, hooks });
  return { hooks, scheduler, metrics, clock, lines, page: () => render(registry) };
}

/** The values of `target_model_name` among the attempts. */
function modelsOf({ metrics }: ReturnType<typeof hooked>): Set<string> {
  return new Set(Array.from(metrics.schedulerAttemptsTotal.series(), ({ labelValues }) => labelValues[1]!));
}

const pod = endpointOf(3);
const to = (targetModel: string) => requestOf("p", { targetModel });

describe("scheduler hooks", () => {
  it("count each attempt by result, model and the endpoint chosen, under both names", () => {
    const given = hooked();
    for (let i = 0; i < 3; i++) given.scheduler.schedule(to("llama"), [pod], 0);
    given.scheduler.schedule(to("mistral"), [pod], 0);
    for (let i = 0; i < 2; i++) expect(given.scheduler.schedule(to("llama"), [], 0)).toBeInstanceOf(Rejection);
    const attempts = given.metrics.schedulerAttemptsTotal;
    expect(attempts.with("success", "llama", "pod-3", "default", "8000").value).toBe(3);
    expect(attempts.with("success", "mistral", "pod-3", "default", "8000").value).toBe(1);
    expect(attempts.with("failure", "llama", "", "", "").value).toBe(2);
    expect(attempts.size).toBe(3);
    expect(given.page()).toContain(
      'llm_d_epp_scheduler_attempts_total{status="success",target_model_name="llama",endpoint_name="pod-3",namespace="default",port="8000"} 3\n',
    );
    expect(given.page()).toContain(
      'inference_extension_scheduler_attempts_total{status="success",target_model_name="llama",pod_name="pod-3",namespace="default",port="8000"} 3\n',
    );
  });

  it("tell apart endpoints of one pod by their port, and pods of one name by their namespace", () => {
    const { scheduler, metrics } = hooked();
    const ranks = [
      endpointOf(0),
      endpointOf(1, { id: "default/pod-0-rank-1", name: "pod-0", port: 8001 }),
      endpointOf(2, { id: "other/pod-0", name: "pod-0", namespace: "other" }),
      // The first one again, after it moved.
      endpointOf(0, { port: 8002 }),
    ];
    for (const rank of ranks) scheduler.schedule(to("m"), [rank], 0);
    const attempts = metrics.schedulerAttemptsTotal;
    expect(attempts.with("success", "m", "pod-0", "default", "8000").value).toBe(1);
    expect(attempts.with("success", "m", "pod-0", "default", "8001").value).toBe(1);
    expect(attempts.with("success", "m", "pod-0", "other", "8000").value).toBe(1);
    expect(attempts.with("success", "m", "pod-0", "default", "8002").value).toBe(1);
  });

  it("time every decision, refused ones too", () => {
    const { hooks, scheduler, metrics, page } = hooked();
    const result = scheduler.schedule(to("m"), [pod], 0);
    hooks.decided!(result, to("m"), 0.0004);
    hooks.decided!(new Rejection("no_endpoints", "none"), to("m"), 0.25);
    const duration = metrics.schedulerDuration.with();
    expect(duration.count).toBe(3);
    expect(duration.sum).toBeCloseTo(0.2504, 10);
    expect(page()).toContain('llm_d_epp_scheduler_e2e_duration_seconds_bucket{le="0.0005"} 2\n');
    expect(page()).toContain("llm_d_epp_scheduler_e2e_duration_seconds_count 3\n");
  });

  it("time plugin calls by extension point, type and name", () => {
    const { hooks, scheduler, metrics, page } = hooked();
    hooks.pluginCalled!("Scorer", { name: "mine", type: "queue-scorer" }, 0.003);
    const own = metrics.pluginDuration.with("Scorer", "queue-scorer", "mine");
    expect([own.count, own.sum]).toEqual([1, 0.003]);
    scheduler.schedule(to("m"), [pod], 0);
    expect(metrics.pluginDuration.with("Picker", "max-score-picker", "max-score-picker").count).toBe(1);
    expect(page()).toContain(
      'llm_d_epp_plugin_duration_seconds_count{extension_point="Scorer",plugin_type="queue-scorer",plugin_name="mine"} 1\n',
    );
  });

  it("count every failure of a plugin, and log it once per interval, by its name", () => {
    const { hooks, clock, lines, page } = hooked();
    const error = new Error("broken");
    for (let i = 0; i < 5; i++) hooks.pluginFailed!("Filter", { name: "mine", type: "t" }, error);
    hooks.pluginFailed!("Filter", { name: "other", type: "t" }, error);
    clock.advance(1000);
    hooks.pluginFailed!("Filter", { name: "mine", type: "t" }, error);
    expect(lines.map(({ fields }) => [fields["plugin"], fields["suppressed"]])).toEqual([
      ["mine", undefined],
      ["other", undefined],
      ["mine", 4],
    ]);
    expect(lines[0]!.fields).toMatchObject({ err: error, point: "Filter" });
    expect(page()).toContain(
      'sluice_plugin_failures_total{extension_point="Filter",plugin_type="t",plugin_name="mine"} 6\n',
    );
  });

  it("count how much of a prompt the chosen endpoint held: nothing at first, then all of its full blocks", () => {
    const { scheduler, metrics, page } = hooked();
    const prompt = "x".repeat(8192);
    for (let i = 0; i < 2; i++) scheduler.schedule(requestOf(prompt), [pod], 0);
    const bytes = [...metrics.prefixIndexerHitBytes.series()];
    const ratio = [...metrics.prefixIndexerHitRatio.series()];
    expect([bytes.length, ratio.length]).toEqual([1, 1]);
    expect([bytes[0]!.count, bytes[0]!.sum]).toEqual([2, 8192]);
    expect([ratio[0]!.count, ratio[0]!.sum]).toEqual([2, 1]);
    expect(page()).toMatch(/^llm_d_epp_prefix_indexer_hit_bytes_sum\{.*\} 8192$/m);
    expect(page()).toMatch(/^llm_d_epp_prefix_indexer_hit_ratio_bucket\{.*le="0"\} 1$/m);
    expect(page()).toMatch(/^llm_d_epp_prefix_indexer_hit_ratio_count\{.*\} 2$/m);
  });

  it("count the bytes but no ratio for a prompt without a length to divide by", () => {
    const { hooks, metrics } = hooked();
    const producer = { name: "prefix", type: "prefix-producer" };
    hooks.prefixMatched!(producer, 0, undefined);
    hooks.prefixMatched!(producer, 640, 0.5);
    const bytes = metrics.prefixIndexerHitBytes.with("prefix", "prefix-producer");
    const ratio = metrics.prefixIndexerHitRatio.with("prefix", "prefix-producer");
    expect([bytes.count, bytes.sum, ratio.count, ratio.sum]).toEqual([2, 640, 1, 0.5]);
  });

  it("keep the first 1,000 model names of clients and count the rest as other (S-96, bound)", () => {
    const given = hooked();
    for (let i = 0; i < 1500; i++) given.scheduler.schedule(to(`m-${i}`), i % 3 === 0 ? [] : [pod], 0);
    const models = modelsOf(given);
    expect(models.size).toBe(1001);
    expect([models.has("m-999"), models.has("m-1000"), models.has("other")]).toEqual([true, false, true]);
    const attempts = given.metrics.schedulerAttemptsTotal;
    const counted = Array.from(attempts.series(), ({ value }) => value).reduce((sum, value) => sum + value, 0);
    expect(counted).toBe(1500);
    expect(attempts.with("success", "other", "pod-3", "default", "8000").value).toBe(334);
    expect(attempts.with("failure", "other", "", "", "").value).toBe(166);
    // A name that was known before goes on counting under its own name.
    given.scheduler.schedule(to("m-1"), [pod], 0);
    expect(attempts.with("success", "m-1", "pod-3", "default", "8000").value).toBe(2);
  });

  it("count a model name of a megabyte as other", () => {
    const given = hooked();
    const name = "n".repeat(1 << 20);
    given.scheduler.schedule(to(name), [pod], 0);
    given.scheduler.schedule(to(name), [], 0);
    expect([...modelsOf(given)]).toEqual(["other"]);
    expect(given.metrics.schedulerAttemptsTotal.with("success", "other", "pod-3", "default", "8000").value).toBe(1);
    expect(given.page().length).toBeLessThan(1 << 20);
  });

  it("lose no count when more endpoints and models come by than counters are kept at hand (bound)", () => {
    const { scheduler, metrics } = hooked();
    const pods = Array.from({ length: 5 }, (_, slot) => endpointOf(slot));
    // 5 endpoints x 1,000 names are more than the 4,096 series of the family and the counters kept.
    for (let round = 0; round < 2; round++)
      for (let i = 0; i < 1000; i++) for (const one of pods) scheduler.schedule(to(`m-${i}`), [one], 0);
    const attempts = metrics.schedulerAttemptsTotal;
    expect(attempts.size).toBeLessThanOrEqual(4097);
    const counted = Array.from(attempts.series(), ({ value }) => value).reduce((sum, value) => sum + value, 0);
    expect(counted).toBe(10_000);
    expect(attempts.with("success", "m-0", "pod-0", "default", "8000").value).toBe(2);
  });
});

it("counts rewrites under both names, 1,000 model names apart (scheduling 8.5)", () => {
  const registry = new MetricsRegistry();
  const count = rewriteCounter(createMetrics(registry));
  for (let i = 0; i < 1002; i++) count("canary", `m${i}`, "v2");
  count("canary", "m7", "v2");
  const samples = samplesOf(render(registry));
  const value = (family: string, model: string) =>
    samples.get(`${family}{model_rewrite_name="canary",model_name="${model}",target_model="v2"}`);
  for (const family of ["llm_d_epp_model_rewrite_decisions_total", "inference_extension_model_rewrite_decisions_total"])
    expect(["m0", "m7", "m999", "m1000", "other"].map((model) => value(family, model))).toEqual([
      1,
      2,
      1,
      undefined,
      2,
    ]);
});

/** What a page says of the pool, and what was logged, with such a detector. */
function shown(...answers: (() => unknown)[]): { values: (string | undefined)[]; logged: string[] } {
  let turn = 0;
  const saturation = (): number => answers[turn++]!() as number;
  const detector = defineSaturationDetector({ type: "mine", describe: "", create: () => ({ saturation }) });
  const logged: string[] = [];
  const log: Logger = { ...silentLogger, error: ({ err }) => void logged.push(String(err)) };
  const core = new InferenceCore({
    clock: new VirtualClock(),
    random: new SeededRandom(1),
    config: {
      ...loadConfig(undefined, PLUGIN_REGISTRY),
      detector: { definition: detector, name: "mine", parameters: {} },
    },
    models: { objectives: objectivesFromFlags([]) },
    staleness: 2000,
    ignoreSubset: false,
    log,
  });
  showSaturation(core, "p");
  const value = (): string | undefined =>
    /^llm_d_epp_\w*saturation\w*\{[^}]*\} (\S+)$/m.exec(render(core.registry))?.[1];
  return { values: answers.map(value), logged };
}

describe("the saturation of the pool on the metrics page", () => {
  it("is not known where the detector fails, which is logged, and the page is there all the same", () => {
    const broken = (): never => {
      throw new Error("broken");
    };
    const late = () => Promise.reject(new Error("too late"));
    const { values, logged } = shown(
      () => 0.5,
      broken,
      () => 0.25,
      late,
    );
    expect(values).toEqual(["0.5", "NaN", "0.25", "NaN"]);
    expect(logged).toEqual([expect.stringContaining("broken")]);
  });

  it("has no label for the stage under its name of v1.5 with that parity (scheduling 6.10, 8.6)", () => {
    for (const [stageInTwins, label] of [
      [true, ',stage="effective"'],
      [false, ""],
    ] as const) {
      const registry = new MetricsRegistry();
      const metrics = createMetrics(registry, { stageInTwins });
      const saturation = () => ({ detector: "d", value: 0.75, staleEndpoints: undefined });
      showSaturation({ registry, metrics, saturation }, "p");
      const page = render(registry);
      expect(page).toContain(`\ninference_extension_flow_control_pool_saturation{inference_pool="p"${label}} 0.75\n`);
      expect(page).toContain('\nllm_d_epp_flow_control_pool_saturation{inference_pool="p",stage="effective"} 0.75\n');
    }
  });
});

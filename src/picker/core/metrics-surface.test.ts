import { describe, expect, it } from "vitest";
import { samplesOf, TestCore } from "../../../test/support/core.ts";
import { NO_WIRE } from "../../../test/support/exchange/fakes.cases.ts";
import { madePool, madeRewrite, rule } from "../../../test/support/resources/made.cases.ts";
import { chatBody } from "../../../test/support/session-harness.ts";
import { slowRead } from "../../../test/support/slow-exposition.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { UNKNOWN_METRICS } from "../../base/inference/endpoint.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { defineScorer } from "../../base/plugin/define.ts";
import { columnKey } from "../../base/plugin/keys.ts";
import { render } from "../../base/telemetry/exposition.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { startEndpointMetrics } from "../../pool/endpoints/endpoint-metrics.ts";
import { objectivesFromFlags } from "../../pool/resources/objectives.ts";
import { ResourceStore } from "../../pool/resources/resource-store.ts";
import { loadConfig } from "../config/load.ts";
import { showSaturation } from "./core-metrics.ts";
import { InferenceCore } from "./inference-core.ts";
import { PLUGIN_REGISTRY } from "./plugins/plugins.ts";

const HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";

/** A core with a pool `p` of two endpoints, and what is done to it. */
class Driven {
  readonly clock = new VirtualClock();
  readonly resources = new ResourceStore();
  readonly core: InferenceCore;
  readonly stop: () => void;

  constructor(config?: string, inferenceModelMetrics = true) {
    const { clock, resources } = this;
    this.core = new InferenceCore({
      ...{ clock, random: new SeededRandom(1), staleness: 2000, ignoreSubset: false, log: silentLogger },
      config: loadConfig(
        config === undefined ? undefined : parseDocument(`${HEAD}${config}`, { file: "c.yaml" }),
        PLUGIN_REGISTRY,
      ),
      models: { objectives: objectivesFromFlags(["gold=5"]), resources },
      inferenceModelMetrics,
    });
    resources.replace([madePool("pool"), madeRewrite("canary", [rule("chat", "chat-v2")])]);
    const { endpoints, endpointsView: view } = this.core;
    const gauges = startEndpointMetrics({ ...this.core, clock, endpoints, view, poolName: "p", poolInterval: 5000 });
    const saturation = showSaturation(this.core, "p");
    this.stop = () => {
      gauges();
      saturation();
    };
    this.scraped("pod-rank-0", 1);
    this.scraped("pod-rank-1", 3);
  }

  /** An endpoint with that many waiting requests, as scraped just now. */
  scraped(name: string, waiting: number): void {
    const { endpoints } = this.core;
    const address = `10.0.0.${name.at(-1)}`;
    const endpoint = endpoints.upsert({ namespace: "ns", name, address, port: 8000, rank: 0, labels: {} })!;
    endpoint.metrics = { ...UNKNOWN_METRICS, waiting, running: 1, kvUsage: 0.5, scrapedAt: this.clock.now() };
    endpoints.states.readable(endpoint);
  }

  /** A request to its end, answered with `status` and 11 tokens after a second. */
  request(
    model: string,
    more: Record<string, unknown> = {},
    headers: Readonly<Record<string, string>> = {},
    status = 200,
  ) {
    const exchange = this.core.openExchange(NO_WIRE);
    exchange.requestHeaders(HeaderList.of([[":path", "/v1/chat/completions"], ...Object.entries(headers)]), false);
    this.clock.advance(2);
    const decision = exchange.requestBody(Buffer.from(chatBody("x".repeat(2048), { model, ...more })), true);
    exchange.releaseBody();
    if (decision instanceof Rejection) {
      exchange.end("rejected", decision);
      return;
    }
    const usage = { prompt_tokens: 7, completion_tokens: 11, prompt_tokens_details: { cached_tokens: 3 } };
    const text = JSON.stringify({ usage });
    const streams = more["stream"] === true;
    const type = streams ? "text/event-stream" : "application/json";
    this.clock.advance(500);
    exchange.responseHeaders(status, HeaderList.of([["content-type", type]]), false);
    for (const part of streams ? ["data: {}\n\n", `data: ${text}\n\n`] : [text]) {
      this.clock.advance(500);
      exchange.responseBody(Buffer.from(part), false);
    }
    exchange.responseBody(Buffer.alloc(0), true);
  }

  page(): string {
    return render(this.core.registry);
  }
}

/** Everything that makes a series appear: streams and others, a rewrite, an objective, a flow, errors of both sides. */
function everything(): Driven {
  const driven = new Driven(`
plugins:
- { type: prefix-cache-scorer }
- { type: queue-scorer }
- { type: header-based-testing-filter }
schedulingProfiles:
- name: default
  plugins:
  - { pluginRef: header-based-testing-filter }
  - { pluginRef: prefix-cache-scorer }
  - { pluginRef: queue-scorer }
`);
  const flow = { "x-llm-d-inference-objective": "gold", "x-llm-d-inference-fairness-id": "team" };
  const to = { "test-epp-endpoint-selection": "10.0.0.0,10.0.0.1" };
  driven.clock.advance(1);
  driven.request("chat", { stream: true }, { ...flow, ...to });
  driven.request("chat", { stream: true }, { ...flow, ...to });
  driven.request("chat", {}, { ...flow, ...to });
  driven.request("chat", {}, { ...flow, ...to }, 500);
  driven.request("chat", {}, flow);
  driven.scraped("pod-rank-0", 1);
  driven.scraped("pod-rank-1", 3);
  driven.clock.advance(5000);
  driven.scraped("pod-rank-0", 1);
  driven.scraped("pod-rank-1", 3);
  return driven;
}

const M = ["model_name", "target_model_name"];
const M4 = [...M, "fairness_id", "priority"];
const PLUGIN = ["plugin_name", "plugin_type"];
const OBJECTIVE = "inference_objective_";
const MODEL = "inference_model_";
const EXTENSION = "inference_extension_";
const POOL = "inference_pool_";
const ATTEMPT = ["status", "target_model_name", "namespace", "port"];

/** Bounds by the names of 8.2. */
const B: Readonly<Record<string, string>> = {
  lat: "0.005 0.025 0.05 0.1 0.2 0.4 0.6 0.8 1 1.25 1.5 2 3 4 5 6 8 10 15 20 30 45 60 120 180 240 300 360 480 600 900 1200 1800 2700 3600",
  reqsize: Array.from({ length: 25 }, (_, i) => 64 * 2 ** i).join(" "),
  respsize: "1 8 16 32 64 128 256 512 1024 2048 4096 8192 16384 32778 65536",
  intok: "1 8 16 32 64 128 256 512 1024 2048 4096 8192 16384 32778 65536 131072 262144 524288 1048576",
  outtok: "1 8 16 32 64 128 256 512 1024 2048 4096 8192",
  ntpot: "0.001 0.002 0.005 0.01 0.02 0.05 0.1 0.2 0.5 1 2 5 10",
  fast: "0.0001 0.0002 0.0005 0.001 0.002 0.005 0.01 0.02 0.05 0.1",
  ratio: "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1",
  bytes: "0 16 32 64 128 256 512 1024 2048 4096 8192 16384 32768 65536",
  ttft: "0.005 0.025 0.05 0.1 0.2 0.4 0.6 0.8 1 1.25 1.5 2 3 4 5 6 8 10 15 20 30 45 60 120",
  tpot: "0.0005 0.00205 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.125 0.15 0.2 0.3 0.4 0.5 0.6 0.8 1 2",
  itl: "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.15 0.2 0.3 0.5 0.75 1 2",
  reqproc: "0.0005 0.001 0.002 0.005 0.01 0.015 0.025 0.04 0.06 0.1 0.25 0.5 1 2.5 5 10",
  respproc: "0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5",
};

type Family = readonly [name: string, labels: readonly string[]];
/** Canonical name without its prefix and labels, older families, and of a histogram its bounds. */
type Row = readonly [name: string, labels: readonly string[], twins: readonly Family[], bounds?: string];

/** scheduling 8.3: the older names of most are of the same kind in both generations. */
const both = (name: string, labels: readonly string[] = M): readonly Family[] => [
  [`${OBJECTIVE}${name}`, labels],
  [`${MODEL}${name}`, labels],
];
const same = (name: string, labels: readonly string[]): readonly Family[] => [[`${EXTENSION}${name}`, labels]];

const ROWS: readonly Row[] = [
  [
    "request_total",
    M4,
    [
      [`${OBJECTIVE}request_total`, [...M, "priority"]],
      [`${MODEL}request_total`, M],
    ],
  ],
  ["request_error_total", [...M4, "error_code"], both("request_error_total", [...M, "error_code"])],
  ["request_duration_seconds", M4, both("request_duration_seconds"), "lat"],
  ["request_size_bytes", M4, both("request_sizes"), "reqsize"],
  ["response_size_bytes", M4, both("response_sizes"), "respsize"],
  ["request_input_tokens", M4, both("input_tokens"), "intok"],
  ["request_output_tokens", M4, both("output_tokens"), "outtok"],
  ["request_cached_tokens", M4, [[`${OBJECTIVE}prompt_cached_tokens`, M]], "intok"],
  ["request_running", M4, both("running_requests", ["model_name"])],
  ["request_ntpot_seconds", M4, both("normalized_time_per_output_token_seconds"), "ntpot"],
  ["request_ttft_seconds", [...M4, "streaming"], [], "ttft"],
  ["request_streaming_tpot_seconds", M4, [], "tpot"],
  ["request_streaming_itl_seconds", M4, [], "itl"],
  // 8.4
  ["average_kv_cache_utilization", ["name"], [[`${POOL}average_kv_cache_utilization`, ["name"]]]],
  ["average_queue_size", ["name"], [[`${POOL}average_queue_size`, ["name"]]]],
  ["average_running_requests", ["name"], [[`${POOL}average_running_requests`, ["name"]]]],
  ["std_dev_kv_cache_utilization", ["name"], []],
  ["std_dev_queue_size", ["name"], []],
  ["std_dev_running_requests", ["name"], []],
  ["ready_endpoints", ["name"], [[`${POOL}ready_pods`, ["name"]]]],
  [
    "per_endpoint_queue_size",
    ["name", "model_server_endpoint"],
    [[`${POOL}per_pod_queue_size`, ["name", "model_server_pod"]]],
  ],
  // 8.5
  ["scheduler_e2e_duration_seconds", [], same("scheduler_e2e_duration_seconds", []), "fast"],
  [
    "scheduler_attempts_total",
    [...ATTEMPT, "endpoint_name"],
    [[`${EXTENSION}scheduler_attempts_total`, [...ATTEMPT, "pod_name"]]],
  ],
  [
    "plugin_duration_seconds",
    ["extension_point", ...PLUGIN],
    same("plugin_duration_seconds", ["extension_point", ...PLUGIN]),
    "fast",
  ],
  ["request_processing_duration_seconds", [], [], "reqproc"],
  ["response_processing_duration_seconds", [], [], "respproc"],
  ["info", ["commit", "build_ref"], same("info", ["commit", "build_ref"])],
  [
    "model_rewrite_decisions_total",
    ["model_rewrite_name", "model_name", "target_model"],
    same("model_rewrite_decisions_total", ["model_rewrite_name", "model_name", "target_model"]),
  ],
  [
    "datalayer_poll_errors_total",
    ["source_type"],
    [["llm_d_inference_scheduler_datalayer_poll_errors_total", ["source_type"]]],
  ],
  [
    "datalayer_extract_errors_total",
    ["source_type", "extractor_type"],
    [["llm_d_inference_scheduler_datalayer_extract_errors_total", ["source_type", "extractor_type"]]],
  ],
  ["prefix_indexer_size", PLUGIN, same("prefix_indexer_size", [])],
  ["prefix_indexer_hit_ratio", PLUGIN, same("prefix_indexer_hit_ratio", []), "ratio"],
  ["prefix_indexer_hit_bytes", PLUGIN, same("prefix_indexer_hit_bytes", []), "bytes"],
  ["inflight_requests", ["endpoint_name", "namespace", "producer_name", "fairness_id", "priority"], []],
  ["inflight_tokens", ["endpoint_name", "namespace", "producer_name", "fairness_id", "priority"], []],
  // 8.6
  [
    "flow_control_pool_saturation",
    ["inference_pool", "stage"],
    same("flow_control_pool_saturation", ["inference_pool", "stage"]),
  ],
  ["flow_control_stale_endpoints", ["detector"], []],
];

const read = (page: string) =>
  slowRead(Buffer.from(page)).flatMap(({ sample }) => (sample === undefined ? [] : [sample]));
const sorted = (labels: Iterable<string>) => [...labels].sort().join();

describe("what the page shows after requests of every kind (S-90)", () => {
  const driven = everything();
  const page = driven.page();
  const samples = read(page);
  const families = ROWS.flatMap(([name, labels, twins, bounds]) =>
    [[`llm_d_epp_${name}`, labels] as const, ...twins].map(([each, of]) => [each, of, bounds] as const),
  );

  it.each(families)("%s {%o}", (name, labels, bounds) => {
    const found = samples.filter((sample) => sample.name === (bounds === undefined ? name : `${name}_count`));
    expect(found.length, "series").toBeGreaterThan(0);
    for (const sample of found) expect(sorted(Object.keys(sample.labels))).toBe(sorted(labels));
    if (bounds === undefined) return;
    expect(Math.max(...found.map(({ value }) => value))).toBeGreaterThan(0);
    const first = JSON.stringify({ ...found[0]!.labels });
    const les = samples
      .filter((sample) => sample.name === `${name}_bucket`)
      .filter(({ labels: { le: _, ...own } }) => JSON.stringify(own) === first)
      .map((sample) => (sample.labels["le"] === "+Inf" ? "+Inf" : String(Number(sample.labels["le"]))));
    expect(les.join(" ")).toBe(`${B[bounds]} +Inf`);
  });

  const value = (text: string) => samplesOf(page).get(text);
  const own = 'model_name="chat",target_model_name="chat-v2",fairness_id="team",priority="5"';

  it("counts each under the names of its request", () => {
    expect(value(`llm_d_epp_request_total{${own}}`)).toBe(4);
    expect(value(`llm_d_epp_request_error_total{${own},error_code="ModelServerError"}`)).toBe(1);
    expect(value(`llm_d_epp_request_error_total{${own},error_code="ResourceExhausted"}`)).toBe(1);
    expect(value(`llm_d_epp_request_running{${own}}`)).toBe(0);
    expect(value(`llm_d_epp_request_ttft_seconds_sum{${own},streaming="true"}`)).toBeCloseTo(2 * 1.002, 9);
    expect(
      value(
        'inference_extension_model_rewrite_decisions_total{model_rewrite_name="canary",model_name="chat",target_model="chat-v2"}',
      ),
    ).toBe(5);
  });

  it("times requests and answers where they are handled (scheduling 8.5)", () => {
    const sums = ["request", "response"].map((side) => value(`llm_d_epp_${side}_processing_duration_seconds_sum`)!);
    // Four routed requests of 2 ms; two answers in one piece of 500 ms, streams as long as they are handled: no time.
    expect(sums.map((sum) => Math.round(sum * 1000))).toEqual([8, 1000]);
    expect(value("llm_d_epp_request_processing_duration_seconds_count")).toBe(4);
    expect(value("llm_d_epp_response_processing_duration_seconds_count")).toBe(4);
  });

  it("calls an endpoint with a rank by its whole name, in both families (S-97)", () => {
    expect(value('llm_d_epp_per_endpoint_queue_size{name="p",model_server_endpoint="pod-rank-0"}')).toBe(1);
    expect(value('inference_pool_per_pod_queue_size{name="p",model_server_pod="pod-rank-0"}')).toBe(1);
  });

  it("says how saturated the pool is: the mean of what its endpoints are (scheduling 5.3)", () => {
    expect(value('inference_extension_flow_control_pool_saturation{inference_pool="p",stage="effective"}')).toBeCloseTo(
      0.625,
      9,
    );
    expect(value('llm_d_epp_flow_control_stale_endpoints{detector="utilization-detector"}')).toBe(0);
  });

  it("has no second series for what is in flight, and 0 once nothing is", () => {
    const inFlight = samples.filter(({ name }) => name === "llm_d_epp_inflight_requests");
    for (const { labels, value: requests } of inFlight)
      expect([labels["fairness_id"], labels["priority"], labels["producer_name"], requests]).toEqual([
        "team",
        "5",
        "inflight-load-producer",
        0,
      ]);
    expect(new Set(inFlight.map(({ labels }) => labels["endpoint_name"])).size).toBe(inFlight.length);
  });
});

describe("a configuration with plugins of every kind", () => {
  const staged = (handler: string) =>
    new Driven(`
plugins:
- { type: agent-identity }
- { type: probabilistic-admitter }
- { type: always-disagg-pd-decider }
- ${handler}
- { type: decode-filter }
- { type: prefix-cache-scorer }
- { type: destination-endpoint-served-verifier }
- { type: request-attribute-reporter, parameters: { attributes: [{ key: { namespace: n, name: k }, expression: "usage.prompt_tokens" }] } }
schedulingProfiles:
- name: decode
  plugins: [{ pluginRef: decode-filter }, { pluginRef: prefix-cache-scorer }]
- name: prefill
  plugins: [{ pluginRef: prefix-cache-scorer }]
`);
  const disagg = "{ type: disagg-profile-handler, parameters: { deciders: { prefill: always-disagg-pd-decider } } }";

  it("has the extension points of 3.2 as they are spelt there", () => {
    const driven = staged(disagg);
    driven.request("chat");
    const points = read(driven.page())
      .filter(({ name, value }) => name === "llm_d_epp_plugin_duration_seconds_count" && value > 0)
      .map(({ labels }) => labels["extension_point"]);
    expect(sorted(new Set(points) as Set<string>)).toBe(
      sorted([
        ...["RequestHeader", "DataProducer", "Admission", "ProfilePicker", "Filter", "Scorer", "Picker"],
        ...["ProcessProfilesResults", "PreRequest", "ResponseReceived", "ResponseComplete"],
      ]),
    );
  });

  const handlers: readonly (readonly [string, string])[] = [
    ["disagg", disagg],
    ["pd", "{ type: pd-profile-handler, parameters: { deciderPluginName: always-disagg-pd-decider } }"],
  ];
  it.each(handlers)("counts the stages that a handler chose: %s (scheduling 8.5)", (prefix, handler) => {
    const driven = staged(handler);
    driven.request("chat");
    const name = `${prefix}_decision_total`;
    const found = read(driven.page()).filter((sample) => sample.name.endsWith(name));
    expect(found.map((sample) => [sample.name, sorted(Object.keys(sample.labels)), sample.value])).toEqual([
      [`llm_d_epp_${name}`, sorted([...PLUGIN, "model_name", "decision_type"]), 1],
      [`llm_d_inference_scheduler_${name}`, sorted(["model_name", "decision_type"]), 1],
    ]);
    expect(found[0]!.labels["decision_type"]).toBe("prefill-decode");
  });
});

describe("a plugin that touches data it does not declare", () => {
  it("is counted by extension point and access (scheduling 8.5)", () => {
    const undeclared = columnKey("somebody-else's");
    const core = new TestCore({
      plugins: [
        defineScorer({
          type: "curious-scorer",
          describe: "Reads what it does not declare.",
          create: () => ({ score: ({ candidates }) => void candidates.column(undeclared) }),
        }),
      ],
    });
    const exchange = core.openExchange(NO_WIRE);
    exchange.requestHeaders(HeaderList.of([[":path", "/v1/chat/completions"]]), false);
    exchange.requestBody(Buffer.from(chatBody()), true);
    expect(
      core
        .samples()
        .get(
          'llm_d_epp_plugin_data_scope_violations_total{extension_point="Scorer",plugin_type="curious-scorer",plugin_name="curious-scorer",access="read"}',
        ),
    ).toBe(1);
  });
});

describe("gauges of the pool (S-95)", () => {
  it("are written every 5 s, with the deviation of {1, 3}, and leave out a stale endpoint", () => {
    const driven = new Driven();
    const shown = (name: string) => samplesOf(driven.page()).get(`llm_d_epp_${name}{name="p"}`);
    driven.clock.advance(0);
    expect([shown("average_queue_size"), shown("std_dev_queue_size"), shown("ready_endpoints")]).toEqual([2, 1.41, 2]);
    driven.scraped("pod-rank-0", 9);
    expect(shown("average_queue_size")).toBe(2);
    driven.clock.advance(5000);
    driven.scraped("pod-rank-0", 9);
    // The other one was not read for 5 s. Who can serve is shown at once, and the averages with it.
    expect([shown("average_queue_size"), shown("std_dev_queue_size"), shown("ready_endpoints")]).toEqual([9, 0, 1]);
    expect(samplesOf(driven.page()).get('inference_pool_ready_pods{name="p"}')).toBe(1);
    driven.stop();
  });
});

describe("model names that clients make up (S-96)", () => {
  it("become other from the 1,001st on; names of rewrite objects keep their own label in every metric", () => {
    const driven = new Driven();
    for (let i = 0; i < 1003; i++)
      driven.request(`m${i}`, {}, { "x-llm-d-inference-fairness-id": `f${i}`, "x-llm-d-inference-objective": "gold" });
    driven.request("chat", {}, { "x-llm-d-inference-fairness-id": "late" });
    const totals =
      /^(llm_d_epp|inference_(objective|model))_(request|scheduler|model)\w*(_total|running|seconds_count)\{/;
    const lines = driven.page().split("\n");
    const samples = read(lines.filter((line) => totals.test(line)).join("\n"));
    const of = (name: string, wanted: Readonly<Record<string, string>>) =>
      samples
        .filter((sample) => sample.name === name)
        .filter(({ labels }) => Object.entries(wanted).every(([label, text]) => labels[label] === text))
        .reduce((sum, { value }) => sum + value, 0);
    expect(of("llm_d_epp_request_total", { model_name: "m999" })).toBe(1);
    expect(of("llm_d_epp_request_total", { model_name: "m1000" })).toBe(0);
    expect(of("llm_d_epp_request_total", { model_name: "other" })).toBe(3);
    const pinned = { model_name: "chat", target_model_name: "chat-v2" };
    for (const name of [
      "llm_d_epp_request_total",
      "inference_objective_request_total",
      "inference_model_request_total",
    ])
      expect(of(name, pinned), name).toBe(1);
    expect(of("llm_d_epp_request_duration_seconds_count", pinned)).toBe(1);
    expect(of("llm_d_epp_request_running", { ...pinned, fairness_id: "other", priority: "0" })).toBe(0);
    expect(of("llm_d_epp_scheduler_attempts_total", { target_model_name: "chat-v2" })).toBe(1);
    expect(of("llm_d_epp_scheduler_attempts_total", { target_model_name: "other" })).toBe(3);
    expect(of("llm_d_epp_model_rewrite_decisions_total", { model_name: "chat", target_model: "chat-v2" })).toBe(1);
    expect(of("llm_d_epp_request_total", {})).toBe(1004);
    expect(samples.filter(({ name }) => name === "llm_d_epp_request_total").length).toBeLessThanOrEqual(1002);
  });
});

describe("the names of v0.3 to v1.0 (scheduling 8.1)", () => {
  it("are there unless they are switched off, and nothing else goes with them", () => {
    const names = (driven: Driven) => new Set([...driven.page().matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name!));
    const [all, without] = [true, false].map((wanted) => {
      const driven = new Driven(undefined, wanted);
      driven.request("m");
      driven.request("m", {}, {}, 500);
      return names(driven);
    }) as [Set<string>, Set<string>];
    const old = [...all].filter((name) => name.startsWith(MODEL));
    expect(old.length).toBe(9);
    expect(new Set([...all].filter((name) => !old.includes(name)))).toEqual(without);
  });
});

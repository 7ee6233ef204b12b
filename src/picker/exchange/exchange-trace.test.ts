import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { TestCore, type TestCoreOptions } from "../../../test/support/core.ts";
import { type CollectedSpan, type OtlpCollector, startOtlpCollector } from "../../../test/support/otlp-collector.ts";
import { chatBody } from "../../../test/support/session-harness.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { defineScorer } from "../../base/plugin/define.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { startTracing } from "../../base/telemetry/otel-tracing.ts";
import type { InferenceExchange } from "./exchange.ts";
import type { Decision, Routed } from "./wire.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const CLIENT = "b7ad6b7169203331";
const WIRE = { pauseRequest() {}, resumeRequest() {}, evict() {} };
const JSON_TYPE = HeaderList.of([["content-type", "application/json"]]);
const SECRET = "the prompt of somebody";

let collector: OtlpCollector;
beforeEach(async () => {
  collector = await startOtlpCollector();
});
afterEach(() => collector[Symbol.asyncDispose]());

/** A core that traces to the collector; `ratio` of the traces that begin here are sampled. */
async function tracedCore(options: TestCoreOptions = {}, ratio = "1"): Promise<TestCore> {
  const core = new TestCore(options);
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint, OTEL_TRACES_SAMPLER_ARG: ratio };
  core.tracing = await startTracing(env, {
    ...{ serviceName: "llm-d-epp", instrumentation: "llm-d-router", sampling: "ratio" },
    ...{ clock: core.clock, log: silentLogger },
  });
  return core;
}

type Pairs = readonly (readonly [string, string])[];
const parent = (flags = "01"): Pairs => [["traceparent", `00-${TRACE}-${CLIENT}-${flags}`]];

/** An exchange with a complete chat request, and what was decided about it. */
function ask(
  core: TestCore,
  pairs: Pairs = [],
  body: string = chatBody(SECRET),
  path = "/v1/chat/completions",
): [exchange: InferenceExchange, decision: Decision] {
  const exchange = core.openExchange(WIRE);
  exchange.requestHeaders(HeaderList.of([[":path", path], ...pairs]), false);
  return [exchange, exchange.requestBody(Buffer.from(body), true) as Decision];
}

function answer(exchange: InferenceExchange, status = 200): void {
  exchange.responseHeaders(status, JSON_TYPE, false);
  exchange.responseBody(Buffer.from("{}"), true);
}

/** What goes to the model server of a trace. */
const carried = (decision: Decision): Record<string, string> =>
  Object.fromEntries((decision as Routed).trace!.keys.map((key, i) => [key, (decision as Routed).trace!.values[i]!]));

/** What arrived, the names of the spans with those of their parents below them. */
async function arrived(core: TestCore): Promise<readonly CollectedSpan[]> {
  await core.tracing!.close();
  return collector.spans;
}

function find(spans: readonly CollectedSpan[], name: string): CollectedSpan {
  const found = spans.filter((span) => span.name === name);
  if (found.length !== 1) throw new Error(`${found.length} spans are called ${name}: ${spans.map((s) => s.name)}`);
  return found[0]!;
}

/** `child < parent` of every span. */
const tree = (spans: readonly CollectedSpan[]): string[] =>
  spans.map(({ name, parentId }) => `${name} < ${spans.find((span) => span.spanId === parentId)?.name ?? parentId}`);

describe("the trace of a routed request", () => {
  it("goes on from the client's and hands itself on, with what each step did (S-99, E-33)", async () => {
    const core = await tracedCore({
      endpoints: [{ metrics: { waiting: 4 } }, { metrics: { waiting: 0 } }, { metrics: { waiting: 2 } }],
      objectives: ["gold=5"],
    });
    const [exchange, decision] = ask(core, [
      ...parent(),
      ...([
        ["tracestate", "vendor=1"],
        ["baggage", "tenant=red"],
        ["x-request-id", "r1"],
        ["x-llm-d-inference-objective", "gold"],
      ] as const),
    ]);
    core.clock.advance(30);
    answer(exchange);
    const spans = await arrived(core);

    const request = find(spans, "gateway.request");
    expect(request).toMatchObject({ traceId: TRACE, parentId: CLIENT, kind: 2, error: undefined });
    expect(request).toMatchObject({ scope: "llm-d-router", started: 0, ended: 30 });
    expect(request.resource["service.name"]).toBe("llm-d-epp");
    expect(request.attributes).toEqual({
      "gen_ai.request.id": "r1",
      "gen_ai.request.model": "llama",
      "http.response.status_code": 200,
      "sluice.end_cause": "complete",
    });
    expect(carried(decision)).toEqual({
      traceparent: `00-${TRACE}-${request.spanId}-01`,
      tracestate: "vendor=1",
      baggage: "tenant=red",
    });
    const orchestration = find(spans, "gateway.request_orchestration");
    expect(orchestration).toMatchObject({ parentId: request.spanId, kind: 2, error: undefined });
    expect(orchestration.attributes).toMatchObject({ target_model: "llama", request_prio: 5 });
    for (const span of spans) {
      expect(span.traceId).toBe(TRACE);
      expect(span.attributes).toMatchObject({ "gen_ai.request.id": "r1", "gen_ai.request.model": "llama" });
    }
    expect(JSON.stringify(spans)).not.toContain(SECRET);
  });

  it("shows every profile, filter, scorer and pick (scheduling 9.1)", async () => {
    const slow = defineScorer({
      type: "slow-scorer",
      describe: "Takes its time.",
      create: () => ({
        score({ candidates, out }) {
          core.clock.advance(7);
          for (let i = 0; i < candidates.count; i++) out[i] = [0, 0.25, 0.5][i]!;
        },
      }),
    });
    const core = await tracedCore({
      config: `
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- { type: queue-scorer }
- { type: decision-tree-filter, name: tree }
- { type: max-score-picker }
- { type: single-profile-handler }
schedulingProfiles:
- name: only
  plugins:
  - { pluginRef: tree }
  - { pluginRef: queue-scorer, weight: 2 }
  - { pluginRef: max-score-picker }
`,
      endpoints: [{ metrics: { waiting: 4 } }, { metrics: { waiting: 0 } }, { metrics: { waiting: 2 } }],
      plugins: [slow],
    });
    const [exchange] = ask(core);
    exchange.end("complete");
    const spans = await arrived(core);
    expect(new Set(tree(spans))).toEqual(
      new Set([
        "gateway.request < ",
        "gateway.request_orchestration < gateway.request",
        "run_scheduler_profile < gateway.request_orchestration",
        "filter_endpoints < run_scheduler_profile",
        "llm_d.epp.scoring < run_scheduler_profile",
        "llm_d.epp.scorer.queue-scorer < llm_d.epp.scoring",
        "llm_d.epp.scorer.slow-scorer < llm_d.epp.scoring",
        "pick_endpoints < run_scheduler_profile",
      ]),
    );
    const of = (name: string) => find(spans, name).attributes;
    expect(of("run_scheduler_profile")).toMatchObject({ "llm_d.epp.scheduling.profile.name": "only" });
    const filtered = of("filter_endpoints");
    expect(filtered["llm_d.epp.filter.candidate_endpoints"]).toBe(3);
    const left = filtered["llm_d.epp.filter.filtered_endpoints"];
    expect(of("llm_d.epp.scoring")).toMatchObject({
      "llm_d.epp.scorer.count": 2,
      "llm_d.epp.scoring.candidate_endpoints": left,
    });
    expect(of("llm_d.epp.scorer.queue-scorer")).toMatchObject({
      "llm_d.epp.scorer.type": "queue-scorer",
      "llm_d.epp.scorer.name": "queue-scorer",
      "llm_d.epp.scorer.weight": 2,
      "llm_d.epp.scorer.candidate_endpoints": left,
      "llm_d.epp.scorer.score.max": 1,
    });
    const picked = of("pick_endpoints");
    expect(picked).toMatchObject({ "llm_d.epp.picker.candidate_endpoints": left });
    expect((picked["llm_d.epp.picker.top_endpoints"] as string[])[0]).toBe("default/pod-2");
    const scores = picked["llm_d.epp.picker.top_scores"] as number[];
    expect([...scores].sort((a, b) => b - a)).toEqual(scores);
    const slept = find(spans, "llm_d.epp.scorer.slow-scorer");
    expect(slept.ended - slept.started).toBe(7);
    const profile = find(spans, "run_scheduler_profile");
    expect([profile.started <= slept.started, profile.ended >= slept.ended]).toEqual([true, true]);
  });

  it("shows the five best of many", async () => {
    const core = await tracedCore({ endpoints: 9 });
    const [exchange] = ask(core);
    exchange.end("complete");
    const { attributes } = find(await arrived(core), "pick_endpoints");
    expect((attributes["llm_d.epp.picker.top_endpoints"] as string[]).length).toBe(5);
    expect((attributes["llm_d.epp.picker.top_scores"] as number[]).length).toBe(5);
  });

  it("shows the stages of disaggregated serving, and where they are (scheduling 9.1)", async () => {
    const core = await tracedCore({
      config: `
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- { type: always-disagg-pd-decider }
- { type: disagg-profile-handler, parameters: { deciders: { prefill: always-disagg-pd-decider } } }
- { type: queue-scorer }
schedulingProfiles:
- { name: decode, plugins: [{ pluginRef: queue-scorer }] }
- { name: prefill, plugins: [{ pluginRef: queue-scorer }] }
`,
    });
    const [exchange, decision] = ask(core);
    exchange.end("complete");
    const spans = await arrived(core);
    expect(
      spans
        .filter(({ name }) => name === "pick_disagg_profile")
        .map(({ attributes }) => attributes["llm_d.epp.profile_handler.decision"]),
    ).toEqual(["run_decode", "run_prefill", "complete"]);
    const profiles = spans.filter(({ name }) => name === "run_scheduler_profile");
    expect(profiles.map(({ attributes }) => attributes["llm_d.epp.scheduling.profile.name"])).toEqual([
      "decode",
      "prefill",
    ]);
    const orchestration = find(spans, "gateway.request_orchestration").spanId;
    for (const name of ["pick_disagg_profile", "run_scheduler_profile", "prepare_disaggregation"])
      for (const span of spans) if (span.name === name) expect(span.parentId).toBe(orchestration);
    const [address, port] = (decision as Routed).headers!.get("x-prefiller-host-port")!.split(":");
    expect(find(spans, "prepare_disaggregation").attributes).toMatchObject({
      "llm_d.epp.pd.disaggregation_used": true,
      "llm_d.epp.pd.prefill_pod_address": address,
      "llm_d.epp.pd.prefill_pod_port": port,
      "llm_d.epp.encode.disaggregation_used": false,
      "llm_d.epp.encode.reason": "no_encode_profile_result",
    });
  });

  it("has no inner spans without a body, and hands itself on all the same", async () => {
    const core = await tracedCore();
    const exchange = core.openExchange(WIRE);
    const decision = exchange.requestHeaders(HeaderList.of([[":path", "/v1/models"], ...parent()]), true)!;
    answer(exchange);
    const [request, ...others] = await arrived(core);
    expect(others).toEqual([]);
    expect(carried(decision)).toEqual({ traceparent: `00-${TRACE}-${request!.spanId}-01` });
  });
});

describe("sampling", () => {
  it("of no trace costs no span, and what the client decided goes on (scheduling 9.1)", async () => {
    const core = await tracedCore({}, "0");
    const [own, ownDecision] = ask(core);
    const [unwanted, unwantedDecision] = ask(core, parent("00"));
    const [wanted] = ask(core, parent("01"));
    for (const exchange of [own, unwanted, wanted]) answer(exchange);
    const spans = await arrived(core);
    expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([TRACE]));
    expect(find(spans, "gateway.request").parentId).toBe(CLIENT);
    expect(carried(ownDecision)["traceparent"]).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
    expect(carried(unwantedDecision)["traceparent"]).toMatch(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-00$`));
  });

  it("of every trace sees those that begin here", async () => {
    const core = await tracedCore();
    for (let i = 0; i < 5; i++) ask(core)[0].end("complete");
    const spans = await arrived(core);
    expect(spans.filter(({ name, parentId }) => name === "gateway.request" && parentId === "").length).toBe(5);
  });
});

describe("a failure", () => {
  it("of a refused request is in both spans, as the metrics count it", async () => {
    const core = await tracedCore({ endpoints: 0 });
    const [exchange, decision] = ask(core, parent());
    exchange.end("rejected");
    expect(decision).toBeInstanceOf(Rejection);
    const spans = await arrived(core);
    expect(tree(spans)).toEqual(["gateway.request_orchestration < gateway.request", `gateway.request < ${CLIENT}`]);
    expect(spans.map(({ error }) => error)).toEqual(["ServiceUnavailable", "ServiceUnavailable"]);
    expect(find(spans, "gateway.request_orchestration").attributes).toMatchObject({ target_model: "llama" });
    expect(find(spans, "gateway.request").attributes["sluice.end_cause"]).toBe("rejected");
  });

  it("of a request that cannot be understood names no model", async () => {
    const core = await tracedCore();
    const [exchange] = ask(core, [], `{"model": ${JSON.stringify(SECRET)}`);
    exchange.end("rejected");
    const spans = await arrived(core);
    expect(spans.map(({ name, error }) => [name, error])).toEqual([
      ["gateway.request_orchestration", "BadRequest"],
      ["gateway.request", "BadRequest"],
    ]);
    expect(JSON.stringify(spans)).not.toContain(SECRET);
  });

  it("of a body that is too large is there without a decision", async () => {
    const core = await tracedCore({ maxRequestBytes: 10 });
    const [exchange] = ask(core);
    exchange.end("rejected");
    expect((await arrived(core)).map(({ name, error }) => [name, error])).toEqual([
      ["gateway.request", "PayloadTooLarge"],
    ]);
  });

  const ends: readonly (readonly [
    string,
    (exchange: InferenceExchange) => void,
    string,
    string | undefined,
    unknown,
  ])[] = [
    ["of the model server", (exchange) => answer(exchange, 500), "complete", "ModelServerError", 500],
    ["of our own", (exchange) => exchange.end("error"), "error", "Internal", undefined],
    ["in the middle of an answer", (exchange) => exchange.end("interrupted"), "interrupted", "Interrupted", undefined],
    ["of a client to wait is none", (exchange) => exchange.end("client-gone"), "client-gone", undefined, undefined],
  ];
  it.each(ends)("%s", async (_name, end, cause, error, status) => {
    const core = await tracedCore();
    const [exchange] = ask(core);
    end(exchange);
    exchange.end("error");
    const span = find(await arrived(core), "gateway.request");
    expect([span.attributes["sluice.end_cause"], span.error]).toEqual([cause, error]);
    expect(span.attributes["http.response.status_code"]).toBe(status);
  });
});

describe("what clients send", () => {
  it("of a trace that cannot be read begins another one; its state is left out, its baggage goes on", async () => {
    const core = await tracedCore();
    const state = ["tracestate", "vendor=1"] as const;
    const baggage = ["baggage", "tenant=red"] as const;
    for (const pairs of [
      [["traceparent", "garbage"], state, baggage],
      [...parent(), ...parent(), state, baggage],
    ] as const) {
      const [exchange, decision] = ask(core, pairs);
      exchange.end("complete");
      const { removed } = decision as Routed;
      expect(removed).toEqual(["tracestate"]);
      expect(carried(decision)).toEqual({ traceparent: expect.not.stringContaining(TRACE), baggage: "tenant=red" });
    }
    expect((await arrived(core)).filter(({ name }) => name === "gateway.request").map((span) => span.parentId)).toEqual(
      ["", ""],
    );
  });

  it("as names and ids is in spans up to 256 characters (bound)", async () => {
    const core = await tracedCore();
    const long = "n".repeat(100_000);
    const [exchange] = ask(
      core,
      [["x-request-id", long]],
      JSON.stringify({ model: long, prompt: "p" }),
      "/v1/completions",
    );
    exchange.end("complete");
    const { attributes } = find(await arrived(core), "gateway.request_orchestration");
    expect([attributes["target_model"], attributes["gen_ai.request.id"]]).toEqual([
      long.slice(0, 256),
      long.slice(0, 256),
    ]);
  });

  it("in a flood leaves no more spans to wait than there is room for (bound)", async () => {
    const core = await tracedCore();
    for (let i = 0; i < 2_000; i++) ask(core, parent())[0].end("complete");
    const spans = await arrived(core);
    expect(spans.length).toBeGreaterThanOrEqual(2048);
    expect(spans.length).toBeLessThanOrEqual(2048 + 512);
  });
});

describe("without tracing", () => {
  it("nothing is added to the request, and nothing of it left out", () => {
    const [exchange, decision] = ask(new TestCore(), [...parent(), ["tracestate", "vendor=1"]]);
    exchange.end("complete");
    expect(decision).toMatchObject({ kind: "routed", headers: undefined });
    expect((decision as Routed).trace).toBeUndefined();
    expect((decision as Routed).removed).toBeUndefined();
  });
});

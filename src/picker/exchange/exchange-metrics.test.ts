import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { chatBody } from "../../../test/support/session-harness.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";

const WIRE = { pauseRequest() {}, resumeRequest() {}, evict() {} };
const SSE = HeaderList.of([["content-type", "text/event-stream"]]);
const JSON_TYPE = HeaderList.of([["content-type", "application/json"]]);
const M4 = { model_name: "llama", target_model_name: "llama", fairness_id: "default-flow", priority: "0" };

/** A routed exchange whose headers came at monotonic 0, the decision at once. */
function routed(core: TestCore, more: Record<string, unknown> = {}, ...pairs: (readonly [string, string])[]) {
  const exchange = core.openExchange(WIRE);
  exchange.requestHeaders(HeaderList.of([[":path", "/v1/chat/completions"], ...pairs]), false);
  exchange.requestBody(Buffer.from(chatBody("hello", more)), true);
  exchange.releaseBody();
  return exchange;
}

const usage = (completion: number) =>
  `"usage":{"prompt_tokens":7,"completion_tokens":${completion},"total_tokens":${7 + completion},"prompt_tokens_details":{"cached_tokens":0}}`;

/** Sum and number of a histogram under its canonical name. */
function histogram(core: TestCore, name: string, labels: Record<string, string> = M4): [sum: number, count: number] {
  const sum = core.total(`llm_d_epp_${name}_sum`, labels);
  return [Math.round(sum * 1e9) / 1e9, core.total(`llm_d_epp_${name}_count`, labels)];
}

describe("a stream (S-91)", () => {
  it("of ten chunks and 11 output tokens: TTFT at chunk 1, TPOT the rest by 10, 9 ITL, NTPOT the whole by 11", () => {
    const core = new TestCore();
    const exchange = routed(core, { stream: true });
    core.clock.advance(150);
    exchange.responseHeaders(200, SSE, false);
    core.clock.advance(50);
    for (let i = 0; i < 9; i++) {
      exchange.responseBody(Buffer.from(`data: {"n":${i}}\n\n`), false);
      core.clock.advance(100);
    }
    exchange.responseBody(Buffer.from(`data: {${usage(11)}}\n\ndata: [DONE]\n\n`), false);
    core.clock.advance(100);
    exchange.responseBody(Buffer.alloc(0), true);
    expect(histogram(core, "request_ttft_seconds", { ...M4, streaming: "true" })).toEqual([0.2, 1]);
    expect(histogram(core, "request_ttft_seconds", { ...M4, streaming: "false" })).toEqual([0, 0]);
    expect(histogram(core, "request_duration_seconds")).toEqual([1.2, 1]);
    expect(histogram(core, "request_streaming_tpot_seconds")).toEqual([0.1, 1]);
    expect(histogram(core, "request_streaming_itl_seconds")).toEqual([0.9, 9]);
    expect(histogram(core, "request_ntpot_seconds")).toEqual([Math.round((1.2 / 11) * 1e9) / 1e9, 1]);
    expect(histogram(core, "request_input_tokens")).toEqual([7, 1]);
    expect(histogram(core, "request_output_tokens")).toEqual([11, 1]);
    expect(histogram(core, "request_cached_tokens")).toEqual([0, 1]);
  });

  it("counts the distance of chunks of one moment, too (scheduling 8.3(9))", () => {
    const core = new TestCore();
    const exchange = routed(core, { stream: true });
    exchange.responseHeaders(200, SSE, false);
    for (let i = 0; i < 3; i++) exchange.responseBody(Buffer.from("data: {}\n\n"), false);
    exchange.responseBody(Buffer.alloc(0), true);
    expect(histogram(core, "request_streaming_itl_seconds")).toEqual([0, 2]);
  });

  it("counts each of the chunks that came together in one piece", () => {
    const core = new TestCore();
    const exchange = routed(core, { stream: true });
    exchange.responseHeaders(200, SSE, false);
    exchange.responseBody(Buffer.from("data: {}\n\ndata: {}\n\n"), false, 2);
    core.clock.advance(10);
    exchange.responseBody(Buffer.from("data: {}\n\ndata: {}\n\ndata: {}\n\n"), false, 3);
    exchange.responseBody(Buffer.alloc(0), true);
    expect(histogram(core, "request_streaming_itl_seconds")).toEqual([0.01, 4]);
  });

  it("is one by its content type alone, and of one token has no TPOT (scheduling 8.3(6) and 8.3(8))", () => {
    const core = new TestCore();
    const exchange = routed(core);
    core.clock.advance(10);
    exchange.responseHeaders(200, SSE, false);
    exchange.responseBody(Buffer.from(`data: {${usage(1)}}\n\n`), true);
    expect(histogram(core, "request_ttft_seconds", { streaming: "true" })).toEqual([0.01, 1]);
    expect(histogram(core, "request_streaming_tpot_seconds")).toEqual([0, 0]);
  });

  it("without usage has times and no tokens (scheduling 8.3(11))", () => {
    const core = new TestCore();
    const exchange = routed(core, { stream: true });
    core.clock.advance(10);
    exchange.responseHeaders(200, SSE, false);
    exchange.responseBody(Buffer.from("data: {}\n\ndata: [DONE]\n\n"), true);
    for (const name of [
      "request_input_tokens",
      "request_output_tokens",
      "request_cached_tokens",
      "request_ntpot_seconds",
    ])
      expect(histogram(core, name), name).toEqual([0, 0]);
    expect(histogram(core, "request_duration_seconds")).toEqual([0.01, 1]);
  });
});

describe("an answer in one piece (S-92)", () => {
  it("has a TTFT that is the whole duration, no TPOT and no ITL", () => {
    const core = new TestCore();
    const exchange = routed(core);
    core.clock.advance(100);
    exchange.responseHeaders(200, JSON_TYPE, false);
    exchange.responseBody(Buffer.from(`{"object":"chat.completion",`), false);
    core.clock.advance(300);
    exchange.responseBody(Buffer.from(`${usage(4)}}`), true);
    expect(histogram(core, "request_ttft_seconds", { ...M4, streaming: "false" })).toEqual([0.4, 1]);
    expect(histogram(core, "request_duration_seconds")).toEqual([0.4, 1]);
    expect(histogram(core, "request_ntpot_seconds")).toEqual([0.1, 1]);
    for (const name of ["request_streaming_tpot_seconds", "request_streaming_itl_seconds"])
      expect(core.total(`llm_d_epp_${name}_count`), name).toBe(0);
  });

  it("counts its bytes, and those of the request, under every name (S-90, scheduling 8.3(1) and 8.3(5))", () => {
    const core = new TestCore();
    const exchange = routed(core);
    exchange.responseHeaders(200, JSON_TYPE, false);
    exchange.responseBody(Buffer.alloc(300, 0x20), false);
    exchange.responseBody(Buffer.alloc(41, 0x20), true);
    const size = chatBody().length;
    const samples = core.samples();
    const m = 'model_name="llama",target_model_name="llama"';
    for (const [name, value] of [
      [`llm_d_epp_request_size_bytes_sum{${m},fairness_id="default-flow",priority="0"}`, size],
      [`llm_d_epp_response_size_bytes_sum{${m},fairness_id="default-flow",priority="0"}`, 341],
      [`inference_objective_request_sizes_sum{${m}}`, size],
      [`inference_model_request_sizes_sum{${m}}`, size],
      [`inference_objective_response_sizes_sum{${m}}`, 341],
      [`inference_objective_request_total{${m},priority="0"}`, 1],
      [`inference_model_request_total{${m}}`, 1],
    ] as const)
      expect(samples.get(name), name).toBe(value);
  });
});

describe("requests in flight (scheduling 8.3(3))", () => {
  it("rise with the decision and fall with the end, whatever it is", () => {
    const core = new TestCore({ objectives: ["gold=5"] });
    const exchanges = [1, 2, 3].map(() => routed(core, {}, ["x-llm-d-inference-objective", "gold"]));
    const gold = { ...M4, priority: "5" };
    expect(core.total("llm_d_epp_request_running", gold)).toBe(3);
    expect(core.total("inference_objective_running_requests", { model_name: "llama" })).toBe(3);
    exchanges[0]!.end("client-gone");
    exchanges[1]!.end("error");
    exchanges[2]!.responseHeaders(204, new HeaderList(), true);
    expect(core.total("llm_d_epp_request_running", gold)).toBe(0);
    expect(core.total("llm_d_epp_request_total", gold)).toBe(3);
  });
});

describe("errors (scheduling 8.3(2))", () => {
  const codes = (core: TestCore) =>
    [...core.samples()]
      .filter(([name]) => name.startsWith("llm_d_epp_request_error_total{"))
      .map(([name, value]) => `${/error_code="(\w+)"/.exec(name)?.[1]} ${value}`);

  it("count once per exchange, and what the model server said wins (E-96)", () => {
    const core = new TestCore();
    const exchange = routed(core);
    exchange.responseHeaders(500, JSON_TYPE, false);
    exchange.end("rejected", new Rejection("not_supported", "HTTP trailers are not supported yet"));
    expect(codes(core)).toEqual(["ModelServerError 1"]);
  });

  it("of our own have their code; an end for want of a client has none", () => {
    const core = new TestCore();
    routed(core).end("error");
    routed(core).end("client-gone");
    routed(core).end("no-response-phase");
    expect(codes(core)).toEqual(["Internal 1"]);
  });

  it("of requests that were not understood carry no names (scheduling 8.3(12))", () => {
    const core = new TestCore();
    const exchange = core.openExchange(WIRE);
    exchange.requestHeaders(HeaderList.of([[":path", "/v1/chat/completions"]]), false);
    exchange.requestBody(Buffer.from("{"), true);
    exchange.end("rejected");
    expect(core.total("llm_d_epp_request_error_total", { model_name: "", error_code: "BadRequest" })).toBe(1);
    expect(core.total("llm_d_epp_request_total")).toBe(0);
  });
});

describe("the bounds", () => {
  it("hold 1,000 model names and 1,000 fairness IDs; more become other (scheduling 8.1)", () => {
    const core = new TestCore();
    for (let i = 0; i < 1005; i++)
      routed(core, { model: `m${i}` }, ["x-llm-d-inference-fairness-id", `f${i}`]).end("client-gone");
    expect(core.total("llm_d_epp_request_total", { model_name: "m999" })).toBe(1);
    expect(core.total("llm_d_epp_request_total", { model_name: "m1000" })).toBe(0);
    expect(
      core.total("llm_d_epp_request_total", { model_name: "other", target_model_name: "other", fairness_id: "other" }),
    ).toBe(5);
  });

  it("of kept series do not lose counts when they are reached", () => {
    const core = new TestCore({ objectives: Array.from({ length: 50 }, (_, i) => `o${i}=${i}`) });
    for (let round = 0; round < 2; round++)
      for (let i = 0; i < 4200; i++)
        routed(core, { model: `m${i % 84}` }, ["x-llm-d-inference-objective", `o${Math.floor(i / 84)}`]).end(
          "client-gone",
        );
    expect(core.total("llm_d_epp_request_total")).toBe(8400);
    expect(core.total("llm_d_epp_request_running")).toBe(0);
  });
});

import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { madePool } from "../../../test/support/resources/made.cases.ts";
import { chatBody } from "../../../test/support/session-harness.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { ResourceStore } from "../../pool/resources/resource-store.ts";
import type { InferenceExchange } from "./exchange.ts";
import type { Decision, Routed } from "./wire.ts";

class FakeWire {
  paused = false;
  pauseRequest(): void {
    this.paused = true;
  }
  resumeRequest(): void {
    this.paused = false;
  }

  evict(): void {}
}

const HEADERS = [[":path", "/v1/chat/completions"]] as const;
const headers = (...more: (readonly [string, string])[]) => HeaderList.of([...HEADERS, ...more]);
const open = (core: TestCore, wire = new FakeWire()) => core.openExchange(wire);

function decide(core: TestCore, body: string, ...more: (readonly [string, string])[]): Decision {
  const exchange = open(core);
  expect(exchange.requestHeaders(headers(...more), false)).toBeUndefined();
  return exchange.requestBody(Buffer.from(body), true) as Decision;
}

/** An exchange that was routed, and where to. */
function routed(core: TestCore, body = chatBody()): { exchange: InferenceExchange; route: Routed } {
  const exchange = open(core);
  exchange.requestHeaders(headers(), false);
  const route = exchange.requestBody(Buffer.from(body), true) as Routed;
  expect(route.kind).toBe("routed");
  return { exchange, route };
}

const reasonOf = (decision: Decision | undefined) => (decision instanceof Rejection ? decision.reason : undefined);

describe("the order of failures (epp-protocol 9.3)", () => {
  const SATURATED = { metrics: { waiting: 500 } };
  const batch = ["x-llm-d-inference-objective", "batch"] as const;
  const options = { objectives: ["batch=-1"] };

  it("is parse, model, candidates, admission", () => {
    const resources = new ResourceStore();
    resources.replace([madePool()]);
    const strict = new TestCore({ endpoints: 0, models: { resources, matching: "enforce" }, ...options });
    const empty = new TestCore({ endpoints: 0, ...options });
    const full = new TestCore({ endpoints: [SATURATED], ...options });
    expect(reasonOf(decide(strict, "{", batch))).toBe("bad_request");
    expect(reasonOf(decide(strict, '{"messages":[{}]}', batch))).toBe("model_missing");
    expect(reasonOf(decide(strict, chatBody(), batch))).toBe("unknown_model");
    expect(reasonOf(decide(empty, chatBody(), batch))).toBe("no_endpoints");
    expect(reasonOf(decide(full, chatBody(), batch))).toBe("saturated");
    expect(reasonOf(decide(full, chatBody()))).toBeUndefined();
  });

  it("asks the saturation of the hinted candidates alone", () => {
    const core = new TestCore({ endpoints: [SATURATED, { metrics: {} }], ...options });
    const exchange = open(core);
    exchange.requestHeaders(headers(batch), false, [{ address: "10.0.0.1", port: 8000 }]);
    expect(reasonOf(exchange.requestBody(Buffer.from(chatBody()), true) as Decision)).toBe("saturated");
  });
});

describe("a second set of request headers", () => {
  it("opens no second attempt behind a decision: what is in flight stays one and is given back", () => {
    const core = new TestCore();
    const { exchange } = routed(core);
    for (const end of [true, false]) expect(exchange.requestHeaders(headers(), end)).toBeUndefined();
    expect(core.inFlight).toBe(1);
    exchange.end("client-gone");
    expect(core.inFlight).toBe(0);
  });
});

describe("the size of a request", () => {
  it("is refused by its declared length before a byte is read", () => {
    const core = new TestCore({ maxRequestBytes: 50 });
    expect(reasonOf(open(core).requestHeaders(headers(["content-length", "51"]), false))).toBe("too_large");
    expect(open(core).requestHeaders(headers(["content-length", "50"]), false)).toBeUndefined();
    expect(open(core).requestHeaders(headers(["content-length", "nonsense"]), false)).toBeUndefined();
  });

  it("is refused by what arrives, whatever was declared, and exactly the limit is taken", () => {
    const body = chatBody();
    const options = { maxRequestBytes: body.length };
    expect(reasonOf(decide(new TestCore(options), body, ["content-length", "1"]))).toBeUndefined();
    const core = new TestCore(options);
    const exchange = open(core);
    exchange.requestHeaders(headers(["content-length", "1"]), false);
    expect(exchange.requestBody(Buffer.alloc(body.length), false)).toBeUndefined();
    expect(reasonOf(exchange.requestBody(Buffer.alloc(1), false) as Decision)).toBe("too_large");
    expect(core.budget.used).toBe(0);
    expect(exchange.requestBody(Buffer.alloc(1), true)).toBeUndefined();
  });
});

describe("the byte budget of an exchange", () => {
  it("pauses the reader when it is spent and lets it go on when bytes come back", () => {
    const core = new TestCore({ budget: 100 });
    const [first, second] = [new FakeWire(), new FakeWire()];
    const [a, b] = [open(core, first), open(core, second)];
    for (const exchange of [a, b]) exchange.requestHeaders(headers(), false);
    a.requestBody(Buffer.alloc(80, 0x20), false);
    b.requestBody(Buffer.alloc(40, 0x20), false);
    expect([first.paused, second.paused]).toEqual([false, true]);
    a.requestBody(Buffer.from(chatBody()), true);
    expect(second.paused).toBe(true);
    a.releaseBody();
    expect(second.paused).toBe(false);
    b.end("client-gone");
    expect(core.budget.used).toBe(0);
  });

  it("is not used by what is only passed on", () => {
    const core = new TestCore({ budget: 10_000_000 });
    const sse = routed(core).exchange;
    sse.releaseBody();
    sse.responseHeaders(200, HeaderList.of([["content-type", "text/event-stream"]]), false);
    sse.responseBody(Buffer.alloc(1000), false);
    expect([core.budget.used, sse.holdsResponse, sse.streaming]).toEqual([0, false, true]);
    const large = routed(core).exchange;
    large.releaseBody();
    large.responseHeaders(200, HeaderList.of([["content-type", "application/json"]]), false);
    large.responseBody(Buffer.alloc(4 * 1024 * 1024), false);
    expect([core.budget.used, large.holdsResponse]).toEqual([4 * 1024 * 1024, true]);
    large.responseBody(Buffer.alloc(1), false);
    expect([core.budget.used, large.holdsResponse]).toEqual([0, false]);
    large.responseBody(Buffer.alloc(1000), false);
    expect(core.budget.used).toBe(0);
  });

  it("is used by a streamed answer that is no event stream, because its usage is kept for", () => {
    const core = new TestCore();
    const { exchange } = routed(core, chatBody("x", { stream: true }));
    exchange.releaseBody();
    exchange.responseHeaders(200, HeaderList.of([["content-type", "application/json"]]), false);
    exchange.responseBody(Buffer.alloc(1000), false);
    expect(core.budget.used).toBe(1000);
    exchange.responseBody(Buffer.alloc(0), true);
    expect(core.budget.used).toBe(0);
  });
});

describe("attempts", () => {
  it("walk down the list, each endpoint once, and take the in-flight count along", () => {
    const core = new TestCore({ endpoints: [0, 5, 9].map((waiting) => ({ metrics: { waiting } })) });
    const { exchange, route } = routed(core);
    expect(route.endpoints.map((endpoint) => endpoint.name)).toEqual(["pod-1", "pod-2", "pod-3"]);
    const counts = () => core.endpoints.list().map((endpoint) => endpoint.inFlight.requests);
    expect(counts()).toEqual([1, 0, 0]);
    expect(exchange.attemptFailed(route.endpoints[0]!, "connect", "refused")).toBe(route.endpoints[1]);
    expect(counts()).toEqual([0, 1, 0]);
    expect(core.endpoint(1).state).toBe("down");
    expect(exchange.attemptFailed(route.endpoints[1]!, "status", "answered 503")).toBe(route.endpoints[2]);
    expect(counts()).toEqual([0, 0, 1]);
    expect(core.endpoint(2).state).toBe("up");
    const last = exchange.attemptFailed(route.endpoints[2]!, "reset", "reset by peer");
    expect(last).toBeInstanceOf(Rejection);
    expect(route.record?.served).toBe("nobody");
    expect((last as Rejection).text).toBe(
      "inference error: ServiceUnavailable - no endpoint answered; the last attempt was at 10.0.0.3:8000: reset by peer",
    );
    exchange.end("rejected");
    expect(counts()).toEqual([0, 0, 0]);
    expect(core.total("llm_d_epp_request_error_total", { error_code: "ServiceUnavailable", model_name: "llama" })).toBe(
      1,
    );
  });

  it("leave out an endpoint that went down meanwhile", () => {
    const core = new TestCore({ endpoints: [0, 5, 9].map((waiting) => ({ metrics: { waiting } })) });
    const { exchange, route } = routed(core);
    core.endpoints.attemptFailed(core.endpoint(2), "connect", "seen by another request");
    expect(exchange.attemptFailed(route.endpoints[0]!, "connect", "refused")).toBe(core.endpoint(3));
  });

  it("that fail for a request without a body move on, too, and count nothing in flight", () => {
    const core = new TestCore({ endpoints: 2 });
    const exchange = open(core);
    const route = exchange.requestHeaders(HeaderList.of([[":path", "/v1/models"]]), true) as Routed;
    const other = exchange.attemptFailed(route.endpoints[0]!, "timeout", "slow");
    expect(other).toBe(route.endpoints[1]);
    expect(core.inFlight).toBe(0);
  });

  it("that were answered are no error, whatever failed before", () => {
    const core = new TestCore({ endpoints: 2 });
    const { exchange, route } = routed(core);
    exchange.attemptFailed(route.endpoints[0]!, "connect", "refused");
    exchange.responseHeaders(200, new HeaderList(), false);
    exchange.responseBody(Buffer.from("{}"), true);
    const { id, hostPort } = core.endpoint(2);
    expect(route.record?.served).toEqual({ id, hostPort });
    expect(core.total("llm_d_epp_request_error_total")).toBe(0);
    expect(core.total("sluice_exchanges_total", { outcome: "complete" })).toBe(1);
  });

  it("follow the report of who served, and give the prompt's tokens back with the first byte", () => {
    const core = new TestCore({ endpoints: [0, 5].map((waiting) => ({ metrics: { waiting } })) });
    const { exchange } = routed(core, chatBody("word ".repeat(200)));
    const { tokens } = core.endpoint(1).inFlight;
    expect(tokens).toBeGreaterThan(100);
    exchange.servedBy("10.0.0.2:8000");
    expect([core.endpoint(1).inFlight, core.endpoint(2).inFlight]).toEqual([
      { requests: 0, tokens: 0 },
      { requests: 1, tokens },
    ]);
    exchange.responseHeaders(200, new HeaderList(), false);
    exchange.responseBody(Buffer.alloc(0), false);
    expect(core.endpoint(2).inFlight.tokens).toBe(tokens);
    exchange.responseBody(Buffer.from("x"), false);
    expect(core.endpoint(2).inFlight).toEqual({ requests: 1, tokens: 0 });
    exchange.end("client-gone");
    expect(core.inFlight).toBe(0);
  });
});

describe("Envoy's own answer (D-85)", () => {
  const answer = (status: number, type: string, text: string, served?: string) => {
    const core = new TestCore({ endpoints: 1 });
    const { exchange } = routed(core);
    if (served !== undefined) exchange.servedBy(served);
    exchange.responseHeaders(status, HeaderList.of([["content-type", type]]), false);
    expect(exchange.responseBody(Buffer.from(text), true).toString()).toBe(text);
    const errors = ["ModelServerError", "ServiceUnavailable"].map((code) =>
      core.total("llm_d_epp_request_error_total", { error_code: code }),
    );
    return [core.endpoint(1).state, ...errors];
  };

  it.each([
    ["a refused connection", 503, "text/plain", "upstream connect error or disconnect", undefined, ["down", 0, 1]],
    ["no healthy upstream", 503, "text/plain; charset=utf-8", "no healthy upstream", undefined, ["down", 0, 1]],
    ["another status", 500, "text/plain", "no healthy upstream", undefined, ["up", 1, 0]],
    ["another type", 503, "application/json", "no healthy upstream", undefined, ["up", 1, 0]],
    ["another text", 503, "text/plain", "overloaded", undefined, ["up", 1, 0]],
    ["an endpoint that served", 503, "text/plain", "no healthy upstream", "10.0.0.1:8000", ["up", 1, 0]],
  ] as const)("%s", (_, status, type, text, served, expected) => {
    expect(answer(status, type, text, served)).toEqual(expected);
  });
});

describe("the end of an exchange", () => {
  it("counts once, whoever says so again (E-70, E-96)", () => {
    const core = new TestCore();
    const { exchange } = routed(core);
    exchange.end("client-gone");
    exchange.end("error");
    exchange.end("rejected", new Rejection("internal", "late"));
    exchange.responseHeaders(500, new HeaderList(), true);
    exchange.responseBody(Buffer.from("late"), true);
    expect(core.total("sluice_exchanges_total")).toBe(1);
    expect(core.total("sluice_exchanges_total", { outcome: "client-gone" })).toBe(1);
    expect(core.total("llm_d_epp_request_error_total")).toBe(0);
    expect(core.total("llm_d_epp_request_running")).toBe(0);
    expect(core.inFlight).toBe(0);
  });

  it("counts what the wire itself refused", () => {
    const core = new TestCore();
    open(core).end("rejected", new Rejection("not_supported", "trailers"));
    expect(core.total("llm_d_epp_request_error_total", { error_code: "NotImplemented" })).toBe(1);
  });

  it("of a response that breaks off is no completion, and its books are closed", () => {
    const core = new TestCore();
    const { exchange } = routed(core);
    core.clock.advance(5);
    exchange.responseHeaders(200, new HeaderList(), false);
    exchange.responseBody(Buffer.from('{"usage":{"prompt_tokens":1}}'), false);
    exchange.end("interrupted");
    expect(core.total("sluice_exchanges_total", { outcome: "interrupted" })).toBe(1);
    expect(core.total("llm_d_epp_request_duration_seconds_count")).toBe(0);
    expect(core.total("llm_d_epp_request_input_tokens_count")).toBe(0);
    expect([core.inFlight, core.budget.used]).toEqual([0, 0]);
  });
});

describe("a decision", () => {
  it("forwards the received bytes, by reference when they came in one piece", () => {
    const core = new TestCore();
    const exchange = open(core);
    const body = Buffer.from(chatBody());
    exchange.requestHeaders(headers(), false);
    const route = exchange.requestBody(body, true) as Routed;
    expect(route.body[0]).toBe(body);
    expect(route.bodyLength).toBe(body.length);
    expect(route.record?.model).toBe("llama");
  });

  it("names the request by its header, else by a UUID", () => {
    const core = new TestCore();
    const named = open(core);
    named.requestHeaders(headers(["x-request-id", "abc"]), false);
    expect([named.requestId, named.requestIdGenerated]).toEqual(["abc", false]);
    const other = open(core);
    other.requestHeaders(headers(), false);
    expect(other.requestId).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4/);
    expect(other.requestIdGenerated).toBe(true);
  });
});

describe("who really served", () => {
  const LIST = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: prefix-cache-scorer
- type: max-score-picker
  parameters: { maxNumOfEndpoints: 3 }
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: prefix-cache-scorer
  - pluginRef: max-score-picker
`;
  const prompt = chatBody("a long prompt ".repeat(200));

  it("E-76: has the prompt in its prefix cache from then on, and the running request", () => {
    const core = new TestCore({ config: LIST });
    const { exchange, route } = routed(core, prompt);
    exchange.releaseBody();
    const other = route.endpoints[1]!;
    exchange.servedBy(other.hostPort);
    expect([route.endpoints[0]!.inFlight.requests, other.inFlight.requests]).toEqual([0, 1]);
    answer(exchange);
    // Both are believed to hold it now: one of the two is picked, the third never.
    const third = route.endpoints[2]!;
    for (let i = 0; i < 20; i++) {
      const next = routed(core, prompt);
      expect(next.route.endpoints[0]).not.toBe(third);
      expect(next.route.endpoints[2]).toBe(third);
      next.exchange.end("complete");
    }
  });

  it("E-48: the totals of all candidates are given on request only", () => {
    expect(routed(new TestCore()).route.scores).toBeUndefined();
    const scores = routed(new TestCore({ emitScores: true })).route.scores!;
    expect(Object.keys(scores).sort()).toEqual(["10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"]);
    for (const score of Object.values(scores)) expect(score).toBeGreaterThanOrEqual(0);
  });

  it("is told of, and changes nothing, when it is none of the pool (epp-protocol 8)", () => {
    const core = new TestCore();
    const { exchange, route } = routed(core);
    exchange.servedBy("1.2.3.4:5");
    exchange.servedBy(`x\n${"y".repeat(5000)}`);
    expect(core.strangers.map((text) => text.slice(0, 9))).toEqual(["1.2.3.4:5", "x yyyyyyy"]);
    expect(core.strangers[1]!.length).toBe(1024);
    expect(route.endpoints[0]!.inFlight.requests).toBe(1);
    exchange.end("complete");
    expect(core.inFlight).toBe(0);
  });

  it("one that has left the pool meanwhile teaches the prefix cache nothing about who took its place", () => {
    const core = new TestCore({ retries: true });
    const { exchange, route } = routed(core, prompt);
    const [first, second] = route.endpoints;
    core.endpoints.remove(second!.id);
    const spec = { namespace: "default", name: "newcomer", address: "10.0.0.9", port: 8000, rank: 0, labels: {} };
    const newcomer = core.endpoints.upsert(spec)!;
    expect(newcomer.slot).toBe(second!.slot);
    expect(exchange.attemptFailed(first!, "reset", "gone")).toBe(second);
    answer(exchange);
    expect(prefixScores(core)[newcomer.id]).toBe(0);
  });

  it("is learnt from who answered: attempts that failed on the way teach nothing", () => {
    const core = new TestCore({ retries: true });
    const { exchange, route } = routed(core, prompt);
    const [first, second, third] = route.endpoints;
    expect(exchange.attemptFailed(first!, "status", "HTTP 503")).toBe(second);
    expect(exchange.attemptFailed(second!, "status", "HTTP 503")).toBe(third);
    answer(exchange);
    const scores = prefixScores(core);
    expect([scores[second!.id], scores[third!.id]]).toEqual([0, 1]);
  });

  /** What each endpoint is believed to hold of the prompt, by id. */
  function prefixScores(core: TestCore): Record<string, number> {
    const { top, scorers } = routed(core, prompt).route.record!;
    const prefix = scorers.findIndex(({ name }) => name === "prefix-cache-scorer");
    return Object.fromEntries(top.map(({ id, scores }) => [id, scores[prefix]!]));
  }

  function answer(exchange: InferenceExchange): void {
    exchange.responseHeaders(204, new HeaderList(), true);
  }
});

describe("compressed answers", () => {
  it("are passed on unread and unchanged", () => {
    const core = new TestCore();
    const { exchange } = routed(core);
    exchange.responseHeaders(
      200,
      HeaderList.of([
        ["content-type", "application/json"],
        ["content-encoding", "gzip"],
      ]),
      false,
    );
    expect([exchange.holdsResponse, exchange.rewritesResponse]).toEqual([false, false]);
    const chunk = Buffer.from('{"usage":{"prompt_tokens":7}}');
    expect(exchange.responseBody(chunk, true)).toBe(chunk);
    expect(core.total("inference_extension_input_tokens_count")).toBe(0);
  });
});

describe("a rewritten model's name", () => {
  const answered = (model: string): Uint8Array => {
    const exchange = open(new TestCore());
    exchange.requestHeaders(headers(["x-llm-d-model-name-rewrite", "small"]), false);
    exchange.requestBody(Buffer.from(`{"model":"${model}","messages":[{"role":"user","content":"x"}]}`), true);
    exchange.responseHeaders(200, HeaderList.of([["content-type", "text/event-stream"]]), false);
    return exchange.responseBody(Buffer.from('data: {"model":"small"}\n\n'), false);
  };

  it("is put back up to 1,024 characters: one of a megabyte would stand in every event", () => {
    const longest = "x".repeat(1024);
    expect(Buffer.from(answered(longest)).toString()).toBe(`data: {"model":"${longest}"}\n\n`);
    expect(Buffer.from(answered(`${longest}x`)).toString()).toBe('data: {"model":"small"}\n\n');
  });
});

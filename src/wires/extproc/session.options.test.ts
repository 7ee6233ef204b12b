import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { fromStruct } from "../../../test/support/extproc-client.ts";
import {
  chatBody,
  type HarnessOptions,
  headersOf,
  keysOf,
  SessionHarness,
} from "../../../test/support/session-harness.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { DEFAULT_WIRE_OPTIONS } from "./wire-options.ts";

const POST = [
  [":method", "POST"],
  [":path", "/v1/chat/completions"],
] as const;
const DESTINATION = "x-gateway-destination-endpoint";
const open = (options: HarnessOptions = {}, core: ConstructorParameters<typeof TestCore>[0] = {}) =>
  new SessionHarness(new TestCore(core), options);
/** Headers and metadata of the reply that names the destination. */
const picked = (options: HarnessOptions) => {
  const h = open(options).post(chatBody());
  const [reply] = h.take();
  return {
    h,
    headers: headersOf(reply.requestHeaders.response.headerMutation),
    metadata: fromStruct(reply.dynamicMetadata),
  };
};

describe("the destination", () => {
  it("has the key and namespace of the options, in header and metadata alike (E-46)", () => {
    const { h, headers, metadata } = picked({
      plan: {},
      wire: { destinationKey: "target-pod", destinationNamespace: "my.lb" },
    });
    expect(headers["target-pod"]).toBe("10.0.0.1:8000");
    expect(headers[DESTINATION]).toBeUndefined();
    expect(metadata).toEqual({ "my.lb": { "target-pod": "10.0.0.1:8000" } });
    expect(h.wrongs).toEqual([]);
  });

  it("stands at the top level of the metadata without a namespace (E-46)", () => {
    expect(picked({ plan: {}, wire: { destinationNamespace: "" } }).metadata).toEqual({
      [DESTINATION]: "10.0.0.1:8000",
    });
    const metadata = { other: { key: 1 }, [DESTINATION]: { forged: true } };
    expect(picked({ plan: { routed: { metadata } }, wire: { destinationNamespace: "" } }).metadata).toEqual({
      other: { key: 1 },
      [DESTINATION]: "10.0.0.1:8000",
    });
  });

  it.each([
    ["list", "10.0.0.1:8000,10.0.0.2:8000,10.0.0.3:8000", undefined],
    ["legacy-key", "10.0.0.1:8000", "10.0.0.2:8000"],
    ["none", "10.0.0.1:8000", undefined],
  ] as const)("offers what comes after the first in the way %s (E-43, E-44)", (fallbackMode, primary, fallback) => {
    const { h, headers, metadata } = picked({ plan: { routed: { offered: 3 } }, wire: { fallbackMode } });
    expect(headers[DESTINATION]).toBe(primary);
    expect(metadata).toEqual({
      "envoy.lb": {
        [DESTINATION]: primary,
        ...(fallback === undefined ? {} : { "x-gateway-destination-endpoint-fallback": fallback }),
      },
    });
    expect(headers["x-gateway-destination-endpoint-fallback"]).toBeUndefined();
    expect(h.wrongs).toEqual([]);
  });

  it("has no fallback in the key of v0.3 where the picker offers one endpoint (E-44)", () => {
    expect(picked({ plan: {}, wire: { fallbackMode: "legacy-key" } }).metadata).toEqual({
      "envoy.lb": { [DESTINATION]: "10.0.0.1:8000" },
    });
  });

  it("stays in its place beside what plugins add, and no plugin replaces it (E-47)", () => {
    const metadata = { "envoy.lb": { [DESTINATION]: "6.6.6.6:1", cost: 3 }, mine: { list: [1, "a", null] } };
    expect(picked({ plan: { routed: { metadata } } }).metadata).toEqual({
      "envoy.lb": { [DESTINATION]: "10.0.0.1:8000", cost: 3 },
      mine: { list: [1, "a", null] },
    });
  });

  it("comes with the scores where the exchange gives them (E-48)", () => {
    const scores = { "10.0.0.1:8000": 0.75, "10.0.0.2:8000": 0 };
    expect(picked({ plan: { routed: { scores } } }).metadata).toEqual({
      "envoy.lb": { [DESTINATION]: "10.0.0.1:8000", "x-gateway-destination-endpoint-scores": scores },
    });
  });
});

describe("headers that plugins set", () => {
  it("go out with the request, in every body mode", () => {
    const headers = HeaderList.of([["x-prefiller-host-port", "10.0.0.9:8000"]]);
    for (const mode of [4, 2]) {
      const h = open({ plan: { routed: { headers } } });
      h.envoy.requestHeaders([...POST, ["x-prefiller-host-port", "6.6.6.6:1"]], false, {
        modes: { request: mode, response: 4 },
      });
      h.envoy.requestBody(chatBody(), true);
      const reply = h.take().find((candidate) => candidate.dynamicMetadata !== undefined);
      const { headerMutation } = (reply.requestHeaders ?? reply.requestBody).response;
      expect(headersOf(headerMutation)["x-prefiller-host-port"]).toBe("10.0.0.9:8000");
      expect(headerMutation.removeHeaders).toBeUndefined();
      expect(h.wrongs).toEqual([]);
    }
  });

  it("S-47 and those that they remove leave it, in every body mode, also with control headers left alone (C-13)", () => {
    const removed = ["x-prefiller-host-port", "x-session"];
    for (const mode of [4, 2]) {
      const wire = { ...DEFAULT_WIRE_OPTIONS, removeControlHeaders: false };
      const h = open({ plan: { routed: { removed } }, wire });
      h.envoy.requestHeaders([...POST, ["x-prefiller-host-port", "6.6.6.6:1"], ["x-session", "a"]], false, {
        modes: { request: mode, response: 4 },
      });
      h.envoy.requestBody(chatBody(), true);
      const reply = h.take().find((candidate) => candidate.dynamicMetadata !== undefined);
      const { headerMutation } = (reply.requestHeaders ?? reply.requestBody).response;
      expect(headerMutation.removeHeaders).toEqual(removed);
      expect(Object.keys(headersOf(headerMutation))).not.toContain("x-session");
      expect(h.wrongs).toEqual([]);
    }
  });

  it("go out with the response, in place of what the model server said", () => {
    const answerHeaders = HeaderList.of([["x-session-token", "ZGVmYXVsdC9wb2QtMQ=="]]);
    const h = open({ plan: { answerHeaders } }).post(chatBody());
    h.envoy.responseHeaders([
      [":status", "200"],
      ["x-session-token", "old"],
    ]);
    const mutation = h.replies.at(-1).responseHeaders.response.headerMutation;
    expect(headersOf(mutation)["x-session-token"]).toBe("ZGVmYXVsdC9wb2QtMQ==");
    expect(h.wrongs).toEqual([]);
  });

  it("see what the proxy attached for them: the namespace, or that there is none (E-75)", () => {
    const served = { "x-gateway-destination-endpoint-served": "10.0.0.2:8000", other: [1] };
    const of = (metadata: Record<string, Record<string, unknown>>) => {
      const h = open({ plan: {} }).post(chatBody());
      h.envoy.responseHeaders([[":status", "200"]], false, { metadata });
      return h.fake;
    };
    expect({ ...of({ "envoy.lb": served }).lbMetadata }).toEqual(served);
    expect(of({ "envoy.lb": served }).served).toEqual(["10.0.0.2:8000"]);
    expect({ ...of({ "envoy.lb": {} }).lbMetadata }).toEqual({});
    expect(of({ other: served }).lbMetadata).toBeUndefined();
    expect(of({ other: served }).served).toEqual([]);
  });
});

describe("a response that may change its length", () => {
  it("loses the declared one, where the proxy does not see the body whole", () => {
    const h = open({ plan: { rewritesResponse: true } }).post(chatBody());
    h.envoy.responseHeaders([
      [":status", "200"],
      ["content-length", "2"],
    ]);
    const mutation = h.replies.at(-1).responseHeaders.response.headerMutation;
    expect(mutation.removeHeaders).toEqual(["content-length"]);
    expect(keysOf(mutation)).not.toContain("content-length");
  });
});

describe("literal proxies", () => {
  it("read in every reply that headers are overwritten (D-5)", () => {
    const wire = { literalAppendAction: true };
    const h = open({ wire }).post(chatBody()).answer("{}");
    const actions = (mutation: { setHeaders: { appendAction?: number }[] }) =>
      new Set(mutation.setHeaders.map(({ appendAction }) => appendAction));
    expect(actions(h.replies[0].requestHeaders.response.headerMutation)).toEqual(new Set([2]));
    expect(actions(h.replies[2].responseHeaders.response.headerMutation)).toEqual(new Set([2]));
    const refused = open({ wire }, { endpoints: 0 }).post(chatBody());
    expect(actions(refused.replies[0].immediateResponse.headers)).toEqual(new Set([2]));
    expect([...h.wrongs, ...refused.wrongs]).toEqual([]);
  });
});

describe("the subset hint", () => {
  it("is read without its ports where the options say so (E-54, C-4)", () => {
    const hint = { metadata: { "envoy.lb.subset_hint": { "x-gateway-destination-endpoint-subset": ["10.0.0.2:9"] } } };
    const picks = (["exact", "ip"] as const).map((subsetMatch) => {
      const h = open({ wire: { subsetMatch } });
      h.envoy.requestHeaders(POST, false, hint);
      h.envoy.requestBody(chatBody(), true);
      return h.filter.immediate?.status.code ?? h.destination;
    });
    expect(picks).toEqual([503, "10.0.0.2:8000"]);
  });
});

describe("a request without a body to an empty pool", () => {
  const refusal = (wire: HarnessOptions["wire"], extras = {}) => {
    const h = open({ wire: wire! }, { endpoints: 0 });
    h.envoy.requestHeaders([[":path", "/v1/models"]], true, extras);
    return h.refusal();
  };

  it("is a 500 with the text of v1.5 where the options say so (E-14, C-1)", () => {
    expect(refusal({ legacyHeaderOnly500: true })).toEqual({
      status: 500,
      text: "inference error: Internal - no pods available in datastore",
      dropped: undefined,
    });
    expect(refusal({}).status).toBe(503);
  });

  it("stays a 503 where a hint left nobody (E-12)", () => {
    const metadata = { "envoy.lb.subset_hint": { "x-gateway-destination-endpoint-subset": [] } };
    expect(refusal({ legacyHeaderOnly500: true }, { metadata }).status).toBe(503);
  });
});

describe("an early close", () => {
  const skip = { routed: { skipResponse: true } };

  it("comes with OK behind the last byte of the request, where nothing is read from the response (epp-protocol 4.6, D-25)", () => {
    const h = open({ plan: skip, wire: { closeEarly: true } });
    h.envoy.requestHeaders(POST);
    expect(h.stream.status).toBeUndefined();
    h.envoy.requestBody(chatBody("x".repeat(70_000)), true);
    expect(h.stream.status).toBe(0);
    expect(h.fake.ends).toEqual(["no-response-phase"]);
    expect(h.filter.outstanding("request")).toBe(false);
    h.answer("{}");
    h.reset();
    expect(h.fake.ends).toHaveLength(1);
    expect(h.fake.status).toBeUndefined();
    expect(h.wrongs).toEqual([]);
  });

  it("comes behind the reply to trailers", () => {
    const h = open({ plan: skip, wire: { closeEarly: true } });
    h.envoy.requestHeaders(POST);
    h.envoy.requestBody(chatBody());
    h.envoy.requestTrailers();
    expect(h.replies.at(-1)).toEqual({ requestTrailers: {} });
    expect(h.stream.status).toBe(0);
    expect(h.wrongs).toEqual([]);
  });

  it.each([
    ["is off", skip, false],
    ["is on, but the response is read", {}, true],
  ])("does not come where it %s (D-25, D-76)", (_, plan, closeEarly) => {
    const h = open({ plan, wire: { closeEarly } }).post(chatBody());
    expect(h.stream.status).toBeUndefined();
    expect(h.fake.ends).toEqual([]);
  });

  it("comes behind the headers where the body does not come by", () => {
    const h = open({ plan: skip, wire: { closeEarly: true } });
    h.envoy.requestHeaders(POST, false, { modes: { request: 0, response: 4 } });
    expect(h.stream.status).toBe(0);
    expect(h.fake.ends).toEqual(["no-response-phase"]);
    expect(h.wrongs).toEqual([]);
  });

  it.each([
    ["an upgrade", 4, [...POST, ["upgrade", "websocket"]]],
    ["STREAMED", 1, POST],
  ] as const)("does not come while the body still flows: %s", (_, mode, headers) => {
    const h = open({ plan: skip, wire: { closeEarly: true } });
    h.envoy.requestHeaders(headers, false, { modes: { request: mode, response: 4 } });
    expect(h.stream.status).toBeUndefined();
    h.envoy.requestBody("more");
    expect(h.replies).toHaveLength(2);
    expect(h.wrongs).toEqual([]);
  });
});

describe("an eviction", () => {
  const EVICTED = new Rejection("evicted", "request evicted by flow control");
  const refusal = {
    status: 429,
    text: "inference error: ResourceExhausted - request evicted by flow control",
    dropped: "evicted",
  };

  it("of a running request is a 429 and the end (D-22, epp-protocol 5.5)", () => {
    const h = open().post(chatBody());
    h.take();
    h.session.evict(EVICTED);
    expect(h.refusal()).toEqual(refusal);
    expect([h.stream.status, h.core.inFlight]).toEqual([0, 0]);
    expect(h.core.total("sluice_exchanges_total", { outcome: "rejected" })).toBe(1);
    h.session.evict(EVICTED);
    expect(h.take()).toEqual([]);
    expect(h.wrongs).toEqual([]);
  });

  it("in the middle of a response is a 429 too: the proxy cuts the response (epp-protocol 5.5)", () => {
    const h = open().post(chatBody());
    h.envoy.responseHeaders([
      [":status", "200"],
      ["content-type", "text/event-stream"],
    ]);
    h.envoy.responseBody("data: 1\n\n");
    h.take();
    h.session.evict(EVICTED);
    expect(h.refusal()).toEqual(refusal);
    expect(h.core.inFlight).toBe(0);
  });

  it("of a request that still waits for its decision is a 429, and the decision comes to nothing", async () => {
    const h = open({ plan: { decide: async (x) => x.route() } }).post(chatBody());
    h.session.evict(EVICTED);
    await h.settle();
    expect(h.refusal()).toEqual(refusal);
    expect(h.fake.ends).toEqual(["rejected"]);
    expect(h.wrongs).toEqual([]);
  });

  it.each(["the end of the body", "trailers", "headers alone"])("behind %s is ignored (D-22)", (end) => {
    const h = open().post(chatBody());
    if (end === "headers alone") h.envoy.responseHeaders([[":status", "204"]], true);
    else if (end === "trailers") {
      h.envoy.responseHeaders([[":status", "200"]]);
      h.envoy.responseTrailers();
    } else h.answer("{}");
    h.take();
    h.session.evict(EVICTED);
    expect(h.take()).toEqual([]);
    expect(h.stream.status).toBeUndefined();
    expect(h.wrongs).toEqual([]);
  });
});

describe("a proxy that answers by itself while the decision is pending", () => {
  it.each(["a route", "a refusal"])("gets no reply for the request any more: %s", async (outcome) => {
    const h = open({
      plan: { decide: async (x) => (outcome === "a route" ? x.route() : new Rejection("saturated", "full")) },
    }).post(chatBody());
    h.envoy.responseHeaders([
      [":status", "504"],
      ["content-type", "text/plain"],
    ]);
    h.take();
    await h.settle();
    expect(h.take()).toEqual([]);
    h.envoy.responseBody("upstream request timeout", true);
    expect(h.take()).toHaveLength(1);
    expect(h.wrongs).toEqual([]);
  });
});

describe("reading", () => {
  it("goes on only when no reason to stop is left: neither the budget nor a slow reader ends the other's", () => {
    const core = new TestCore({ budget: 1000 });
    const other = new SessionHarness(core);
    other.envoy.requestHeaders(POST);
    other.envoy.requestBody("x".repeat(990));
    const h = new SessionHarness(core);
    const body = Buffer.from(chatBody());
    h.envoy.requestHeaders(POST);
    h.envoy.requestBody(body.subarray(0, 20));
    expect([core.budget.paused, h.stream.paused]).toEqual([1, true]);
    other.session.closed();
    expect([core.budget.paused, h.stream.paused]).toEqual([0, false]);
    h.stream.full = true;
    h.envoy.requestBody(body.subarray(20), true);
    h.session.pauseRequest();
    h.session.resumeRequest();
    expect(h.stream.paused).toBe(true);
    h.stream.drain();
    expect(h.stream.paused).toBe(false);
  });

  it("of bodies stops while forwarded ones wait for slow readers: what is queued is still in the budget", () => {
    const core = new TestCore({ budget: 1000 });
    const h = new SessionHarness(core);
    h.stream.full = true;
    const body = chatBody("x".repeat(1000));
    h.post(body);
    expect(core.budget.used).toBe(body.length);
    const others = [new SessionHarness(core), new SessionHarness(core)];
    for (const { envoy } of others) {
      envoy.requestHeaders(POST);
      envoy.requestBody("y".repeat(100));
    }
    // One body may always go on.
    expect(others.map(({ stream }) => stream.paused)).toEqual([false, true]);
    h.stream.drain();
    expect(core.budget.used).toBe(200);
    expect([h.stream.paused, ...others.map(({ stream }) => stream.paused)]).toEqual([false, false, false]);
    for (const { session } of others) session.closed();
    const gone = new SessionHarness(core);
    gone.stream.full = true;
    gone.post(body).session.closed();
    expect(core.budget.used).toBe(0);
  });

  it("stays stopped by the budget when a slow reader has caught up", () => {
    const h = open();
    h.envoy.requestHeaders([...POST, ["upgrade", "websocket"]]);
    h.stream.full = true;
    h.envoy.requestBody("ping");
    h.session.pauseRequest();
    h.stream.drain();
    expect(h.stream.paused).toBe(true);
    h.session.resumeRequest();
    expect(h.stream.paused).toBe(false);
    h.session.resumeRequest();
    expect([h.stream.paused, h.stream.pauses]).toEqual([false, 1]);
  });
});

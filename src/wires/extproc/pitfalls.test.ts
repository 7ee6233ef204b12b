import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { fromStruct } from "../../../test/support/extproc-client.ts";
import { bodyOf, chatBody, headersOf, keysOf, SessionHarness } from "../../../test/support/session-harness.ts";

// The pitfalls of epp-protocol 18 that a session can fall into. Not here: 17 to 21, 24, 33 and 35 belong to parsers,
// flags, TLS, metrics, the proxy itself and the transport.

const POST = [
  [":method", "POST"],
  [":path", "/v1/chat/completions"],
] as const;
const SSE = [
  [":status", "200"],
  ["content-type", "text/event-stream"],
] as const;
const open = (options: ConstructorParameters<typeof TestCore>[0] = {}) => new SessionHarness(new TestCore(options));
const routed = (body = chatBody()) => {
  const h = open().post(body);
  h.take();
  return h;
};
const hint = (value: unknown) => ({
  metadata: { "envoy.lb.subset_hint": { "x-gateway-destination-endpoint-subset": value } },
});

describe("what others fell into", () => {
  it("pitfall 1: bodies over 128 KiB are cut into chunks in both directions", () => {
    const body = chatBody("x".repeat(300_000));
    const h = open().post(body).answer("y".repeat(300_000));
    const [request, response] = [bodyOf(h.replies, "request"), bodyOf(h.replies, "response")];
    expect(request.bytes.toString()).toBe(body);
    expect(response.bytes).toHaveLength(300_000);
    for (const { ends } of [request, response]) expect(ends).toEqual([false, false, false, false, true]);
    expect(h.wrongs).toEqual([]);
  });

  it("pitfall 2: nothing spurious: no whole body and no empty reply, no body before its headers, no trailers unasked", () => {
    const h = open();
    h.envoy.requestHeaders(POST);
    for (const piece of ["{", "", chatBody().slice(1), ""]) h.envoy.requestBody(piece);
    h.envoy.requestBody("", true);
    h.envoy.responseHeaders([[":status", "200"]]);
    h.envoy.responseBody("");
    h.envoy.responseBody("{}", true);
    expect(h.replies.map((reply) => Object.keys(reply)[0])).toEqual([
      "requestHeaders",
      "requestBody",
      "responseHeaders",
      "responseBody",
    ]);
    expect(h.wrongs).toEqual([]);
  });

  it("pitfall 3: a body whose last chunk has no flag, because trailers follow, does not hang", () => {
    const h = open();
    h.envoy.requestHeaders(POST);
    h.envoy.requestBody(chatBody());
    h.envoy.requestTrailers();
    expect(h.destination).toMatch(/:8000$/);
    expect(h.filter.outstanding("request")).toBe(false);
    expect(h.wrongs).toEqual([]);
  });

  it("pitfall 4: a final chunk that comes twice is counted, and neither scheduled nor answered twice", () => {
    const body = chatBody("x".repeat(1_200_000));
    const h = open();
    h.envoy.requestHeaders(POST);
    h.envoy.requestBody(body.slice(0, 700_000));
    h.envoy.requestBody(body.slice(700_000), true);
    h.take();
    h.envoy.requestBody(body.slice(700_000), true);
    expect(h.take()).toEqual([]);
    h.answer("{}");
    h.take();
    h.envoy.responseBody("{}", true);
    expect(h.take()).toEqual([]);
    expect(h.notices.countOf("repeated-end")).toBe(2);
    expect(h.told).toHaveLength(1);
    expect(h.core.total("llm_d_epp_request_total")).toBe(1);
    expect(h.wrongs).toEqual([]);
  });

  it("pitfall 5: response trailers are answered, streamed or not", () => {
    for (const headers of [SSE, [[":status", "200"]] as const]) {
      const h = routed();
      h.envoy.responseHeaders(headers);
      h.envoy.responseBody("data: {}\n\n");
      h.envoy.responseTrailers([["grpc-status", "0"]]);
      expect(h.replies.at(-1)).toEqual({ responseTrailers: {} });
      expect(h.filter.outstanding("response")).toBe(false);
      expect(h.wrongs).toEqual([]);
    }
  });

  it("pitfall 6: transfer-encoding and its kind are written back in neither direction", () => {
    const hops = [
      ["transfer-encoding", "chunked"],
      ["connection", "keep-alive"],
      ["keep-alive", "timeout=5"],
      ["proxy-connection", "close"],
      ["te", "gzip"],
    ] as const;
    const h = open().post(chatBody(), hops);
    h.envoy.responseHeaders([...SSE, ...hops]);
    for (const mutation of [
      h.replies[0].requestHeaders.response.headerMutation,
      h.replies.at(-1).responseHeaders.response.headerMutation,
    ])
      for (const [key] of hops) expect(keysOf(mutation)).not.toContain(key);
  });

  it("pitfall 7: headers that occur twice are left alone: no cookie is lost", () => {
    const h = open().post(chatBody(), [
      ["cookie", "a=1"],
      ["cookie", "b=2"],
    ]);
    h.envoy.responseHeaders([
      [":status", "200"],
      ["set-cookie", "a"],
      ["set-cookie", "b"],
    ]);
    const request = h.replies[0].requestHeaders.response.headerMutation;
    const response = h.replies.at(-1).responseHeaders.response.headerMutation;
    expect([...keysOf(request), ...(request.removeHeaders ?? [])]).not.toContain("cookie");
    expect([...keysOf(response), ...(response.removeHeaders ?? [])]).not.toContain("set-cookie");
  });

  it("pitfall 8: usage counts though `[DONE]` comes in another chunk", () => {
    const h = routed();
    h.envoy.responseHeaders(SSE);
    h.envoy.responseBody(
      'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}\n\n',
    );
    h.envoy.responseBody("data: [DONE]\n\n", true);
    expect(h.core.total("llm_d_epp_request_output_tokens_sum")).toBe(3);
  });

  it("pitfall 9: a line that is split over chunks is read, and delays none of them", () => {
    const stream = 'data: {"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\ndata: [DONE]\n\n';
    const h = routed();
    h.envoy.responseHeaders(SSE);
    h.take();
    for (let at = 0; at < stream.length; at++) {
      h.envoy.responseBody(stream.slice(at, at + 1), at === stream.length - 1);
      expect(bodyOf(h.take(), "response").bytes.toString()).toBe(stream.slice(at, at + 1));
    }
    expect(h.core.total("llm_d_epp_request_output_tokens_sum")).toBe(3);
  });

  it("pitfall 10: an error status is seen in `:status`", () => {
    const { core } = routed().answer("oops", "500", "text/plain");
    expect(core.total("llm_d_epp_request_error_total", { error_code: "ModelServerError" })).toBe(1);
  });

  it("pitfall 11: control headers of a client do not reach the model server", () => {
    const sent = [
      "x-gateway-inference-objective",
      "x-gateway-inference-fairness-id",
      "x-gateway-destination-endpoint-subset",
      "x-gateway-destination-endpoint-served",
      "x-llm-d-slo-ttft-ms",
      "x-prefiller-host-port",
    ];
    const h = open().post(
      chatBody(),
      sent.map((key) => [key, "forged"] as const),
    );
    const mutation = h.replies[0].requestHeaders.response.headerMutation;
    expect(mutation.removeHeaders).toEqual(sent);
    for (const key of sent) expect(keysOf(mutation)).not.toContain(key);
  });

  it("pitfall 12: a body is forwarded as it came: key order, escapes, large integers, spaces", () => {
    const body =
      '{"z":1,"seed":9007199254740993,"model":"llama", "messages":[{"role":"user","content":"<b>&\\u00e9 \u2028"}],"a":1e400}';
    expect(bodyOf(open().post(body).replies, "request").bytes.toString()).toBe(body);
  });

  it("pitfall 13: two streams with one request id share nothing", () => {
    const core = new TestCore();
    const streams = [1, 2].map(() => new SessionHarness(core));
    for (const h of streams) h.envoy.requestHeaders([...POST, ["x-request-id", "same"]]);
    streams[0]!.reset();
    streams[1]!.envoy.requestBody(chatBody(), true);
    expect(streams[1]!.destination).toMatch(/:8000$/);
    expect(core.inFlight).toBe(1);
  });

  it("pitfall 14: neither an empty pool nor a hint of odd shape is more than a refusal", () => {
    const empty = open({ endpoints: 0 });
    empty.envoy.requestHeaders([[":path", "/v1/models"]], true);
    expect(empty.refusal().status).toBe(503);
    for (const value of [[1, null, {}, []], { a: 1 }, null, true, 7, [["10.0.0.1:8000"]]]) {
      const h = open();
      h.envoy.requestHeaders(POST, false, hint(value));
      h.envoy.requestBody(chatBody(), true);
      expect(h.refusal().status).toBe(503);
      expect(h.errors).toEqual([]);
    }
  });

  it("pitfall 15: a hint is matched with its port, and IPv6 is not cut at a colon", () => {
    const endpoints = [
      { address: "10.0.0.1", port: 8000 },
      { address: "10.0.0.1", port: 8001 },
      { address: "fd00::1", port: 8000 },
    ];
    for (const entry of ["10.0.0.1:8001", "[fd00::1]:8000"]) {
      const h = open({ endpoints });
      h.envoy.requestHeaders(POST, false, hint([entry]));
      h.envoy.requestBody(chatBody(), true);
      expect(h.destination).toBe(entry);
    }
  });

  it("pitfall 16: a hint that is one string restricts, too", () => {
    const h = open();
    h.envoy.requestHeaders(POST, false, hint("10.0.0.3:8000"));
    h.envoy.requestBody(chatBody(), true);
    expect(h.destination).toBe("10.0.0.3:8000");
  });

  it.each([4, 2])("pitfall 22: a refused request is counted, once (mode %i)", (request) => {
    const h = open();
    h.envoy.requestHeaders(POST, false, { modes: { request, response: 4 } });
    h.envoy.requestBody("{", true);
    h.reset();
    expect(h.core.total("llm_d_epp_request_error_total", { error_code: "BadRequest" })).toBe(1);
    expect(h.core.total("llm_d_epp_request_error_total")).toBe(1);
  });

  it("pitfall 23: what is left to do behind a cancellation is done", () => {
    const h = routed();
    expect(h.core.inFlight).toBe(1);
    h.reset();
    expect([h.core.inFlight, h.core.budget.used]).toEqual([0, 0]);
    expect(h.core.total("sluice_exchanges_total", { outcome: "client-gone" })).toBe(1);
  });

  it("pitfall 25: an upgrade does not dead-lock: its headers are answered at once, its bytes pass", () => {
    const h = open();
    h.envoy.requestHeaders([...POST, ["upgrade", "websocket"]]);
    expect(h.destination).toMatch(/:8000$/);
    h.take();
    h.envoy.requestBody("ping");
    expect(bodyOf(h.take(), "request")).toEqual({ bytes: Buffer.from("ping"), ends: [false] });
    expect(h.wrongs).toEqual([]);
  });

  it("pitfall 26: an error page of the proxy is a response like any other, and so is none at all", () => {
    const page = routed().answer("no healthy upstream", "503", "text/plain");
    expect(bodyOf(page.replies, "response").bytes.toString()).toBe("no healthy upstream");
    const none = routed().reset();
    for (const h of [page, none]) {
      expect(h.core.inFlight).toBe(0);
      expect(h.wrongs).toEqual([]);
    }
  });

  it.each([
    ["FULL_DUPLEX_STREAMED", 4],
    ["BUFFERED", 2],
    ["STREAMED", 1],
    ["NONE", 0],
  ])("pitfall 27: the reply with the destination clears the route, in the mode %s", (_, request) => {
    const h = open();
    h.envoy.requestHeaders(POST, false, { modes: { request, response: 4 } });
    if (request > 1) h.envoy.requestBody(chatBody(), true);
    const reply = h.replies.find((candidate) => candidate.dynamicMetadata !== undefined);
    expect((reply.requestHeaders ?? reply.requestBody).response.clearRouteCache).toBe(true);
  });

  it("pitfall 28: the destination is in a header and in metadata, both", () => {
    const reply = open().post(chatBody()).replies[0];
    const header = headersOf(reply.requestHeaders.response.headerMutation)["x-gateway-destination-endpoint"];
    expect(header).toMatch(/:8000$/);
    expect(fromStruct(reply.dynamicMetadata)).toEqual({ "envoy.lb": { "x-gateway-destination-endpoint": header } });
  });

  it.each(["[]", '"x"', "null", "7", "true", ""])("pitfall 29: JSON that is no object is a 400: %s", (body) => {
    expect(open().post(body).refusal().status).toBe(400);
  });

  it("pitfall 30: an empty model is a missing one", () => {
    expect(
      open()
        .post(chatBody("x", { model: "" }))
        .refusal().status,
    ).toBe(400);
  });

  it("pitfall 31: a reset behind the last reply is how exchanges end, and no error", () => {
    const h = routed().answer("{}").reset();
    expect(h.core.total("llm_d_epp_request_error_total")).toBe(0);
    expect(h.core.total("sluice_exchanges_total", { outcome: "complete" })).toBe(1);
    expect(h.errors).toEqual([]);
  });

  it("pitfall 32: the end comes with the last data, or in an empty message of its own, in either direction", () => {
    const seen = [true, false].map((together) => {
      const h = open();
      h.envoy.requestHeaders([...POST, ["x-request-id", "r"]]);
      h.envoy.requestBody(chatBody(), together);
      if (!together) h.envoy.requestBody("", true);
      h.envoy.responseHeaders([[":status", "200"]]);
      h.envoy.responseBody("{}", together);
      if (!together) h.envoy.responseBody("", true);
      expect(h.wrongs).toEqual([]);
      return JSON.stringify(h.replies);
    });
    expect(seen[0]).toBe(seen[1]);
  });

  it("pitfall 34: client trailers do not hang, and a repeated request header keeps all its values", () => {
    const h = open();
    h.envoy.requestHeaders([...POST, ["accept", "a"], ["accept", "b"]]);
    h.envoy.requestBody(chatBody());
    h.envoy.requestTrailers();
    expect(keysOf(h.replies[0].requestHeaders.response.headerMutation)).not.toContain("accept");
    expect(h.replies.at(-1)).toEqual({ requestTrailers: {} });
  });
});

import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import {
  bodyOf,
  chatBody,
  destinationOf,
  headersOf,
  keysOf,
  SessionHarness,
} from "../../../test/support/session-harness.ts";

const SSE = [
  [":status", "200"],
  ["content-type", "text/event-stream"],
] as const;
const JSON_ANSWER = [
  [":status", "200"],
  ["content-type", "application/json"],
] as const;
const USAGE = '{"object":"chat.completion","usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}}';

/** A session whose request was routed. */
function routed(options: ConstructorParameters<typeof TestCore>[0] = {}, body = chatBody()): SessionHarness {
  const h = new SessionHarness(new TestCore(options)).post(body);
  h.take();
  return h;
}
const labels = { model_name: "llama", target_model_name: "llama" };

describe("the recorded exchange of envoy-data-plane 1.4", () => {
  it("runs as recorded, reply by reply, and ends with the reset (D-6, D-16)", () => {
    const core = new TestCore();
    const h = new SessionHarness(core);
    const body = chatBody("hello", { stream: true });
    h.envoy.requestHeaders([
      [":method", "POST"],
      [":path", "/v1/chat/completions"],
      ["content-type", "application/json"],
    ]);
    h.envoy.requestBody(body.slice(0, 30));
    expect(h.take()).toEqual([]);
    h.envoy.requestBody(body.slice(30), true);
    const request = h.take();
    expect(request.map((reply) => Object.keys(reply))).toEqual([
      ["requestHeaders", "dynamicMetadata"],
      ["requestBody"],
    ]);
    expect(bodyOf(request, "request")).toEqual({ bytes: Buffer.from(body), ends: [true] });
    const served = { metadata: { "envoy.lb": { "x-gateway-destination-endpoint-served": h.destination } } };
    h.envoy.responseHeaders(SSE, false, served);
    expect(h.take().map((reply) => Object.keys(reply))).toEqual([["responseHeaders"]]);
    for (const [chunk, end] of [
      ['data: {"id":1}\n\n', false],
      ['data: {"id":2}\n\n', false],
      ["data: [DONE]\n\n", true],
    ] as const) {
      h.envoy.responseBody(chunk, end, served);
      const replies = h.take();
      expect(bodyOf(replies, "response")).toEqual({ bytes: Buffer.from(chunk), ends: [end] });
      expect(replies).toHaveLength(1);
    }
    expect(core.inFlight).toBe(0);
    h.reset();
    expect(h.stream.status).toBeUndefined();
    expect(core.total("sluice_exchanges_total", { outcome: "complete" })).toBe(1);
    expect(core.total("sluice_exchanges_total")).toBe(1);
    expect(core.total("llm_d_epp_request_error_total")).toBe(0);
    expect(h.wrongs).toEqual([]);
  });
});

describe("response headers", () => {
  it("are answered at once, the marker first, echoed as far as that changes nothing (E-60, E-61, D-86)", () => {
    const h = routed();
    h.envoy.responseHeaders([
      ...JSON_ANSWER,
      ["Server", "vllm"],
      ["set-cookie", "a"],
      ["set-cookie", "b"],
      ["transfer-encoding", "chunked"],
      ["connection", "close"],
      ["content-length", "12"],
      ["x-gateway-destination-endpoint-served", "forged"],
    ]);
    const [reply, ...others] = h.take();
    expect(others).toEqual([]);
    const mutation = reply.responseHeaders.response.headerMutation;
    expect(keysOf(mutation)).toEqual(["x-went-into-resp-headers", "content-type", "server"]);
    expect(headersOf(mutation)).toMatchObject({ "x-went-into-resp-headers": "true", server: "vllm" });
    expect(mutation.removeHeaders).toBeUndefined();
    expect(h.wrongs).toEqual([]);
  });

  it("with the end of the stream complete the request (E-78)", () => {
    const h = routed();
    h.envoy.responseHeaders([[":status", "204"]], true);
    expect(h.take()).toHaveLength(1);
    expect(h.core.inFlight).toBe(0);
    expect(h.core.total("sluice_exchanges_total", { outcome: "complete" })).toBe(1);
    h.halfClose();
    expect(h.stream.status).toBe(0);
    expect(h.wrongs).toEqual([]);
  });

  it("without a request phase work, with empty labels (E-68)", () => {
    const h = new SessionHarness(new TestCore());
    h.answer(USAGE);
    expect(bodyOf(h.replies, "response").bytes.toString()).toBe(USAGE);
    expect(h.core.total("llm_d_epp_request_input_tokens_sum", { model_name: "", target_model_name: "" })).toBe(7);
    expect(h.wrongs).toEqual([]);
  });

  it.each(["full-duplex", "buffered", "streamed"] as const)(
    "without a request phase and without headers count their usage, JSON or events (%s)",
    (defaultBodyMode) => {
      const events = `data: {}\n\ndata: ${USAGE}\n\ndata: [DONE]\n\n`;
      for (const [body, streaming] of [
        [USAGE, "false"],
        [events, "true"],
        [`: hello\n${events}`, "true"],
      ] as const) {
        const h = new SessionHarness(new TestCore(), { wire: { defaultBodyMode } });
        if (defaultBodyMode !== "buffered") h.envoy.responseBody("");
        h.envoy.responseBody(body, true);
        expect(h.core.total("llm_d_epp_request_input_tokens_sum", { model_name: "", target_model_name: "" })).toBe(7);
        expect(h.core.total("llm_d_epp_response_size_bytes_sum", { model_name: "" })).toBe(body.length);
        expect(h.core.total("llm_d_epp_request_ttft_seconds_count", { streaming })).toBe(1);
        expect(h.core.total("llm_d_epp_request_error_total")).toBe(0);
        expect(h.core.total("sluice_exchanges_total", { outcome: "complete" })).toBe(1);
      }
    },
  );

  it("without headers count for the request that was routed, and the endpoint has answered", () => {
    const h = routed();
    h.envoy.responseBody(USAGE, true);
    expect(h.core.total("llm_d_epp_request_input_tokens_sum", labels)).toBe(7);
    expect(h.core.inFlight).toBe(0);
  });

  it("are read from `value` too (E-02)", () => {
    const h = routed();
    h.envoy.send({ responseHeaders: { headers: { headers: [{ key: ":status", value: "500" }] }, endOfStream: true } });
    expect(h.core.total("llm_d_epp_request_error_total", { error_code: "ModelServerError" })).toBe(1);
  });
});

describe("a streamed response", () => {
  it("is passed on chunk by chunk with equal ends, the empty last one included (E-62, E-66)", () => {
    const h = routed();
    h.envoy.responseHeaders(SSE);
    h.take();
    for (const [chunk, end] of [
      ["data: {}\n\n", false],
      [`data: ${USAGE}\n\ndata: [DONE]\n\n`, false],
      ["", true],
    ] as const) {
      h.envoy.responseBody(chunk, end);
      expect(bodyOf(h.take(), "response")).toEqual({ bytes: Buffer.from(chunk), ends: [end] });
    }
    expect(h.core.total("llm_d_epp_request_input_tokens_sum", labels)).toBe(7);
    expect(h.core.total("llm_d_epp_request_input_tokens_count")).toBe(1);
    expect(h.wrongs).toEqual([]);
  });

  it("is one too when the request asked for it, whatever its content type (E-64)", () => {
    const h = routed({}, chatBody("x", { stream: true }));
    h.envoy.responseHeaders(JSON_ANSWER);
    h.take();
    h.envoy.responseBody('{"a":');
    expect(bodyOf(h.take(), "response")).toEqual({ bytes: Buffer.from('{"a":'), ends: [false] });
  });

  it("is cut into chunks of at most 62,000 bytes (D-16)", () => {
    const h = routed();
    h.envoy.responseHeaders(SSE);
    h.envoy.responseBody("x".repeat(130_000), true);
    expect(bodyOf(h.replies, "response").ends).toEqual([false, false, true]);
    expect(bodyOf(h.replies, "response").bytes).toHaveLength(130_000);
    expect(h.wrongs).toEqual([]);
  });

  it("gives its usage wherever the chunks are cut (E-71, D-16)", () => {
    const stream = `data: {"choices":[]}\n\ndata: ${USAGE}\n\ndata: [DONE]\n\n`;
    for (let cut = 1; cut < stream.length; cut++) {
      const h = routed();
      h.envoy.responseHeaders(SSE);
      h.envoy.responseBody(stream.slice(0, cut));
      h.envoy.responseBody(stream.slice(cut), true);
      expect(h.core.total("llm_d_epp_request_output_tokens_sum", labels), `cut at ${cut}`).toBe(5);
    }
  });

  it("waits for a reader that is slow, and goes on when it has caught up (D-28)", () => {
    const h = routed();
    h.envoy.responseHeaders(SSE);
    h.stream.full = true;
    h.envoy.responseBody("x".repeat(20_000));
    expect(h.stream.paused).toBe(true);
    h.stream.drain();
    expect(h.stream.paused).toBe(false);
    h.envoy.responseBody("", true);
    expect(bodyOf(h.replies, "response").bytes).toHaveLength(20_000);
  });
});

describe("a response in one piece", () => {
  it("is held to its end, then sent in chunks with one end (E-63, E-66)", () => {
    const h = routed();
    h.envoy.responseHeaders(JSON_ANSWER);
    h.take();
    const text = `{"usage":{"prompt_tokens":7},"text":"${"y".repeat(100_000)}"}`;
    h.envoy.responseBody(text.slice(0, 50_000));
    h.envoy.responseBody(text.slice(50_000));
    expect(h.take()).toEqual([]);
    h.envoy.responseBody("", true);
    expect(bodyOf(h.take(), "response")).toEqual({ bytes: Buffer.from(text), ends: [false, true] });
    expect(h.core.total("llm_d_epp_request_input_tokens_sum", labels)).toBe(7);
    expect(h.core.budget.used).toBe(0);
    expect(h.wrongs).toEqual([]);
  });

  it.each(["{not json", "", "<html>\u00e4</html>", "null"])("%j passes byte for byte (E-65, E-66)", (text) => {
    const h = routed().answer(Buffer.from(text, "latin1"));
    expect(bodyOf(h.replies, "response")).toEqual({ bytes: Buffer.from(text, "latin1"), ends: [true] });
    expect(h.core.total("llm_d_epp_request_input_tokens_count")).toBe(0);
    expect(h.wrongs).toEqual([]);
  });

  it("is passed through without usage once it is too large to hold (epp-protocol 4.3)", () => {
    const h = routed();
    h.envoy.responseHeaders(JSON_ANSWER);
    h.take();
    const piece = Buffer.alloc(1024 * 1024, 0x20);
    for (let i = 0; i < 4; i++) h.envoy.responseBody(piece);
    expect(h.take()).toEqual([]);
    h.envoy.responseBody(piece);
    expect(bodyOf(h.take(), "response").bytes).toHaveLength(5 * piece.length);
    expect(h.core.budget.used).toBe(0);
    h.envoy.responseBody(USAGE, true);
    expect(bodyOf(h.take(), "response")).toEqual({ bytes: Buffer.from(USAGE), ends: [true] });
    expect(h.core.total("llm_d_epp_request_input_tokens_count")).toBe(0);
    expect(h.core.total("llm_d_epp_response_size_bytes_sum")).toBe(5 * piece.length + USAGE.length);
    expect(h.wrongs).toEqual([]);
  });

  it("is not held at all when the process holds too much already", () => {
    const h = routed({ budget: 1000 });
    h.envoy.responseHeaders(JSON_ANSWER);
    h.take();
    h.envoy.responseBody("x".repeat(900));
    expect(h.take()).toEqual([]);
    h.envoy.responseBody("x".repeat(900));
    expect(bodyOf(h.take(), "response").bytes).toHaveLength(1800);
    expect(h.core.budget.used).toBe(0);
    h.envoy.responseBody("", true);
    expect(bodyOf(h.take(), "response").ends).toEqual([true]);
    expect(h.wrongs).toEqual([]);
  });

  it("ignores what comes behind its end (E-29)", () => {
    const h = routed().answer("{}");
    h.take();
    h.envoy.responseBody("again", true);
    expect(h.take()).toEqual([]);
  });

  it("without headers before it is passed through", () => {
    const h = routed();
    h.envoy.responseBody("a");
    h.envoy.responseBody("b", true);
    expect(bodyOf(h.take(), "response")).toEqual({ bytes: Buffer.from("ab"), ends: [false, true] });
    expect(h.wrongs).toEqual([]);
  });
});

describe("the books of a response", () => {
  it.each(["500", "404", "302", "199"])(
    "status %s passes unchanged and counts as ModelServerError once (E-74, D-18)",
    (status) => {
      const h = routed().answer("oops", status, "text/plain");
      expect(bodyOf(h.replies, "response").bytes.toString()).toBe("oops");
      expect(keysOf(h.replies.at(-2).responseHeaders.response.headerMutation)).not.toContain(":status");
      h.reset();
      expect(h.core.total("llm_d_epp_request_error_total", { ...labels, error_code: "ModelServerError" })).toBe(1);
      expect(h.core.total("llm_d_epp_request_error_total")).toBe(1);
    },
  );

  it("reads the status from `status` where `:status` is missing (E-74)", () => {
    const h = routed();
    h.envoy.responseHeaders([["status", "500"]], true);
    expect(h.core.total("llm_d_epp_request_error_total", { error_code: "ModelServerError" })).toBe(1);
  });

  it.each(["200", "201", "299"])("status %s counts as no error (E-74)", (status) => {
    expect(routed().answer("{}", status).core.total("llm_d_epp_request_error_total")).toBe(0);
  });

  it("follow the endpoint that served, by metadata, else by attribute, offered or not (E-75, E-76, D-19)", () => {
    const reports = [
      { metadata: { "envoy.lb": { "x-gateway-destination-endpoint-served": "10.0.0.2:8000" } } },
      { attributes: { "envoy.filters.http.ext_proc": { "upstream.address": "10.0.0.2:8000" } } },
      {
        metadata: { "envoy.lb": { "x-gateway-destination-endpoint-served": "10.0.0.2:8000" } },
        attributes: { "envoy.filters.http.ext_proc": { "upstream.address": "10.0.0.1:8000" } },
      },
    ];
    for (const report of reports) {
      const h = routed({ endpoints: [{ metrics: {} }, { metrics: { waiting: 50 } }] });
      expect(h.destination).toBe("10.0.0.1:8000");
      expect([h.core.endpoint(1).inFlight.requests, h.core.endpoint(2).inFlight.requests]).toEqual([1, 0]);
      h.envoy.responseHeaders(JSON_ANSWER, false, report);
      expect([h.core.endpoint(1).inFlight.requests, h.core.endpoint(2).inFlight.requests]).toEqual([0, 1]);
      h.envoy.responseBody("{}", true, report);
      expect(h.core.inFlight).toBe(0);
      expect(h.core.endpoint(2).inFlight.tokens).toBe(0);
    }
  });

  it.each([
    ["no report (E-77)", {}],
    ["an unknown endpoint", { metadata: { "envoy.lb": { "x-gateway-destination-endpoint-served": "1.2.3.4:5" } } }],
    ["a report of another kind", { metadata: { "envoy.lb": { "x-gateway-destination-endpoint-served": 7 } } }],
    ["an empty report", { metadata: { "envoy.lb": { "x-gateway-destination-endpoint-served": "" } } }],
  ])("stay with the pick for %s", (_, report) => {
    const h = routed({ endpoints: [{ metrics: {} }, { metrics: { waiting: 50 } }] });
    h.envoy.responseHeaders(JSON_ANSWER, false, report);
    expect(h.core.endpoint(1).inFlight.requests).toBe(1);
    h.envoy.responseBody("{}", true);
    expect(h.core.inFlight).toBe(0);
    expect(h.wrongs).toEqual([]);
  });

  it.each(["upstream connect error or disconnect/reset before headers. reset reason: x", "no healthy upstream"])(
    "take Envoy's own answer (%s) for a failed attempt, not for a model server's (D-85)",
    (text) => {
      const h = routed({ endpoints: [{ metrics: {} }, { metrics: { waiting: 50 } }] }).answer(
        text,
        "503",
        "text/plain",
      );
      expect(bodyOf(h.take(), "response")).toEqual({ bytes: Buffer.from(text), ends: [true] });
      expect(h.core.endpoint(1).state).toBe("down");
      expect(h.core.endpoint(2).state).toBe("up");
      expect(h.core.inFlight).toBe(0);
      expect(h.core.total("llm_d_epp_request_error_total", { error_code: "ModelServerError" })).toBe(0);
      expect(h.core.total("llm_d_epp_request_error_total", { ...labels, error_code: "ServiceUnavailable" })).toBe(1);
      expect(h.core.total("llm_d_epp_request_error_total")).toBe(1);
      expect(h.core.total("llm_d_epp_response_size_bytes_count")).toBe(0);
    },
  );

  it("take the same text for the model server's when it is reported to have served, or has another type (D-85)", () => {
    const text = "no healthy upstream";
    const reported = routed();
    const served = { metadata: { "envoy.lb": { "x-gateway-destination-endpoint-served": reported.destination } } };
    reported.envoy.responseHeaders(
      [
        [":status", "503"],
        ["content-type", "text/plain"],
      ],
      false,
      served,
    );
    reported.envoy.responseBody(text, true);
    const typed = routed().answer(text, "503", "application/json");
    for (const { core } of [reported, typed]) {
      expect(core.endpoints.list().map((endpoint) => endpoint.state)).toEqual(["up", "up", "up"]);
      expect(core.total("llm_d_epp_request_error_total", { error_code: "ModelServerError" })).toBe(1);
    }
  });

  it("bring a down endpoint back that has answered", () => {
    const h = new SessionHarness(new TestCore({ endpoints: 1 }));
    h.core.endpoints.attemptFailed(h.core.endpoint(1), "connect", "refused");
    h.post(chatBody());
    expect(destinationOf(h.replies[0])).toBe("10.0.0.1:8000");
    h.answer("{}");
    expect(h.core.endpoint(1).state).toBe("up");
  });
});

describe("an answer that Envoy gave before the request was complete", () => {
  it("is answered in its phase alone, and the rest of the request gets nothing", () => {
    const h = new SessionHarness(new TestCore());
    h.envoy.requestHeaders([[":path", "/v1/chat/completions"]]);
    h.envoy.requestBody("{");
    h.answer("Payload Too Large", "413", "text/plain");
    expect(h.take().map((reply) => Object.keys(reply)[0])).toEqual(["responseHeaders", "responseBody"]);
    h.envoy.requestBody("}", true);
    expect(h.take()).toEqual([]);
    h.reset();
    expect([h.core.inFlight, h.core.budget.used]).toEqual([0, 0]);
    expect(h.wrongs).toEqual([]);
  });
});

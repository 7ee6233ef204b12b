import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { encodeRequest, fromStruct, headerMap } from "../../../test/support/extproc-client.ts";
import {
  bodyOf,
  chatBody,
  destinationOf,
  headersOf,
  keysOf,
  SessionHarness,
} from "../../../test/support/session-harness.ts";
import { defineScorer } from "../../base/plugin/define.ts";

const open = (options: ConstructorParameters<typeof TestCore>[0] = {}) => new SessionHarness(new TestCore(options));
const POST = [
  [":method", "POST"],
  [":path", "/v1/chat/completions"],
] as const;

describe("a request with a body", () => {
  it("is answered with nothing before its end, then headers, then the body (E-15, E-17, D-6)", () => {
    const h = open();
    h.envoy.requestHeaders(POST);
    h.envoy.requestBody(chatBody().slice(0, 10));
    h.envoy.requestBody(chatBody().slice(10));
    expect(h.replies).toEqual([]);
    h.envoy.requestBody("", true);
    const replies = h.take();
    expect(replies.map((reply) => Object.keys(reply)[0])).toEqual(["requestHeaders", "requestBody"]);
    expect(bodyOf(replies, "request")).toEqual({ bytes: Buffer.from(chatBody()), ends: [true] });
    expect(h.core.inFlight).toBe(1);
    expect(h.wrongs).toEqual([]);
  });

  it("carries one destination, the same in header and metadata, and metadata nowhere else (E-30, E-40, E-41, E-42, D-13)", () => {
    const h = open().post(chatBody());
    const [headers, body] = h.take();
    expect(destinationOf(headers)).toMatch(/^10\.0\.0\.[123]:8000$/);
    expect(fromStruct(headers.dynamicMetadata)).toEqual({
      "envoy.lb": { "x-gateway-destination-endpoint": destinationOf(headers) },
    });
    expect(headers.requestHeaders.response.clearRouteCache).toBe(true);
    expect(Object.keys(body)).toEqual(["requestBody"]);
    expect(Object.keys(body.requestBody.response)).toEqual(["bodyMutation"]);
    expect(h.wrongs).toEqual([]);
  });

  it("goes out with exactly the bytes that came in, white space and big integers included (E-16, E-31)", () => {
    const text =
      '{ "seed" : 12345678901234567890, "model":"llama",\n "messages":[{"role":"user","content":"héé 😀 <&>"}]}';
    const whole = open().post(text).take();
    expect(bodyOf(whole, "request").bytes.toString()).toBe(text);
    const bytes = Buffer.from(text);
    for (let cut = 0; cut <= bytes.length; cut++) {
      const h = open();
      h.envoy.requestHeaders([...POST, ["x-request-id", "r"]]);
      h.envoy.requestBody(bytes.subarray(0, cut));
      h.envoy.requestBody(bytes.subarray(cut), true);
      expect(bodyOf(h.replies, "request"), `cut at ${cut}`).toEqual({ bytes, ends: [true] });
      expect(h.destination).toBe(destinationOf(whole[0]));
    }
  });

  it.each([
    [62_000, [true]],
    [62_001, [false, true]],
    [124_000, [false, true]],
    [125_000, [false, false, true]],
  ])("of %i bytes is cut into chunks with one end (E-18)", (size, ends) => {
    const body = chatBody("x".repeat(size - chatBody("").length));
    expect(body.length).toBe(size);
    const h = open().post(body);
    expect(bodyOf(h.replies, "request").ends).toEqual(ends);
    expect(bodyOf(h.replies, "request").bytes.toString()).toBe(body);
    expect(headersOf(h.replies[0].requestHeaders.response.headerMutation)["Content-Length"]).toBe(String(size));
    expect(h.wrongs).toEqual([]);
  });

  it("is put together whatever the pieces are (E-16)", () => {
    const body = Buffer.from(chatBody("abc".repeat(100_000)));
    const h = open();
    h.envoy.requestHeaders(POST);
    for (let at = 0; at < body.length; at += 16_384) h.envoy.requestBody(body.subarray(at, at + 16_384));
    h.envoy.requestBody("", true);
    expect(bodyOf(h.replies, "request").bytes.equals(body)).toBe(true);
    expect(h.wrongs).toEqual([]);
  });

  it("ignores a second end and what comes behind it (E-29, D-12)", () => {
    const h = open().post(chatBody());
    h.take();
    h.envoy.requestBody(chatBody(), true);
    h.envoy.requestBody("more", true);
    expect(h.take()).toEqual([]);
    expect(h.core.inFlight).toBe(1);
    expect(h.core.total("llm_d_epp_request_total")).toBe(1);
    // Nothing is owed for them either: the end of the stream is a clean one.
    expect(h.halfClose().stream.status).toBe(0);
  });

  it("has one set of headers: a second one is not looked at", () => {
    const h = open();
    h.envoy.requestHeaders(POST);
    h.session.message(encodeRequest({ requestHeaders: { headers: headerMap([[":path", "/x"]]), endOfStream: true } }));
    expect(h.replies).toEqual([]);
    h.envoy.requestBody(chatBody(), true);
    h.session.message(encodeRequest({ requestHeaders: { headers: headerMap([[":path", "/x"]]), endOfStream: true } }));
    expect(h.take().map((reply) => Object.keys(reply)[0])).toEqual(["requestHeaders", "requestBody"]);
    h.answer("{}");
    h.take();
    h.session.message(encodeRequest({ responseHeaders: { headers: headerMap([[":status", "500"]]) } }));
    expect(h.take()).toEqual([]);
    expect(h.core.total("llm_d_epp_request_total")).toBe(1);
    expect(h.core.total("llm_d_epp_request_error_total")).toBe(0);
    expect(h.wrongs).toEqual([]);
  });

  it("without headers before it is routed as a completion (E-34)", () => {
    const h = open();
    h.envoy.requestBody('{"model":"llama","prompt":"hi"}', true);
    const replies = h.take();
    expect(destinationOf(replies[0])).toMatch(/:8000$/);
    expect(bodyOf(replies, "request").ends).toEqual([true]);
    expect(headersOf(replies[0].requestHeaders.response.headerMutation)["x-request-id"]).toMatch(/^[0-9a-f-]{36}$/);
    expect(h.wrongs).toEqual([]);
  });

  it("gives its bytes back to the budget as soon as they are forwarded", () => {
    const core = new TestCore();
    const h = new SessionHarness(core);
    h.envoy.requestHeaders(POST);
    h.envoy.requestBody(chatBody().slice(0, 20));
    expect(core.budget.used).toBe(20);
    h.envoy.requestBody(chatBody().slice(20), true);
    expect(core.budget.used).toBe(0);
  });
});

describe("the header mutation of a request", () => {
  it("echoes what a proxy would not notice, with our entries first (E-03, E-20, E-21, E-22, E-23, E-24, E-25, D-5, D-26, D-86)", () => {
    const h = open();
    h.post(chatBody(), [
      [":path", "/v1/chat/completions"],
      ["hi", "mom"],
      ["Mixed-Case", "Kept"],
      ["x-request-id", "r-1"],
      ["content-length", "9"],
      ["x-gateway-destination-endpoint", "6.6.6.6:1"],
      ["x-gateway-inference-objective", "batch"],
      ["x-llm-d-slo-ttft-ms", "5"],
      ["cookie", "a"],
      ["cookie", "b"],
      ["transfer-encoding", "chunked"],
      ["connection", "close"],
      ["te", "trailers"],
    ]);
    const mutation = h.replies[0].requestHeaders.response.headerMutation;
    expect(keysOf(mutation)).toEqual([
      "x-gateway-destination-endpoint",
      "Content-Length",
      ":path",
      "hi",
      "mixed-case",
      "x-request-id",
      "te",
    ]);
    expect(headersOf(mutation)).toMatchObject({
      "x-gateway-destination-endpoint": h.destination,
      "Content-Length": String(chatBody().length),
      "mixed-case": "Kept",
      "x-request-id": "r-1",
    });
    expect(mutation.removeHeaders.sort()).toEqual(["x-gateway-inference-objective", "x-llm-d-slo-ttft-ms"]);
    expect(h.wrongs).toEqual([]);
  });

  it("reads values from raw_value, else from value (E-02)", () => {
    const body = chatBody();
    const seen = ["rawValue", "value"].map((member) => {
      const h = open({ objectives: ["batch=-1"] });
      const of = (text: string) => (member === "value" ? { value: text } : { rawValue: Buffer.from(text) });
      h.envoy.send({
        requestHeaders: {
          headers: {
            headers: [
              { key: ":path", ...of("/v1/chat/completions") },
              { key: "x-request-id", ...of("r-7") },
            ],
          },
        },
      });
      h.envoy.requestBody(body, true);
      return h.replies.map((reply) => JSON.stringify(reply));
    });
    expect(seen[0]).toEqual(seen[1]);
    expect(seen[0]).toHaveLength(2);
  });

  it("names a request that has no id with a UUID, and keeps an id of any key case (E-27)", () => {
    const idOf = (headers: readonly (readonly [string, string])[]) => {
      const h = open().post(chatBody(), headers);
      return headersOf(h.replies[0].requestHeaders.response.headerMutation)["x-request-id"];
    };
    expect(idOf([])).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(idOf([["x-request-id", ""]])).toMatch(/^[0-9a-f]{8}-/);
    expect(idOf([["X-Request-ID", "mine"]])).toBe("mine");
  });

  it("keeps two streams with one request id apart (E-05)", () => {
    const core = new TestCore();
    const [a, b] = [new SessionHarness(core), new SessionHarness(core)];
    const ended = (text: string) => ({ bytes: Buffer.from(text), ends: [true] });
    for (const h of [a, b]) h.envoy.requestHeaders([...POST, ["x-request-id", "same"]]);
    a.envoy.requestBody(chatBody("first"), true);
    expect(b.replies).toEqual([]);
    a.reset();
    b.envoy.requestBody(chatBody("second"), true);
    expect(bodyOf(a.replies, "request")).toEqual(ended(chatBody("first")));
    expect(bodyOf(b.replies, "request")).toEqual(ended(chatBody("second")));
    expect(core.inFlight).toBe(1);
  });
});

describe("a request without a body", () => {
  it("is answered at once with a pick and nothing else (E-10, E-11, D-8)", () => {
    const h = open();
    h.envoy.requestHeaders(
      [
        [":method", "GET"],
        [":path", "/v1/models"],
        ["hi", "mom"],
      ],
      true,
    );
    const replies = h.take();
    expect(replies).toHaveLength(1);
    expect(destinationOf(replies[0])).toMatch(/^10\.0\.0\.[123]:8000$/);
    expect(replies[0].requestHeaders.response.clearRouteCache).toBe(true);
    expect(keysOf(replies[0].requestHeaders.response.headerMutation)).not.toContain("Content-Length");
    expect(h.core.inFlight).toBe(0);
    expect(h.core.total("llm_d_epp_request_total")).toBe(0);
    expect(h.wrongs).toEqual([]);
  });

  it("is spread evenly over the pool (E-10)", () => {
    const core = new TestCore();
    const counts = new Map<string, number>();
    for (let i = 0; i < 900; i++) {
      const h = new SessionHarness(core);
      h.envoy.requestHeaders([[":path", "/v1/models"]], true);
      counts.set(h.destination!, (counts.get(h.destination!) ?? 0) + 1);
    }
    expect(counts.size).toBe(3);
    for (const count of counts.values()) expect(count).toBeGreaterThan(240);
  });

  it("keeps to the subset, and avoids endpoints that are down (E-13)", () => {
    const core = new TestCore();
    core.endpoints.attemptFailed(core.endpoint(1), "connect", "refused");
    for (let i = 0; i < 20; i++) {
      const h = new SessionHarness(core);
      h.envoy.requestHeaders([[":path", "/v1/models"]], true);
      expect(h.destination).not.toBe("10.0.0.1:8000");
      const hinted = new SessionHarness(core);
      hinted.envoy.requestHeaders([[":path", "/v1/models"]], true, {
        metadata: { "envoy.lb.subset_hint": { "x-gateway-destination-endpoint-subset": ["10.0.0.3:8000"] } },
      });
      expect(hinted.destination).toBe("10.0.0.3:8000");
    }
  });

  it("without any endpoint gets 503 (E-14)", () => {
    const h = open({ endpoints: 0 });
    h.envoy.requestHeaders([[":path", "/v1/models"]], true);
    expect(h.refusal()).toEqual({
      status: 503,
      text: "inference error: ServiceUnavailable - no pods available in datastore",
      dropped: "rejected-no-endpoints",
    });
    expect(h.stream.status).toBe(0);
  });

  it("is what a request is whose body the proxy does not send (E-37, D-10)", () => {
    const h = open();
    h.envoy.requestHeaders(POST, false, { modes: { request: 0, response: 4 } });
    const replies = h.take();
    expect(replies).toHaveLength(1);
    expect(destinationOf(replies[0])).toMatch(/:8000$/);
    expect(h.wrongs).toEqual([]);
  });
});

describe("the destination", () => {
  it("lists as many endpoints as the picker offers, best first, and fewer where there are fewer (E-43, D-13)", () => {
    const config = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: max-score-picker
  parameters: {maxNumOfEndpoints: 3}
`;
    const metrics = [9, 0, 5, 7].map((waiting) => ({ metrics: { waiting } }));
    expect(open({ config, endpoints: metrics }).post(chatBody()).destination).toBe(
      "10.0.0.2:8000,10.0.0.3:8000,10.0.0.4:8000",
    );
    expect(open({ config, endpoints: metrics.slice(0, 2) }).post(chatBody()).destination).toBe(
      "10.0.0.2:8000,10.0.0.1:8000",
    );
  });

  it("brackets IPv6, scheduled or not (E-45, D-13)", () => {
    const pool = { endpoints: [{ address: "fd00::1", port: 9000 }] };
    expect(open(pool).post(chatBody()).destination).toBe("[fd00::1]:9000");
    const h = open(pool);
    h.envoy.requestHeaders([[":path", "/v1/models"]], true);
    expect(h.destination).toBe("[fd00::1]:9000");
  });

  it("is the least loaded endpoint (epp-protocol appendix B: routed to the second of three)", () => {
    const h = open({
      endpoints: [
        { metrics: { waiting: 3, kvUsage: 0.2 } },
        { metrics: { waiting: 0, kvUsage: 0.1 } },
        { metrics: { waiting: 10, kvUsage: 0.2 } },
      ],
    }).post(chatBody());
    expect(h.destination).toBe("10.0.0.2:8000");
  });

  it("is the endpoint with the adapter, even with a higher KV use (epp-protocol appendix B)", () => {
    const adapters = (...names: string[]) => ({ maxLora: 4, loraRunning: new Set(names) });
    const h = open({
      config: `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: lora-affinity-scorer
- type: kv-cache-utilization-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: lora-affinity-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 1}
  - {pluginRef: max-score-picker}
`,
      endpoints: [
        { metrics: { kvUsage: 0.1, ...adapters("other") } },
        { metrics: { kvUsage: 0.3, ...adapters("llama") } },
        { metrics: { kvUsage: 0.1, ...adapters("other") } },
      ],
    }).post(chatBody());
    expect(h.destination).toBe("10.0.0.2:8000");
  });

  it("is given for an unknown model, an objective nobody defined, and a rewrite header that changes nothing (E-86, epp-protocol appendix B)", () => {
    const h = open().post(chatBody("x", { model: "nobody-knows-it" }), [
      ["x-gateway-inference-objective", "made-up"],
      ["x-gateway-model-name-rewrite", "nobody-knows-it"],
    ]);
    expect(h.destination).toMatch(/:8000$/);
    expect(h.core.total("llm_d_epp_request_total", { model_name: "nobody-knows-it", priority: "0" })).toBe(1);
  });

  it("never sends two decisions to one endpoint while another is idle: each sees the one before it", () => {
    const core = new TestCore();
    const destinations = [1, 2, 3].map((n) => new SessionHarness(core).post(chatBody(`prompt ${n}`)).destination);
    expect(new Set(destinations).size).toBe(3);
  });
});

describe("the subset hint", () => {
  const HINT = "x-gateway-destination-endpoint-subset";
  const hint = (value: unknown) => ({ metadata: { "envoy.lb.subset_hint": { [HINT]: value } } });
  const LOADED = [
    { metrics: { waiting: 0 } },
    { metrics: { waiting: 5 } },
    { metrics: { waiting: 9 } },
    { address: "10.0.0.2", port: 8001, metrics: { waiting: 7 } },
    { address: "fd00::9", metrics: { waiting: 8 } },
  ];
  const picked = (value: unknown, options = {}) => {
    const h = open({ endpoints: LOADED, ...options });
    h.envoy.requestHeaders(POST, false, hint(value));
    h.envoy.requestBody(chatBody(), true);
    return h.replies[0].immediateResponse?.status.code ?? h.destination;
  };

  it.each([
    ["a list restricts, though the best endpoint is outside (E-51)", ["10.0.0.3:8000"], "10.0.0.3:8000"],
    ["the best of those listed (E-51)", ["10.0.0.3:8000", "10.0.0.2:8000"], "10.0.0.2:8000"],
    ["one string with commas (E-53, D-14)", "10.0.0.3:8000, 10.0.0.2:8000", "10.0.0.2:8000"],
    ["a member with commas (E-53)", ["10.0.0.3:8000,10.0.0.2:8000"], "10.0.0.2:8000"],
    ["a port matches that port only (E-54)", ["10.0.0.2:8001"], "10.0.0.2:8001"],
    ["no port matches any (E-54)", ["10.0.0.2"], "10.0.0.2:8000"],
    ["a port nobody has (E-54)", ["10.0.0.2:9999"], 503],
    ["members that are no strings are skipped (E-55)", [7, null, { a: 1 }, "10.0.0.3:8000"], "10.0.0.3:8000"],
    ["only members that are no strings (E-55)", [7, null], 503],
    ["IPv6 in any spelling (E-56)", ["[fd00:0::0009]:8000"], "[fd00::9]:8000"],
    ["an empty list (E-12, D-14)", [], 503],
    ["nothing that matches (E-52)", ["192.168.7.7:8000"], 503],
    ["an empty string", "", 503],
    ["another kind (6.2)", 7, 503],
  ])("%s", (_, value, expected) => {
    expect(picked(value)).toBe(expected);
  });

  it("absent, or with another key only, is the whole pool (E-50)", () => {
    const h = open({ endpoints: LOADED });
    h.envoy.requestHeaders(POST, false, { metadata: { "envoy.lb.subset_hint": { other: ["10.0.0.3"] }, x: {} } });
    h.envoy.requestBody(chatBody(), true);
    expect(h.destination).toBe("10.0.0.1:8000");
    expect(open({ endpoints: LOADED }).post(chatBody()).destination).toBe("10.0.0.1:8000");
  });

  it("of the body message wins over that of the headers, wherever in the body it came (E-57, D-14)", () => {
    const h = open({ endpoints: LOADED });
    h.envoy.requestHeaders(POST, false, hint(["10.0.0.3:8000"]));
    h.envoy.requestBody("", false, hint(["10.0.0.2:8000"]));
    h.envoy.requestBody(chatBody(), true);
    expect(h.destination).toBe("10.0.0.2:8000");
    const last = open({ endpoints: LOADED });
    last.envoy.requestHeaders(POST, false, hint(["10.0.0.3:8000"]));
    last.envoy.requestBody(chatBody(), true, hint([]));
    expect(last.refusal()).toEqual({
      status: 503,
      text: "inference error: ServiceUnavailable - failed to find endpoint candidates for serving the request",
      dropped: "rejected-no-endpoints",
    });
  });

  it("is a no-op with --disable-endpoint-subset-filter (E-58)", () => {
    expect(picked(["10.0.0.3:8000"], { ignoreSubset: true })).toBe("10.0.0.1:8000");
    expect(picked([], { ignoreSubset: true })).toBe("10.0.0.1:8000");
  });
});

describe("what a plugin does wrong", () => {
  it("does not keep a request from its destination (E-49)", () => {
    const broken = defineScorer({
      type: "broken-scorer",
      describe: "Fails.",
      create: () => ({
        score() {
          throw new Error("broken");
        },
      }),
    });
    const h = open({ plugins: [broken] }).post(chatBody());
    expect(h.destination).toMatch(/:8000$/);
    expect(h.wrongs).toEqual([]);
  });
});

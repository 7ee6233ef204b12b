import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { chatBody, headersOf, SessionHarness } from "../../../test/support/session-harness.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { defineFilter } from "../../base/plugin/define.ts";
import type { Exchange } from "../../picker/exchange/wire.ts";

const open = (options: ConstructorParameters<typeof TestCore>[0] = {}) => new SessionHarness(new TestCore(options));
const PATH = ":path";
const CHAT = [PATH, "/v1/chat/completions"] as const;
const COMPLETIONS = [PATH, "/v1/completions"] as const;

/** An exchange whose `method` throws. */
function throwing(method: keyof Exchange, message = `${method} broke`): (exchange: Exchange) => Exchange {
  return (exchange) =>
    new Proxy(exchange, {
      get(target, key) {
        if (key === method)
          return () => {
            throw new Error(message);
          };
        const value = Reflect.get(target, key) as unknown;
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
}

describe("a refusal", () => {
  it.each([
    [
      "malformed JSON (E-81)",
      CHAT,
      "no healthy upstream",
      "error unmarshaling request bodyMap: invalid character 'o' in literal null (expecting 'u')",
    ],
    ["an empty body", CHAT, "", "error unmarshaling request bodyMap: unexpected end of JSON input"],
    [
      "a list for an object (pitfall 29)",
      CHAT,
      "[]",
      "error unmarshaling request bodyMap: json: cannot unmarshal array into Go value of type map[string]interface {}",
    ],
    ["no messages (E-83)", CHAT, '{"model":"m"}', "invalid chat completions request: must have valid messages field"],
    ["no prompt (E-83)", COMPLETIONS, '{"model":"m"}', "invalid completions request: must have prompt field"],
    ["no model", COMPLETIONS, '{"prompt":"hello world"}', "model not found in request body"],
    ["an empty model (pitfall 30)", COMPLETIONS, '{"model":"","prompt":"x"}', "model not found in request body"],
  ])("%s is a 400 with its text, counted once", (_, path, body, detail) => {
    const h = open().post(body, [path]);
    expect(h.refusal()).toEqual({ status: 400, text: `inference error: BadRequest - ${detail}`, dropped: undefined });
    h.reset();
    expect(h.core.total("llm_d_epp_request_error_total", { error_code: "BadRequest" })).toBe(1);
    expect(h.core.total("llm_d_epp_request_error_total")).toBe(1);
    expect(h.core.total("llm_d_epp_request_total")).toBe(0);
    expect(h.wrongs).toEqual([]);
  });

  it("says why where the request asks for that, beside the dropped reason", () => {
    const h = open({ endpoints: 0, decisionHeader: true });
    h.post(chatBody(), [["x-sluice-explain", "1"]]);
    const { headers } = h.replies[0].immediateResponse;
    expect(headersOf(headers)).toEqual({
      "x-llm-d-request-dropped-reason": "rejected-no-endpoints",
      "x-request-id": expect.stringMatching(/^[0-9a-f-]{36}$/),
      "x-sluice-decision": "1",
      "x-sluice-decision-reason": expect.stringMatching(/^Request .* was refused with 503: no endpoint is known/),
    });
    expect(h.wrongs).toEqual([]);
  });

  it("ends the stream with OK, and nothing is sent or read behind it (E-80, E-92)", () => {
    const h = open().post("{");
    expect(h.stream.status).toBe(0);
    expect(Object.keys(h.replies[0].immediateResponse)).toEqual(["status", "headers", "body"]);
    h.envoy.requestBody(chatBody(), true);
    h.answer("{}");
    h.halfClose().reset();
    expect(h.replies).toHaveLength(1);
    expect([h.core.inFlight, h.core.budget.used]).toEqual([0, 0]);
    expect(h.core.total("sluice_exchanges_total", { outcome: "rejected" })).toBe(1);
    expect(h.core.total("sluice_exchanges_total")).toBe(1);
    expect(h.wrongs).toEqual([]);
  });

  it("for the request comes before one for the pool (E-82)", () => {
    const h = open({ endpoints: 0 }).post('{"prompt":"hello world"}', [COMPLETIONS]);
    expect(h.refusal()).toMatchObject({
      status: 400,
      text: expect.stringContaining("model not found in request body"),
    });
  });

  it("for want of endpoints is a 503 that says so to machines (E-84, E-91)", () => {
    expect(open({ endpoints: 0 }).post(chatBody()).refusal()).toEqual({
      status: 503,
      text: "inference error: ServiceUnavailable - failed to find endpoint candidates for serving the request",
      dropped: "rejected-no-endpoints",
    });
  });

  it("under saturation is a 429 for sheddable requests alone (E-85, E-91, epp-protocol appendix B)", () => {
    const full = { endpoints: [{ metrics: { waiting: 50 } }, { metrics: { waiting: 90 } }], objectives: ["batch=-1"] };
    const shed = open(full).post(chatBody(), [["x-gateway-inference-objective", "batch"]]);
    expect(shed.refusal()).toEqual({
      status: 429,
      text: "inference error: ResourceExhausted - system saturated, sheddable request dropped",
      dropped: "rejected-saturated",
    });
    shed.reset();
    expect(shed.core.total("llm_d_epp_request_error_total", { error_code: "ResourceExhausted" })).toBe(1);
    expect(open(full).post(chatBody()).destination).toBe("10.0.0.1:8000");
    const idle = { ...full, endpoints: [{ metrics: {} }] };
    expect(open(idle).post(chatBody(), [["x-gateway-inference-objective", "batch"]]).destination).toBe("10.0.0.1:8000");
  });

  it("of model and priority that are known is counted under them (scheduling 8.3 rule 12)", () => {
    const full = { endpoints: [{ metrics: { waiting: 50 } }], objectives: ["batch=-1"] };
    const { core } = open(full).post(chatBody(), [["x-gateway-inference-objective", "batch"]]);
    const labels = { model_name: "llama", target_model_name: "llama", fairness_id: "default-flow", priority: "-1" };
    expect(core.total("llm_d_epp_request_error_total", { ...labels, error_code: "ResourceExhausted" })).toBe(1);
    expect(core.total("llm_d_epp_request_running")).toBe(0);
  });

  it("by the scheduler is a 429 (E-88)", () => {
    const nobody = defineFilter({
      type: "nobody-filter",
      describe: "Keeps nobody.",
      create: () => ({ filter: ({ keep }) => void keep.fill(0) }),
    });
    expect(
      open({ plugins: [nobody] })
        .post(chatBody())
        .refusal(),
    ).toMatchObject({
      status: 429,
      text: "inference error: ResourceExhausted - failed to find target endpoint: nobody-filter left none of 3 candidates",
    });
  });

  it("carries no dropped-reason header when that is switched off (E-91, C-10)", () => {
    const h = new SessionHarness(new TestCore({ endpoints: 0 }), {
      wire: { emitDroppedReason: false, emitRequestId: false },
    }).post(chatBody());
    expect(h.replies[0].immediateResponse.headers).toBeUndefined();
  });

  it("carries the id of its request, also of one that sent none or was refused before its headers", () => {
    const idOf = (h: SessionHarness) => headersOf(h.replies[0].immediateResponse.headers)["x-request-id"];
    expect(idOf(open().post("[]", [["x-request-id", "mine"]]))).toBe("mine");
    expect(idOf(open().post("[]"))).toMatch(/^[0-9a-f-]{36}$/);
    const early = open({ maxRequestBytes: 5 });
    early.envoy.requestBody("too much");
    expect(idOf(early)).toMatch(/^[0-9a-f-]{36}$/);
  });

  it("of what is too large is a 413, by the declared length at once, else by what arrives (C-21)", () => {
    const declared = open({ maxRequestBytes: 100 });
    declared.envoy.requestHeaders([CHAT, ["content-length", "101"]]);
    expect(declared.refusal()).toEqual({
      status: 413,
      text: "inference error: PayloadTooLarge - request body exceeds 100 bytes",
      dropped: undefined,
    });
    for (const length of [[], [["content-length", "5"] as const]]) {
      const h = open({ maxRequestBytes: 100 });
      h.envoy.requestHeaders([CHAT, ...length]);
      h.envoy.requestBody("x".repeat(60));
      h.envoy.requestBody("x".repeat(40));
      expect(h.take()).toEqual([]);
      h.envoy.requestBody("x");
      expect(h.refusal().status).toBe(413);
      expect(h.core.budget.used).toBe(0);
      expect(h.wrongs).toEqual([]);
    }
  });
});

describe("bytes that are no message", () => {
  it("end the stream with UNKNOWN, and the exchange's books are closed (E-95)", () => {
    const h = open();
    h.envoy.requestHeaders([CHAT]);
    h.envoy.requestBody("{");
    h.session.message(Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f]));
    expect(h.stream.status).toBe(2);
    expect(h.stream.statusMessage).toMatch(/^cannot receive stream request: /);
    expect(h.core.budget.used).toBe(0);
    expect(h.core.total("sluice_exchanges_total", { outcome: "error" })).toBe(1);
  });

  it("of kinds or fields added later are stepped over (E-04, D-2)", () => {
    const h = open();
    h.session.message(Buffer.from([0x6a, 0x02, 0x08, 0x01]));
    h.session.message(Buffer.alloc(0));
    expect(h.stream.status).toBeUndefined();
    expect(h.post(chatBody()).destination).toMatch(/:8000$/);
  });
});

describe("a failure of our own", () => {
  it.each(["requestHeaders", "requestBody"] as const)("in %s is a 500 and told (E-93)", (method) => {
    const h = new SessionHarness(new TestCore(), { wrap: throwing(method) }).post(chatBody());
    expect(h.refusal()).toEqual({
      status: 500,
      text: `inference error: Internal - ${method} broke`,
      dropped: undefined,
    });
    expect(h.stream.status).toBe(0);
    expect(h.errors.map(String)).toEqual([`Error: ${method} broke`]);
    expect(h.core.total("llm_d_epp_request_error_total", { error_code: "Internal" })).toBe(1);
  });

  it("before the response headers are answered is a 500", () => {
    const served = { metadata: { "envoy.lb": { "x-gateway-destination-endpoint-served": "10.0.0.1:8000" } } };
    const h = new SessionHarness(new TestCore(), { wrap: throwing("servedBy") }).post(chatBody());
    h.take();
    h.envoy.responseHeaders([[":status", "200"]], false, served);
    expect(h.refusal().status).toBe(500);
    expect(h.core.inFlight).toBe(0);
  });

  it("is told to the client in one bounded line (epp-protocol 9.2)", () => {
    const wordy = throwing("requestBody", `it\u0001 broke\r\n${"x".repeat(5000)}`);
    const { text } = new SessionHarness(new TestCore(), { wrap: wordy }).post(chatBody()).refusal();
    expect(text).toMatch(/^inference error: Internal - it {2}broke xxx/);
    expect(text.length).toBeLessThan(1100);
    expect(text).not.toMatch(/\p{Cc}/u);
  });

  it("in responseHeaders is a 500 in place of the answer (E-93)", () => {
    const h = new SessionHarness(new TestCore(), { wrap: throwing("responseHeaders") }).post(chatBody());
    h.take();
    h.envoy.responseHeaders([[":status", "200"]]);
    expect(h.refusal()).toMatchObject({ status: 500, text: "inference error: Internal - responseHeaders broke" });
    expect([h.stream.status, h.core.inFlight]).toEqual([0, 0]);
    expect(h.filter.violations).toEqual([]);
  });

  it("in responseBody breaks the stream: a part is sent already (E-93, D-25)", () => {
    const h = new SessionHarness(new TestCore(), { wrap: throwing("responseBody") }).post(chatBody()).answer("{}");
    expect(h.stream.status).toBe(13);
    expect(h.stream.statusMessage).toBe("responseBody broke");
    expect(h.filter.immediate).toBeUndefined();
    expect(h.core.inFlight).toBe(0);
    expect(h.filter.violations).toEqual([]);
  });

  it("behind a piece of a response without headers breaks the stream as well (D-25)", () => {
    let pieces = 0;
    const atAnswer = (_: unknown, chunk: Uint8Array): Uint8Array => {
      if (++pieces === 2) throw new Error("broke");
      return chunk;
    };
    const h = new SessionHarness(new TestCore(), { plan: { atAnswer } }).post(chatBody());
    h.envoy.responseBody("first");
    h.envoy.responseBody("second");
    expect([h.stream.status, h.filter.immediate]).toEqual([13, undefined]);
  });

  it.each([1, 2, 3])(
    "in sending (send %i) ends the stream with UNKNOWN and the books closed, nothing more is tried (E-70, E-95, D-25)",
    (failing) => {
      const h = open();
      let sends = 0;
      h.stream.onSend = () => {
        if (++sends === failing) throw new Error("broken pipe");
      };
      h.post(chatBody("x".repeat(70_000)));
      expect(h.stream.status).toBe(2);
      expect(h.stream.statusMessage).toBe("failed to send response back to Envoy: broken pipe");
      expect([h.core.inFlight, h.core.budget.used]).toEqual([0, 0]);
      expect(h.core.total("sluice_exchanges_total", { outcome: "error" })).toBe(1);
      expect(sends).toBe(failing);
      expect(h.filter.violations).toEqual([]);
    },
  );

  it("in sending a whole body is UNKNOWN too (E-95)", () => {
    const h = open();
    h.envoy.requestHeaders([CHAT], false, { modes: { request: 2, response: 4 } });
    h.stream.onSend = () => {
      throw new Error("broken pipe");
    };
    h.envoy.requestBody(chatBody(), true);
    expect(h.stream.status).toBe(2);
    expect(h.core.inFlight).toBe(0);
  });

  it.each(["a refusal", "an eviction"])("in sending %s is UNKNOWN too, and hurts nobody else (E-95)", (what) => {
    const h = open();
    if (what === "an eviction") h.post(chatBody());
    h.stream.onSend = () => {
      throw new Error("broken pipe");
    };
    if (what === "a refusal") h.post("{");
    else h.session.evict(new Rejection("evicted", "request evicted by flow control"));
    expect([h.stream.status, h.stream.statusMessage]).toEqual([
      2,
      "failed to send response back to Envoy: broken pipe",
    ]);
    expect([h.core.inFlight, h.core.budget.used]).toEqual([0, 0]);
    expect(h.stream.breaches).toEqual([]);
  });

  it("in a decision that took its time is a 500, and no unhandled rejection (E-93)", async () => {
    const late = new SessionHarness(new TestCore(), { plan: { decide: () => Promise.reject(new Error("too late")) } });
    await late.post(chatBody()).settle();
    expect(late.refusal()).toMatchObject({ status: 500, text: "inference error: Internal - too late" });
    const sending = new SessionHarness(new TestCore(), { plan: { decide: (x) => Promise.resolve(x.route()) } });
    sending.stream.onSend = () => {
      throw new Error("broken pipe");
    };
    await sending.post(chatBody()).settle();
    expect(sending.stream.status).toBe(2);
    expect(sending.fake.ends).toEqual(["error"]);
  });

  it("in deciding is a 500 (E-93)", () => {
    const core = new TestCore();
    core.decider.decide = () => {
      throw new Error("undecided");
    };
    const h = new SessionHarness(core).post(chatBody());
    expect(h.refusal()).toMatchObject({ status: 500, text: "inference error: Internal - undecided" });
    expect(core.errors.map(String)).toEqual(["Error: undecided"]);
    expect([core.inFlight, core.budget.used]).toEqual([0, 0]);
  });
});

describe("observability mode", () => {
  it("is answered with nothing, whatever comes (E-08, D-23)", () => {
    const h = open();
    h.envoy.send({ requestHeaders: { headers: { headers: [] } }, observabilityMode: true });
    h.envoy.send({ requestBody: { body: Buffer.from(chatBody()), endOfStream: true }, observabilityMode: true });
    h.answer("{}");
    h.envoy.send({ responseTrailers: {}, observabilityMode: true });
    h.halfClose().reset();
    expect(h.replies).toEqual([]);
    expect([h.core.inFlight, h.core.budget.used]).toEqual([0, 0]);
    expect(h.core.total("sluice_exchanges_total", { outcome: "no-response-phase" })).toBe(1);
    expect(h.wrongs).toEqual([]);
  });
});

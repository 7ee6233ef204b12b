import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TestCore, type TestCoreOptions } from "../../../test/support/core.ts";
import { fromStruct, type Plain } from "../../../test/support/extproc-client.ts";
import { grpcFrame } from "../../../test/support/grpc-apis.ts";
import { madeModel, madePool } from "../../../test/support/resources/made.cases.ts";
import {
  bodyOf,
  chatBody,
  type HarnessOptions,
  headersOf,
  keysOf,
  SessionHarness,
} from "../../../test/support/session-harness.ts";
import type { ResponseCompleteContext } from "../../base/plugin/kinds.ts";
import { ResourceStore } from "../../pool/resources/resource-store.ts";

// Clauses of the protocol's checklist that only a whole picker shows: session, exchange, models, scheduler and plugins.

const DESTINATION = "x-gateway-destination-endpoint";
const CONFIG = "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\n";
const OK = [[":status", "200"]] as const;
const open = (core: TestCoreOptions = {}, options: HarnessOptions = {}) =>
  new SessionHarness(new TestCore(core), options);
const requestMutation = (h: SessionHarness): Plain => h.replies[0].requestHeaders.response.headerMutation;
const responseMutation = (h: SessionHarness): Plain =>
  h.replies.find(({ responseHeaders }) => responseHeaders !== undefined).responseHeaders.response.headerMutation;

/** System-owned names of epp-protocol 3.4, written down here a second time. */
const SYSTEM_OWNED = `x-gateway-inference-fairness-id x-gateway-inference-objective x-gateway-model-name-rewrite
x-gateway-destination-endpoint x-gateway-destination-endpoint-subset x-gateway-destination-endpoint-served content-length
x-llm-d-inference-fairness-id x-llm-d-inference-objective x-llm-d-model-name-rewrite x-slo-ttft-ms x-slo-tpot-ms
x-llm-d-slo-ttft-ms x-llm-d-slo-tpot-ms x-llm-d-video-fps x-llm-d-video-duration-seconds x-llm-d-video-resolution
x-llm-d-request-dropped-reason`.split(/\s+/);

const HOP_BY_HOP = [
  ["connection", "keep-alive"],
  ["keep-alive", "timeout=5"],
  ["proxy-connection", "close"],
  ["transfer-encoding", "chunked"],
  ["upgrade", "h2c"],
  ["te", "gzip"],
] as const;

describe("a request without a body", () => {
  const get = (...headers: (readonly [string, string])[]) => {
    const h = open({ endpoints: 1 });
    h.envoy.requestHeaders([[":method", "GET"], [":path", "/v1/models"], ["hi", "mom"], ...headers], true);
    return h;
  };

  it("is answered with the destination and nothing that was not asked for (E-10, E-11, epp-protocol 3.2)", () => {
    const header = (key: string, text: string) => ({ header: { key, rawValue: Buffer.from(text) } });
    const answer = (...more: Plain[]) => ({
      response: {
        headerMutation: { setHeaders: [header(DESTINATION, "10.0.0.1:8000"), ...more] },
        clearRouteCache: true,
      },
    });
    const named = get(["x-request-id", "r-1"]);
    expect(named.replies).toHaveLength(1);
    const { requestHeaders, dynamicMetadata, ...others } = named.replies[0];
    expect(requestHeaders).toEqual(answer());
    expect(fromStruct(dynamicMetadata)).toEqual({ "envoy.lb": { [DESTINATION]: "10.0.0.1:8000" } });
    expect(others).toEqual({});
    const nameless = get();
    const id = headersOf(requestMutation(nameless))["x-request-id"]!;
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4/);
    expect(nameless.replies[0].requestHeaders).toEqual(answer(header("x-request-id", id)));
  });

  it("loses the control headers of its client all the same (D-26)", () => {
    expect(requestMutation(get(["x-gateway-inference-objective", "batch"])).removeHeaders).toEqual([
      "x-gateway-inference-objective",
    ]);
  });

  it("has a response like any other, counted without a model (epp-protocol 3.2)", () => {
    const h = get().answer('{"usage":{"prompt_tokens":7}}', "404");
    const nobody = { model_name: "", target_model_name: "" };
    expect(h.core.total("llm_d_epp_request_error_total", { ...nobody, error_code: "ModelServerError" })).toBe(1);
    expect(h.core.total("llm_d_epp_request_input_tokens_sum", nobody)).toBe(7);
    expect(h.wrongs).toEqual([]);
  });
});

describe("the headers of a request and of its response", () => {
  it.each(SYSTEM_OWNED)(
    "%s is written back in neither direction, and no client sets it (E-22, E-23, E-24, E-61)",
    (name) => {
      const h = open().post(chatBody(), [[name, "6"]]);
      h.envoy.responseHeaders([...OK, [name, "6"]]);
      const mutation = requestMutation(h);
      const keys = keysOf(mutation).map((key) => key.toLowerCase());
      const ours = name === DESTINATION || name === "content-length";
      expect(keys.filter((key) => key === name)).toHaveLength(ours ? 1 : 0);
      expect(Object.values(headersOf(mutation))).not.toContain("6");
      expect(mutation.removeHeaders ?? []).toEqual(ours ? [] : [name]);
      expect(keysOf(responseMutation(h))).toEqual(["x-went-into-resp-headers"]);
    },
  );

  it.each(HOP_BY_HOP)("%s: %s is written back in neither direction (E-25, D-86)", (name, value) => {
    const h = open().post(chatBody(), [[name, value]]);
    h.envoy.responseHeaders([...OK, [name, value]]);
    for (const mutation of [requestMutation(h), responseMutation(h)]) {
      expect(keysOf(mutation)).not.toContain(name);
      expect(mutation.removeHeaders ?? []).not.toContain(name);
    }
  });

  it("stay within 100 entries in either direction, what counts first (E-26)", () => {
    const many = Array.from({ length: 120 }, (_, i) => [`x-${i}`, "v"] as const);
    const h = open().post(chatBody(), [...many, ["x-gateway-inference-objective", "batch"]]);
    h.envoy.responseHeaders([...OK, ...many]);
    const mutation = requestMutation(h);
    expect(keysOf(mutation).length + mutation.removeHeaders.length).toBe(100);
    expect(keysOf(mutation).slice(0, 3)).toEqual([DESTINATION, "Content-Length", "x-request-id"]);
    expect(keysOf(responseMutation(h))).toHaveLength(100);
    expect(keysOf(responseMutation(h))[0]).toBe("x-went-into-resp-headers");
    expect(h.wrongs).toEqual([]);
  });
});

describe("the body of a request", () => {
  it("that is empty is forwarded as one empty chunk with the end, and without a length (E-19, E-20)", () => {
    const h = open();
    h.envoy.requestHeaders([
      [":method", "POST"],
      [":path", "/v1/messages/count_tokens"],
    ]);
    h.envoy.requestBody("", true);
    expect(h.replies.slice(1)).toEqual([
      { requestBody: { response: { bodyMutation: { streamedResponse: { endOfStream: true } } } } },
    ]);
    expect(keysOf(requestMutation(h))).not.toContain("Content-Length");
    expect(h.wrongs).toEqual([]);
  });

  const rewritten = (body: string): string => {
    const h = open({}, { filter: { rewrites: true } }).post(body, [
      [":path", "/v1/completions"],
      ["x-gateway-model-name-rewrite", "the-target"],
    ]);
    const { bytes, ends } = bodyOf(h.replies, "request");
    expect(ends.at(-1)).toBe(true);
    expect(headersOf(requestMutation(h))["Content-Length"]).toBe(String(bytes.length));
    expect(h.wrongs).toEqual([]);
    return bytes.toString();
  };

  it.each([
    [
      '{ "seed": 12345678901234567890, "model": "a" , "prompt":"\\u00e9<&>é\u2028", "x": 1.0 }',
      '"a" ,',
      '"the-target" ,',
    ],
    ['{"prompt":"p","mod\\u0065l":"a"}', '"a"', '"the-target"'],
    ['{"prompt":"p","x":{"model":"a"},"model":"b","y":[{"model":"b"}]}', '"model":"b","y"', '"model":"the-target","y"'],
    ['{"model":"a","prompt":"p","model":"b"}', '"b"', '"the-target"'],
    ['{"model":null,"prompt":"p"}', "null", '"the-target"'],
    ['{"prompt":"p"}', "{", '{"model":"the-target",'],
  ])("%s has its model replaced, or added, and keeps every other byte (E-32, E-103, E-109)", (body, from, to) => {
    expect(rewritten(body)).toBe(body.replace(from, to));
  });

  it("means the same as before but for its model, whatever it is (E-32)", () => {
    const spaces = fc.constantFrom(undefined, 1, "\t");
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.string(), spaces, (rest, model, space) => {
        const { stream: _stream, prompt: _prompt, cache_salt: _salt, ...others } = rest;
        const body = { ...others, prompt: "p", model };
        expect(JSON.parse(rewritten(JSON.stringify(body, null, space)))).toEqual(
          JSON.parse(JSON.stringify({ ...body, model: "the-target" })),
        );
      }),
      { numRuns: 100 },
    );
  });
});

describe("metadata of plugins", () => {
  it("stands beside the destination and never in its place (E-47)", () => {
    const plugin = {
      preRequest: ({ setMetadata }: { setMetadata(namespace: string, key: string, value: string): void }) => {
        setMetadata("envoy.lb", DESTINATION, "6.6.6.6:1");
        setMetadata("envoy.lb", "tier", "gold");
        setMetadata("other", "key", "value");
      },
    };
    const h = open({ hooks: [{ name: "greedy", plugin }] }).post(chatBody());
    expect(fromStruct(h.replies[0].dynamicMetadata)).toEqual({
      "envoy.lb": { [DESTINATION]: h.destination, tier: "gold" },
      other: { key: "value" },
    });
  });
});

describe("the model's name in a response (E-69)", () => {
  const seen = (answer: string, { target = "t-1", stream = false, type = "application/json" } = {}): string => {
    const h = open({}, { filter: { rewrites: true } }).post(chatBody("x", { stream }), [
      ["x-llm-d-model-name-rewrite", target],
    ]);
    h.envoy.responseHeaders([...OK, ["content-type", type], ["content-length", String(answer.length)]]);
    for (let at = 0; at < answer.length; at += 7) h.envoy.responseBody(answer.slice(at, at + 7));
    h.envoy.responseBody("", true);
    expect(h.wrongs).toEqual([]);
    // A length that would not hold any more must go.
    expect(responseMutation(h).removeHeaders ?? []).toEqual(target === "llama" ? [] : ["content-length"]);
    return bodyOf(h.replies, "response").bytes.toString();
  };

  it.each([false, true])("is the client's in both spacings, wherever chunks are cut; streamed: %s", (stream) => {
    const answer = '{"model":"t-1","a":[{"model": "t-1"}],"text":"t-1","other":"t-1"}';
    expect(seen(answer, { stream })).toBe(
      answer.replace('"model":"t-1"', '"model":"llama"').replace(': "t-1"', ': "llama"'),
    );
  });

  it("is restored in each event of a stream", () => {
    const event = (name: string) => `data: {"model":"${name}","choices":[]}\n\n`;
    expect(seen(event("t-1").repeat(3), { type: "text/event-stream" })).toBe(event("llama").repeat(3));
  });

  it("is left alone where the names are equal, and in gRPC, which has none", () => {
    const answer = '{"model":"llama","x":{"model": "t-1"}}';
    expect(seen(answer, { target: "llama" })).toBe(answer);
    const grpc = open().post(grpcFrame("EmbedRequest", { tokenized: { input_ids: [1] } }), [
      [":path", "/vllm.grpc.engine.VllmEngine/Embed"],
      ["x-llm-d-model-name-rewrite", "t-1"],
    ]);
    grpc.answer('"model":"t-1"', "200", "application/grpc");
    expect(bodyOf(grpc.replies, "response").bytes.toString()).toBe('"model":"t-1"');
    expect(grpc.wrongs).toEqual([]);
  });
});

describe("completion hooks (E-70)", () => {
  const broken = () => {
    throw new Error("broken pipe");
  };
  it.each<[string, (h: SessionHarness) => void, string]>([
    ["the end of the body", (h) => h.answer("{}"), "natural"],
    ["the end on the headers", (h) => h.envoy.responseHeaders([[":status", "204"]], true), "natural"],
    [
      "trailers",
      (h) => {
        h.envoy.responseHeaders(OK);
        h.envoy.responseBody("{}");
        h.envoy.responseTrailers();
      },
      "natural",
    ],
    [
      "the end of the body and trailers",
      (h) => {
        h.answer("{}");
        h.envoy.responseTrailers();
      },
      "natural",
    ],
    ["a cancellation before the response", () => {}, "client-disconnect"],
    ["a cancellation within it", (h) => h.envoy.responseHeaders(OK), "client-disconnect"],
    [
      "a send that fails",
      (h) => {
        h.stream.onSend = broken;
        h.envoy.responseHeaders(OK);
      },
      "error",
    ],
  ])("run exactly once for %s", (_, play, cause) => {
    const ends: ResponseCompleteContext[] = [];
    const plugin = { responseComplete: (context: ResponseCompleteContext) => void ends.push(context) };
    const h = open({ hooks: [{ name: "counter", plugin }] }).post(chatBody());
    expect(ends).toEqual([]);
    play(h);
    h.halfClose().reset();
    h.session.closed();
    expect(ends.map((context) => context.cause)).toEqual([cause]);
    expect(h.core.inFlight).toBe(0);
  });
});

describe("the markers of the conformance suite (E-75, E-77, E-88, D-80)", () => {
  const config = `${CONFIG}plugins:
- type: header-based-testing-filter
- type: destination-endpoint-served-verifier
schedulingProfiles:
- {name: conformance, plugins: [{pluginRef: header-based-testing-filter}]}
`;
  const FORCED = "test-epp-endpoint-selection";
  const VERDICT = "x-conformance-test-served-endpoint";
  const SERVED = "x-gateway-destination-endpoint-served";

  it.each<[string, Record<string, Record<string, unknown>> | undefined, string]>([
    ["the endpoint that served", { "envoy.lb": { [SERVED]: "10.0.0.2:8000" } }, "10.0.0.2:8000"],
    ["that the namespace is missing", { other: { [SERVED]: "10.0.0.2:8000" } }, "fail: missing envoy lb metadata"],
    ["that there is no metadata", undefined, "fail: missing envoy lb metadata"],
    ["that the key is missing", { "envoy.lb": { x: 1 } }, "fail: missing destination endpoint served metadata"],
  ])("tell %s", (_, metadata, verdict) => {
    const h = open({ config }).post(chatBody(), [[FORCED, "10.0.0.3:8000"]]);
    expect(h.destination).toBe("10.0.0.3:8000");
    h.envoy.responseHeaders(OK, false, metadata === undefined ? {} : { metadata });
    expect(headersOf(responseMutation(h))).toMatchObject({ "x-went-into-resp-headers": "true", [VERDICT]: verdict });
    h.envoy.responseBody("{}", true);
    expect(h.wrongs).toEqual([]);
  });

  it.each(["", "1.2.3.4", undefined])("leave nobody for the header %j: 429", (value) => {
    const h = open({ config }).post(chatBody(), value === undefined ? [] : [[FORCED, value]]);
    expect(h.refusal()).toMatchObject({
      status: 429,
      text: expect.stringContaining("failed to find target endpoint: "),
    });
  });

  it("R-52: leave requests without a body to any endpoint, whose answer carries the marker as well", () => {
    const chosen = new Set<string | undefined>();
    for (let i = 0; i < 60; i++) {
      const h = open({ config, seed: i });
      h.envoy.requestHeaders(
        [
          [":method", "GET"],
          [":path", "/primary"],
        ],
        true,
      );
      chosen.add(h.destination);
      h.envoy.responseHeaders(OK, true, { metadata: { "envoy.lb": { [SERVED]: h.destination } } });
      expect(headersOf(responseMutation(h))[VERDICT]).toBe(h.destination);
      expect(h.wrongs).toEqual([]);
    }
    expect([...chosen].sort()).toEqual(["10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"]);
  });

  it("are there where the configuration names the plugins, and nowhere else", () => {
    const h = open({ endpoints: [{ metrics: {} }, { metrics: { waiting: 9 } }] }).post(chatBody(), [
      [FORCED, "10.0.0.2"],
    ]);
    expect(h.destination).toBe("10.0.0.1:8000");
    h.envoy.responseHeaders(OK, false, { metadata: { "envoy.lb": { [SERVED]: "10.0.0.1:8000" } } });
    expect(keysOf(responseMutation(h))).not.toContain(VERDICT);
  });
});

describe("what is refused (D-15)", () => {
  const batch = ["x-gateway-inference-objective", "batch"] as const;
  const enforcing = (): TestCoreOptions => {
    const resources = new ResourceStore();
    resources.replace([madePool(), madeModel("m", "known")]);
    return { models: { resources } };
  };
  const crowd = { endpoints: [{ metrics: { waiting: 90 } }], objectives: ["batch=-1"] };

  it.each<[string, TestCoreOptions, string, (readonly [string, string])[], number, string]>([
    ["no endpoint", { endpoints: 0 }, chatBody(), [], 503, "ServiceUnavailable"],
    ["a sheddable request under load", crowd, chatBody(), [batch], 429, "ResourceExhausted"],
    ["no JSON", {}, "{\u00e4", [], 400, "BadRequest"],
    ["an unknown model, where models are matched", enforcing(), chatBody(), [], 404, "BadConfiguration"],
    ["a body that is too large", { maxRequestBytes: 10 }, chatBody(), [], 413, "PayloadTooLarge"],
  ])("%s: plain UTF-8 text, no details, the stream ends with OK", (_, core, body, headers, status, code) => {
    const h = open(core).post(body, headers);
    expect(h.replies).toHaveLength(1);
    const { immediateResponse } = h.replies[0];
    expect(immediateResponse.status).toEqual({ code: status });
    expect([immediateResponse.details, immediateResponse.grpcStatus]).toEqual([undefined, undefined]);
    const text = new TextDecoder("utf-8", { fatal: true }).decode(immediateResponse.body);
    expect(text.startsWith(`inference error: ${code} - `)).toBe(true);
    expect(h.stream.status).toBe(0);
    expect(h.wrongs).toEqual([]);
  });

  it("is not an unknown model where nobody matches models (E-86)", () => {
    expect(open().post(chatBody("x", { model: "nobody-knows-it" })).destination).toMatch(/:8000$/);
  });

  it.each([
    ["/v1/completions", "invalid completions request: must have prompt field"],
    ["/v1/completions/render", "invalid completions request: must have prompt field"],
    ["/v1/chat/completions", "invalid chat completions request: must have valid messages field"],
    ["/v1/chat/completions/render", "invalid chat completions request: must have valid messages field"],
    ["/v1/responses", "invalid responses request: must have input field"],
    ["/v1/conversations", "invalid conversations request: must have items field"],
    ["/v1/embeddings", "invalid embeddings request: must have input field"],
    ["/v1/images/generations", "invalid images generations request: must have prompt field"],
    ["/v1/messages", "invalid messages request: must have at least one message"],
    ["/inference/v1/generate", "invalid generate request: must have non-empty token_ids field"],
  ])("%s without its required member: 400 with the text of the table (E-83, E-100)", (path, text) => {
    for (const spelling of [path, `${path}/`, `${path}?api-version=1`])
      expect(
        open()
          .post('{"model":"m"}', [[":path", spelling]])
          .refusal(),
      ).toEqual({
        status: 400,
        text: `inference error: BadRequest - ${text}`,
        dropped: undefined,
      });
  });
});

describe("which API a request speaks", () => {
  it("pitfall 17: is not hidden by a query string", () => {
    const h = open().post(chatBody(), [[":path", "/v1/chat/completions?api-version=2"]]);
    expect(h.destination).toMatch(/:8000$/);
    expect(h.core.total("llm_d_epp_request_total", { model_name: "llama" })).toBe(1);
  });

  it("need not be known: with model and prompt it is routed under that name, without JSON unread (E-101, E-102)", () => {
    const named = open().post('{"model":"m","prompt":"p"}', [[":path", "/any/where"]]);
    expect(named.core.total("llm_d_epp_request_total", { model_name: "m", target_model_name: "m" })).toBe(1);
    const raw = Buffer.from([0xff, 0x00, 0x7b]);
    const unread = open().post(raw, [[":path", "/any/where"]]);
    expect(bodyOf(unread.replies, "request").bytes).toEqual(raw);
    expect(unread.core.total("llm_d_epp_request_total", { model_name: "" })).toBe(1);
  });
});

describe("a proxy that shows the request alone, and does not say so", () => {
  it("is no error, and nothing stays behind (D-21)", () => {
    const h = open();
    h.envoy.requestHeaders([[":path", "/v1/chat/completions"]], false, { modes: null });
    h.envoy.requestBody(chatBody(), true);
    expect(h.core.inFlight).toBe(1);
    h.reset();
    expect([h.core.inFlight, h.core.total("llm_d_epp_request_running")]).toEqual([0, 0]);
    expect(h.core.total("llm_d_epp_request_error_total")).toBe(0);
  });
});

describe("an answer that is one gRPC message", () => {
  const MiB = 1024 * 1024;
  const config = `${CONFIG}plugins: [{type: vllmgrpc-parser}]\nparser: {pluginRef: vllmgrpc-parser}\n`;
  const begun = (core: TestCoreOptions = {}) => {
    const h = open({ config, ...core }).post(grpcFrame("EmbedRequest", { tokenized: { input_ids: [1] } }), [
      [":path", "/vllm.grpc.engine.VllmEngine/Embed"],
    ]);
    h.envoy.responseHeaders([...OK, ["content-type", "application/grpc"]]);
    h.take();
    return h;
  };

  it("is held as JSON is: up to 4 MiB, then passed on, its bytes paid for meanwhile (E-63)", () => {
    const h = begun();
    for (let i = 0; i < 4; i++) h.envoy.responseBody(Buffer.alloc(MiB));
    expect([h.take().length, h.core.budget.used]).toEqual([0, 4 * MiB]);
    h.envoy.responseBody(Buffer.alloc(1));
    expect(bodyOf(h.take(), "response").bytes).toHaveLength(4 * MiB + 1);
    expect(h.core.budget.used).toBe(0);
    h.envoy.responseTrailers();
    expect(h.take()).toEqual([{ responseTrailers: {} }]);
    expect(h.wrongs).toEqual([]);
  });

  it("is not held when the process holds too much already, and still counted", () => {
    const h = begun({ budget: 100 });
    const answer = grpcFrame("EmbedResponse", { embedding: Array(100).fill(0.5), prompt_tokens: 7 });
    h.envoy.responseBody(answer);
    expect(bodyOf(h.take(), "response").bytes).toEqual(answer);
    h.envoy.responseTrailers();
    expect(h.core.total("llm_d_epp_request_input_tokens_sum")).toBe(7);
    expect([h.core.budget.used, ...h.wrongs]).toEqual([0]);
  });
});

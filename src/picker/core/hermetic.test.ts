import { describe, expect, it } from "vitest";
import { TestCore, type TestCoreOptions } from "../../../test/support/core.ts";
import type { Plain } from "../../../test/support/extproc-client.ts";
import { grpcFrame } from "../../../test/support/grpc-apis.ts";
import {
  answeredBody,
  answeredHeaders,
  hermeticBody,
  hermeticHeaders,
  hermeticPods,
  normalised,
  PARITY_WIRE,
  type Pod,
  refusedWith,
  routedTo,
} from "../../../test/support/hermetic.ts";
import { madePool, madeRewrite, rule } from "../../../test/support/resources/made.cases.ts";
import { SessionHarness } from "../../../test/support/session-harness.ts";
import { ResourceStore } from "../../pool/resources/resource-store.ts";

// The scenarios of epp-protocol, appendix B, one test per row: v1.5's own integration tests, described there. Whole replies
// are compared, headers sorted; the wire behaves as with `--parity v1.5`.

const HEAD = "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\n";
const SCORERS = ["queue-scorer", "kv-cache-utilization-scorer", "prefix-cache-scorer", "lora-affinity-scorer"];

/** Scorers of equal weight, and what a row needs besides. */
function config({ plugins = "", tail = "" } = {}): string {
  const declared = [...SCORERS, "max-score-picker"].map((type) => `- type: ${type}\n`).join("");
  const weighted = SCORERS.map((type) => `{pluginRef: ${type}, weight: 1}`).join(", ");
  const profile = `- {name: default, plugins: [${weighted}, {pluginRef: max-score-picker}]}\n`;
  return `${HEAD}plugins:\n${declared}${plugins}schedulingProfiles:\n${profile}${tail}`;
}

const parser = (type: string) => config({ plugins: `- type: ${type}\n`, tail: `parser: {pluginRef: ${type}}\n` });

function open(pods: readonly Pod[], options: TestCoreOptions = {}): SessionHarness {
  const core = new TestCore({ config: config(), endpoints: hermeticPods(pods), ...options });
  return new SessionHarness(core, { wire: PARITY_WIRE });
}

/** Sends a request as the reference's tests do, its body in pieces, the flag on the last. */
function send(h: SessionHarness, headers: Plain, ...pieces: (string | Uint8Array)[]): Plain[] {
  h.envoy.send(headers);
  for (const [i, piece] of pieces.entries()) h.envoy.requestBody(piece, i === pieces.length - 1, { modes: null });
  return h.take().map(normalised);
}

const rewrite = (target: string) => ["x-gateway-model-name-rewrite", target] as const;
const objective = (name: string) => ["x-gateway-inference-objective", name] as const;
const hint = (...endpoints: string[]) => ({
  metadata: { "envoy.lb.subset_hint": { "x-gateway-destination-endpoint-subset": endpoints } },
  modes: null,
});

/** The request counter under these labels, and altogether. */
function counted(h: SessionHarness, model: string, target: string, priority = "0"): [number, number] {
  const name = "inference_objective_request_total";
  const labels = { model_name: model, target_model_name: target, priority };
  return [h.core.total(name, labels), h.core.total(name)];
}

const THREE: readonly Pod[] = [
  [3, 0.2],
  [0, 0.1],
  [10, 0.2],
];
const GRPC_PATH = "/vllm.grpc.engine.VllmEngine/Generate";

describe("hermetic scenarios of the request phase (epp-protocol appendix B)", () => {
  it("lower queue and KV cache: the second pod, model rewritten by the header, counted once", () => {
    const h = open(THREE);
    const replies = send(h, hermeticHeaders(rewrite("my-model-12345")), hermeticBody("my-model", "test1"));
    expect(replies).toEqual(routedTo("192.168.1.2:8000", hermeticBody("my-model-12345", "test1")));
    expect(counted(h, "my-model", "my-model-12345")).toEqual([1, 1]);
    expect(h.filter.violations.filter((text) => !text.startsWith("more request bytes"))).toEqual([]);
  });

  it.each<[string, readonly Pod[]]>([
    [
      "with a low queue",
      [
        [0, 0.2, "foo", "bar"],
        [0, 0.1, "foo", "sql-lora-1fdg2"],
        [10, 0.2, "foo", "bar"],
      ],
    ],
    [
      "despite a higher KV use",
      [
        [10, 0.2, "foo", "bar", "x"],
        [10, 0.4, "foo", "sql-lora-1fdg2"],
        [10, 0.3, "foo", "bar", "x"],
      ],
    ],
  ])("active adapter: the pod that has the target loaded, %s", (_, pods) => {
    const h = open(pods);
    const replies = send(h, hermeticHeaders(rewrite("sql-lora-1fdg2")), hermeticBody("sql-lora", "test2"));
    expect(replies).toEqual(routedTo("192.168.1.2:8000", hermeticBody("sql-lora-1fdg2", "test2")));
    expect(counted(h, "sql-lora", "sql-lora-1fdg2")).toEqual([1, 1]);
  });

  it("all saturated, default priority: not shed, the least loaded", () => {
    const pods: readonly Pod[] = [
      [6, 0.2, "foo", "bar"],
      [0, 0.85, "foo"],
      [10, 0.9, "foo"],
    ];
    const options = { objectives: ["batch=-1"] };
    const h = open(pods, options);
    expect(send(h, hermeticHeaders(rewrite("sql-lora-1fdg2")), hermeticBody("sql-lora"))).toEqual(
      routedTo("192.168.1.1:8000", hermeticBody("sql-lora-1fdg2")),
    );
    // They are saturated indeed: what may be shed is.
    expect(send(open(pods, options), hermeticHeaders(objective("batch")), hermeticBody("sql-lora"))).toEqual(
      refusedWith(429, "ResourceExhausted - system saturated, sheddable request dropped"),
    );
  });

  it("a body that is not JSON: 400 with the text of Go's decoder", () => {
    const h = open([[0, 0.2]]);
    const headers = { requestHeaders: { headers: { headers: [{ key: "hi", value: "mom" }] } } };
    expect(send(h, headers, "no healthy upstream")).toEqual(
      refusedWith(
        400,
        "BadRequest - error unmarshaling request bodyMap: invalid character 'o' in literal null (expecting 'u')",
      ),
    );
    expect(h.stream.status).toBe(0);
  });

  it("a body split anywhere, in the middle of the model's name too: as unsplit (E-16)", () => {
    const body = Buffer.from(hermeticBody("sql-lora-shéddable", "tést"));
    const whole = send(open(THREE), hermeticHeaders(rewrite("target")), body);
    expect(whole).toHaveLength(2);
    for (let cut = 0; cut <= body.length; cut++)
      expect(
        send(open(THREE), hermeticHeaders(rewrite("target")), body.subarray(0, cut), body.subarray(cut)),
        `cut at ${cut}`,
      ).toEqual(whole);
  });

  it("header-only, no pods: 500 with the text of v1.5", () => {
    const h = open([]);
    const headers = hermeticHeaders();
    expect(send(h, { requestHeaders: { ...headers.requestHeaders, endOfStream: true } })).toEqual(
      refusedWith(500, "Internal - no pods available in datastore"),
    );
    expect(h.stream.status).toBe(0);
  });

  it("no model, no pods: 400 for the model", () => {
    expect(send(open([]), hermeticHeaders(), '{"prompt":"hello world"}')).toEqual(
      refusedWith(400, "BadRequest - model not found in request body"),
    );
  });

  it.each<[string, string[], Plain[]]>([
    [
      "three listed: the best of them",
      ["192.168.1.1:8000", "192.168.1.2:8000", "192.168.1.3:8000"],
      routedTo("192.168.1.2:8000", hermeticBody("my-model-12345")),
    ],
    ["one listed: that one", ["192.168.1.3:8000"], routedTo("192.168.1.3:8000", hermeticBody("my-model-12345"))],
    ["by address alone", ["192.168.1.3"], routedTo("192.168.1.3:8000", hermeticBody("my-model-12345"))],
    ["with another port", ["192.168.1.3:9"], routedTo("192.168.1.3:8000", hermeticBody("my-model-12345"))],
    [
      "none of them matching: 503",
      ["192.168.1.99:8000"],
      refusedWith(503, "ServiceUnavailable - failed to find endpoint candidates for serving the request"),
    ],
  ])("a subset, %s", (_, endpoints, expected) => {
    const h = open(THREE);
    h.envoy.send(hermeticHeaders(rewrite("my-model-12345")));
    h.envoy.requestBody(hermeticBody("my-model"), true, hint(...endpoints));
    expect(h.take().map(normalised)).toEqual(expected);
  });

  it("a model that only its own objective mentions: routed, body unchanged, the objective's priority", () => {
    const h = open(
      [
        [0, 0.2],
        [0, 0.1],
        [10, 0.2],
      ],
      { objectives: ["direct-model=2"] },
    );
    const body = hermeticBody("direct-model", "test6");
    const headers = hermeticHeaders(objective("direct-model"), rewrite("direct-model"));
    expect(send(h, headers, body.slice(0, 31), body.slice(31))).toEqual(routedTo("192.168.1.2:8000", body));
    expect(counted(h, "direct-model", "direct-model", "2")).toEqual([1, 1]);
  });

  it("an objective that nobody defined: priority 0", () => {
    const h = open(THREE, { objectives: ["other=3"] });
    expect(send(h, hermeticHeaders(objective("nobody")), hermeticBody("my-model"))).toEqual(
      routedTo("192.168.1.2:8000", hermeticBody("my-model")),
    );
    expect(counted(h, "my-model", "my-model", "0")).toEqual([1, 1]);
  });

  it("a rewrite rule for the model: body rewritten, labels of both names", () => {
    const resources = new ResourceStore();
    resources.replace([madePool(), madeRewrite("rule", [rule("my-model", "rewritten")])]);
    const h = open(THREE, { models: { resources } });
    expect(send(h, hermeticHeaders(), hermeticBody("my-model"))).toEqual(
      routedTo("192.168.1.2:8000", hermeticBody("rewritten")),
    );
    expect(counted(h, "my-model", "rewritten")).toEqual([1, 1]);
  });

  it("passthrough: any bytes routed unread, labels empty, priority of the objective", () => {
    const h = open(THREE, { config: parser("passthrough-parser"), objectives: ["critical=5"] });
    expect(send(h, hermeticHeaders(objective("critical")), "passthrough-parser")).toEqual(
      routedTo("192.168.1.2:8000", "passthrough-parser"),
    );
    expect(counted(h, "", "", "5")).toEqual([1, 1]);
    expect(h.wrongs).toEqual([]);
  });
});

describe("hermetic scenarios of the response phase (epp-protocol appendix B)", () => {
  const JSON_BODY =
    '{"id":"cmpl-1","object":"text_completion","model":"m","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":10,"total_tokens":21}}';
  const answer = (h: SessionHarness, type: string, ...chunks: (readonly [string, boolean])[]): Plain[] => {
    h.envoy.responseHeaders([["content-type", type]]);
    for (const [text, end] of chunks) h.envoy.responseBody(text, end);
    return h.take().map(normalised);
  };
  const headers = (type: string) => answeredHeaders({ "content-type": type });

  it.each<[string, (readonly [string, boolean])[], string]>([
    [
      "in two chunks",
      [
        [JSON_BODY.slice(0, 40), false],
        [JSON_BODY.slice(40), true],
      ],
      JSON_BODY,
    ],
    [
      "with an empty last chunk",
      [
        [JSON_BODY.slice(0, 40), false],
        [JSON_BODY.slice(40), false],
        ["", true],
      ],
      JSON_BODY,
    ],
    ["that is invalid", [["no healthy upstream", true]], "no healthy upstream"],
  ])("JSON %s: one buffered body with the end", (_, chunks, body) => {
    const h = open([[0, 0.2]]);
    expect(answer(h, "application/json", ...chunks)).toEqual([headers("application/json"), answeredBody(body, true)]);
    expect(h.core.total("inference_objective_input_tokens_sum", { model_name: "", target_model_name: "" })).toBe(
      body === JSON_BODY ? 11 : 0,
    );
    expect(h.wrongs).toEqual([]);
  });

  it("SSE: three chunks echoed, usage counted once with empty labels", () => {
    const h = open([[0, 0.2]]);
    const usage =
      'data: {"object":"text_completion","usage":{"prompt_tokens":7,"total_tokens":17,"completion_tokens":10}}\ndata: [DONE]';
    expect(answer(h, "text/event-stream", ["data: {}", false], [usage, false], ["", true])).toEqual([
      headers("text/event-stream"),
      answeredBody("data: {}", false),
      answeredBody(usage, false),
      answeredBody("", true),
    ]);
    const labels = { model_name: "", target_model_name: "" };
    expect(h.core.total("inference_objective_input_tokens_sum", labels)).toBe(7);
    expect(h.core.total("inference_objective_input_tokens_count")).toBe(1);
    expect(h.wrongs).toEqual([]);
  });

  it("the attribute reporter: four answers, the number on the fourth (E-73)", () => {
    const reporter = `- name: cost
  type: request-attribute-reporter
  parameters:
    attributes:
    - key: {namespace: envoy.lb, name: x-gateway-inference-request-cost}
      expression: usage.completion_tokens
      condition: has(usage.completion_tokens)
`;
    const h = open(THREE, { config: config({ plugins: reporter }) });
    const request = send(h, hermeticHeaders(), hermeticBody("my-model"));
    const response = answer(h, "application/json", [JSON_BODY, true]);
    expect([...request, ...response]).toEqual([
      ...routedTo("192.168.1.2:8000", hermeticBody("my-model")),
      headers("application/json"),
      answeredBody(JSON_BODY, true, { "envoy.lb": { "x-gateway-inference-request-cost": 10 } }),
    ]);
    expect(h.wrongs).toEqual([]);
  });
});

describe("hermetic scenarios of vLLM's gRPC API (epp-protocol appendix B, E-110)", () => {
  const grpc = (...more: [string, string][]) => hermeticHeaders(["content-type", "application/grpc"], ...more);
  const openGrpc = () => open(THREE, { config: parser("vllmgrpc-parser") });
  const echoed = (path: string) => ({ "content-type": "application/grpc", ":path": path });

  it.each([
    ["Generate", { text: "test", sampling_params: { max_tokens: 5 } }, false],
    ["Generate", { text: "test", stream: true }, true],
    ["Generate", { tokenized: { original_text: "t", input_ids: [1, 2, 300] } }, false],
    ["Embed", { request_id: "r", tokenized: { input_ids: [7, 8] } }, false],
  ] as const)("%s of %j: routed, path echoed, body identical", (method, message, streaming) => {
    const h = openGrpc();
    const path = `/vllm.grpc.engine.VllmEngine/${method}`;
    const body = grpcFrame(`${method}Request`, message);
    expect(send(h, grpc([":path", path]), body)).toEqual(
      routedTo("192.168.1.2:8000", body.toString("latin1"), echoed(path)),
    );
    expect(counted(h, "", "")).toEqual([1, 1]);
    // What asked for a stream gets one, though no content type says so (E-64).
    h.envoy.responseHeaders([["content-type", "application/grpc"]]);
    h.take();
    h.envoy.responseBody("\0\0");
    expect(h.take()).toHaveLength(streaming ? 1 : 0);
    expect(h.wrongs).toEqual([]);
  });

  it.each([
    [GRPC_PATH, "not a frame", "parsing gRPC payload for Generate: not able to parse payload"],
    ["/vllm.grpc.engine.VllmEngine/Embed", "text", "parsing gRPC payload for Embed: not able to parse payload"],
    ["unsupportedMethod", grpcFrame("GenerateRequest", { text: "t" }), "unsupported gRPC path: unsupportedMethod"],
  ])("%s of something else: 400", (path, body, text) => {
    const h = openGrpc();
    expect(send(h, grpc([":path", path]), body)).toEqual(refusedWith(400, `BadRequest - ${text}`));
    expect(counted(h, "", "")).toEqual([0, 0]);
  });

  it("a response in two chunks and trailers: held, given back without the flag, then the trailers; usage counted", () => {
    const h = openGrpc();
    send(h, grpc([":path", GRPC_PATH]), grpcFrame("GenerateRequest", { text: "test" }));
    const complete = { output_ids: [1, 2, 3], finish_reason: "stop", prompt_tokens: 12, completion_tokens: 3 };
    const body = grpcFrame("GenerateResponse", { complete });
    h.envoy.responseHeaders([["content-type", "application/grpc"]]);
    h.envoy.responseBody(body.subarray(0, 9));
    h.envoy.responseBody(body.subarray(9));
    h.envoy.responseTrailers([["grpc-status", "0"]]);
    expect(h.take().map(normalised)).toEqual([
      answeredHeaders({ "content-type": "application/grpc" }),
      answeredBody(body.toString("latin1"), false),
      { responseTrailers: {} },
    ]);
    const labels = { model_name: "", target_model_name: "" };
    expect(h.core.total("inference_objective_input_tokens_sum", labels)).toBe(12);
    expect(h.core.total("inference_objective_output_tokens_sum", labels)).toBe(3);
    expect(h.wrongs).toEqual([]);
  });
});

import { createServer, type Server } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, getJson } from "../support/client.ts";
import { samplesOf } from "../support/core.ts";
import { type BareEpp, ExtProcClient, startBareEpp } from "../support/epp-process.ts";
import type { Plain } from "../support/extproc-client.ts";
import { grpcFrame } from "../support/grpc-apis.ts";
import {
  answeredBody,
  answeredHeaders,
  hermeticBody,
  hermeticHeaders,
  normalised,
  refusedWith,
  routedTo,
} from "../support/hermetic.ts";
import { poll } from "../support/poll.ts";
import { endpointsFile } from "../support/stack.ts";

// Rows of epp-protocol, appendix B, once through the process and over gRPC; all of them run in src/picker/core/hermetic.test.ts.

/** Waiting requests and KV cache use of three pods. */
const PODS = [
  [3, 0.2],
  [0, 0.1],
  [10, 0.2],
] as const;

const HEAD = "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\n";
const REPORTER = `${HEAD}plugins:
- {type: queue-scorer}
- {type: kv-cache-utilization-scorer}
- {type: max-score-picker}
- name: cost
  type: request-attribute-reporter
  parameters:
    attributes:
    - {key: {namespace: envoy.lb, name: x-gateway-inference-request-cost}, expression: usage.completion_tokens}
schedulingProfiles:
- name: default
  plugins: [{pluginRef: queue-scorer}, {pluginRef: kv-cache-utilization-scorer}, {pluginRef: max-score-picker}]
`;
const GRPC = `${HEAD}plugins: [{type: vllmgrpc-parser}]\nparser: {pluginRef: vllmgrpc-parser}\n`;

/** Model servers that have nothing but a metrics page. */
const servers: Server[] = [];
let pods: string[];
let endpoints: string;
const running: BareEpp[] = [];

beforeAll(async () => {
  for (const [waiting, kv] of PODS) {
    const page = `vllm:num_requests_waiting ${waiting}\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc ${kv}\n`;
    const server = createServer((_, answer) => void answer.end(page));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    servers.push(server);
  }
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  pods = ports.map((port) => `127.0.0.1:${port}`);
  endpoints = endpointsFile(ports);
});
afterAll(async () => {
  await Promise.all(running.map(({ process }) => process.stop()));
  for (const server of servers) server.close();
});

/** A picker as v1.5's tests expect it, which knows the load of its pods, and believes it however late the next look is. */
async function start(file: string, ...args: string[]): Promise<BareEpp> {
  const flags = ["--parity", "v1.5", "--secure-serving=false", "--metrics-staleness-threshold=1h"];
  const epp = await startBareEpp(file, [...flags, ...args]);
  running.push(epp);
  if (file === endpoints)
    await poll("the load of each pod", async () => {
      type Known = { endpoints: { state: string; metrics: { waiting: number | null } }[] };
      const known = (await getJson<Known>(`${epp.adminUrl}/debug/endpoints`)).endpoints;
      return (
        known.length === PODS.length &&
        known.every((pod, i) => pod.state === "up" && pod.metrics.waiting === PODS[i]![0])
      );
    });
  return epp;
}

/** Sends messages on a stream of its own; `replies` come back, as a whole. */
async function play(epp: BareEpp, messages: readonly Plain[], replies: number): Promise<Plain[]> {
  const client = await ExtProcClient.connect(epp.port);
  const stream = client.open();
  const found: Plain[] = [];
  for (const message of messages) stream.send(message);
  while (found.length < replies) {
    const reply = await stream.next();
    if (reply === undefined) break;
    found.push(normalised(reply));
  }
  stream.reset();
  client.close();
  return found;
}

const body = (text: string | Uint8Array, more: Plain = {}): Plain => ({
  requestBody: { body: Buffer.from(text), endOfStream: true },
  ...more,
});
const rewrite = hermeticHeaders(["x-gateway-model-name-rewrite", "my-model-12345"]);

describe("sluice epp --parity v1.5, asked as the hermetic tests do (epp-protocol appendix B)", () => {
  let epp: BareEpp;
  beforeAll(async () => {
    epp = await start(endpoints, "--config-text", REPORTER);
  });

  it("sends to the least loaded pod, rewrites the model, and counts the request", async () => {
    expect(await play(epp, [rewrite, body(hermeticBody("my-model"))], 2)).toEqual(
      routedTo(pods[1]!, hermeticBody("my-model-12345")),
    );
    const samples = samplesOf((await ask(`${epp.adminUrl}/metrics`)).text);
    const labels = 'model_name="my-model",target_model_name="my-model-12345"';
    expect(samples.get(`inference_objective_request_total{${labels},priority="0"}`)).toBe(1);
  });

  it("refuses what is not JSON with the text of Go's decoder", async () => {
    expect(await play(epp, [hermeticHeaders(), body("no healthy upstream")], 1)).toEqual(
      refusedWith(
        400,
        "BadRequest - error unmarshaling request bodyMap: invalid character 'o' in literal null (expecting 'u')",
      ),
    );
  });

  it("keeps to a subset, and refuses where none of it is there", async () => {
    const hinted = (hint: string): Plain => {
      const list = { listValue: { values: [{ stringValue: hint }] } };
      const fields = { "x-gateway-destination-endpoint-subset": list };
      const metadataContext = { filterMetadata: { "envoy.lb.subset_hint": { fields } } };
      return body(hermeticBody("my-model"), { metadataContext });
    };
    // By address alone, as in v1.5: all three share one, so the best of them.
    expect(await play(epp, [rewrite, hinted(pods[2]!)], 2)).toEqual(routedTo(pods[1]!, hermeticBody("my-model-12345")));
    expect(await play(epp, [rewrite, hinted("192.168.1.99:8000")], 1)).toEqual(
      refusedWith(503, "ServiceUnavailable - failed to find endpoint candidates for serving the request"),
    );
  });

  it("gives four answers to an exchange, the cost on the fourth (E-73)", async () => {
    const answer = '{"object":"text_completion","usage":{"prompt_tokens":7,"completion_tokens":10,"total_tokens":17}}';
    const json = { headers: { headers: [{ key: "content-type", rawValue: Buffer.from("application/json") }] } };
    const messages = [
      hermeticHeaders(),
      body(hermeticBody("my-model")),
      { responseHeaders: json },
      { responseBody: { body: Buffer.from(answer), endOfStream: true } },
    ];
    expect(await play(epp, messages, 4)).toEqual([
      ...routedTo(pods[1]!, hermeticBody("my-model")),
      answeredHeaders({ "content-type": "application/json" }),
      answeredBody(answer, true, { "envoy.lb": { "x-gateway-inference-request-cost": 10 } }),
    ]);
  });

  it("answers a header-only request to an empty pool with 500 and the text of v1.5 (E-14)", async () => {
    const empty = await start(endpointsFile([]));
    const { requestHeaders } = hermeticHeaders();
    expect(await play(empty, [{ requestHeaders: { ...requestHeaders, endOfStream: true } }], 1)).toEqual(
      refusedWith(500, "Internal - no pods available in datastore"),
    );
  });

  it("speaks vLLM's gRPC alone where it is told to, and refuses the rest (E-110, E-112)", async () => {
    const grpc = await start(endpoints, "--config-text", GRPC);
    const headers = (path: string) => hermeticHeaders([":path", path]);
    const path = "/vllm.grpc.engine.VllmEngine/Generate";
    const frame = grpcFrame("GenerateRequest", { text: "test" });
    expect(await play(grpc, [headers(path), body(frame)], 2)).toEqual(
      routedTo(pods[1]!, frame.toString("latin1"), { ":path": path }),
    );
    expect(await play(grpc, [headers(path), body("text")], 1)).toEqual(
      refusedWith(400, "BadRequest - parsing gRPC payload for Generate: not able to parse payload"),
    );
    expect(await play(grpc, [headers("unsupportedMethod"), body(frame)], 1)).toEqual(
      refusedWith(400, "BadRequest - unsupported gRPC path: unsupportedMethod"),
    );
  });
});

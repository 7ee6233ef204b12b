import { mkdtempSync, writeFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../support/free-port.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { sluice } from "../support/process.ts";
import { type Sim, startSims } from "../support/stack.ts";

/** An alias of an adapter, so that the gateway restores the model name in every answer. */
export const ALIAS = "front";
const RESOURCES = `apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: pool}
spec:
  selector: {matchLabels: {app: vllm}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: epp, port: {number: 9002}}
---
apiVersion: llm-d.ai/v1alpha2
kind: InferenceModelRewrite
metadata: {name: rules}
spec:
  poolRef: {name: pool}
  rules:
  - matches: [{model: {value: ${ALIAS}}}]
    targets: [{modelRewrite: tuned, weight: 1}]
`;

export type KeyName = "team" | "narrow";

/** Makes a key as an operator does. */
export async function addKey(file: string, name: string, ...more: readonly string[]): Promise<string> {
  const process = sluice("keys", "add", "--name", name, ...more, "--file", file);
  const { code } = await process.ended();
  if (code !== 0) throw new Error(process.stderr);
  return process.stdout.trim();
}

/** A gateway in front of two simulators, one that repeats what it hears, one that is busy at first, and one that is gone. */
export interface World {
  readonly sims: readonly Sim[];
  readonly gateway: TestGateway;
  /** Keys by their names: `team` may use every model, `narrow` only `sim`. */
  readonly keys: Readonly<Record<KeyName, string>>;
  /** The headers of the requests that reached the busy server, by `x-test-id`. */
  readonly busy: ReadonlyMap<string, readonly IncomingHttpHeaders[]>;
  close(): Promise<void>;
}

export async function startWorld(): Promise<World> {
  const model = ["--lora-modules", '{"name":"tuned","path":"/adapter"}', "--enable-kvcache"];
  const long = ["--max-model-len", "4000000", "--time-scale", "0.000001"];
  const [pair, echo] = await Promise.all([
    startSims(2, [...model, ...long]),
    startSims(1, ["--model", "echo", "--mode", "echo", ...long]),
  ]);
  const sims = [...pair, ...echo];
  const { server, port, busy } = await busyServer();
  const folder = mkdtempSync(join(tmpdir(), "sluice-clients-"));
  const resources = mkdtempSync(join(tmpdir(), "sluice-resources-"));
  writeFileSync(join(resources, "rules.yaml"), RESOURCES);
  const file = join(folder, "endpoints.yaml");
  const entries = [
    ...sims.map((sim, i) => `{ name: sim-${i}, address: 127.0.0.1, port: ${sim.port} }`),
    `{ name: busy, address: 127.0.0.1, port: ${port}, models: [busy] }`,
    `{ name: gone, address: 127.0.0.1, port: ${await freePort()}, models: [gone] }`,
  ];
  writeFileSync(file, `endpoints:\n${entries.map((entry) => `- ${entry}\n`).join("")}`);
  const keysFile = join(folder, "keys.yaml");
  const team = await addKey(keysFile, "team");
  const keys = { team, narrow: await addKey(keysFile, "narrow", "--models", "sim") };
  const flags = ["--resources", resources, "--request-log", "all", "--keys", keysFile];
  const gateway = await startGateway(file, flags);
  return {
    sims,
    gateway,
    keys,
    busy,
    async close() {
      server.close();
      server.closeAllConnections();
      await Promise.all([gateway.process, ...sims.map(({ process }) => process)].map((one) => one.stop()));
    },
  };
}

const CHAT = {
  ...{ id: "c1", object: "chat.completion", created: 1, model: "busy" },
  choices: [{ index: 0, message: { role: "assistant", content: "at last" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
};
const MESSAGE = {
  ...{ id: "m1", type: "message", role: "assistant", model: "busy", content: [{ type: "text", text: "at last" }] },
  ...{ stop_reason: "end_turn", stop_sequence: null, usage: { input_tokens: 1, output_tokens: 2 } },
};

/** Refuses the first request with an `x-test-id` by the status in `x-refusal`, and asks for a retry after a millisecond. */
async function busyServer(): Promise<{ server: Server; port: number; busy: Map<string, IncomingHttpHeaders[]> }> {
  const busy = new Map<string, IncomingHttpHeaders[]>();
  const server = createServer((request, response) => {
    request.resume();
    if (request.method !== "POST") {
      response.writeHead(404).end();
      return;
    }
    const id = String(request.headers["x-test-id"]);
    const seen = busy.get(id) ?? [];
    busy.set(id, [...seen, request.headers]);
    const anthropic = request.url!.startsWith("/v1/messages");
    if (seen.length > 0) {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify(anthropic ? MESSAGE : CHAT));
      return;
    }
    const error = { type: "rate_limit_error", message: "too many at once" };
    const limits = { "retry-after-ms": "1", "x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "0" };
    response.writeHead(Number(request.headers["x-refusal"]), { "content-type": "application/json", ...limits });
    response.end(
      JSON.stringify(anthropic ? { type: "error", error } : { error: { ...error, param: null, code: "busy" } }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, port: (server.address() as AddressInfo).port, busy };
}

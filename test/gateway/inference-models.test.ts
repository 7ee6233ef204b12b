import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { type Answer, ask, getJson, JSON_HEADERS } from "../support/client.ts";
import { startGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { endpointsFile, startSims } from "../support/stack.ts";

const API = "apiVersion: inference.networking.x-k8s.io/v1alpha2\n";
const POOL = `${API}kind: InferencePool
metadata: {name: pool}
spec: {selector: {app: vllm}, targetPortNumber: 8000, extensionRef: {name: epp}}
`;
const model = (name: string, weight: string) => `${API}kind: InferenceModel
metadata: {name: ${name}, annotations: {sluice.dev/fairness-weight: "${weight}"}}
spec: {modelName: ${name}, criticality: Standard, targetModels: [{name: sim}], poolRef: {name: pool}}
`;
const MODELS = [model("chat", "two"), model("code", "2")].join("---\n");
/** Requests in flight at the model server. */
const SLOTS = 2;
/** Says nothing of the feature gate. */
const CONFIG = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- { type: queue-scorer }
- { name: slots, type: concurrency-detector, parameters: { maxConcurrency: ${SLOTS} } }
schedulingProfiles:
- { name: default, plugins: [{ pluginRef: queue-scorer }] }
flowControl: { saturationDetector: { pluginRef: slots } }
`;

interface Queues {
  readonly requests: number;
  readonly bands: readonly {
    readonly priority: number;
    readonly longest: readonly { readonly fairnessId: string; readonly requests: number }[];
  }[];
}

const running: { stop(): Promise<unknown> }[] = [];
const clients: AbortController[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) client.abort();
  await Promise.all(running.splice(0).map((process) => process.stop()));
});

it("InferenceModels turn flow control on and off in `sluice gateway`, and each request is served (decisions: model fairness)", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sluice-models-"));
  const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);
  write("pool.yaml", POOL);
  const config = join(mkdtempSync(join(tmpdir(), "sluice-config-")), "config.yaml");
  writeFileSync(config, CONFIG);
  const sims = await startSims(1, ["--time-to-first-token", "1", "--inter-token-latency", "1"]);
  running.push(...sims.map(({ process }) => process));
  const gateway = await startGateway(endpointsFile([sims[0]!.port]), [
    ...["--resources", folder, "--config-file", config],
  ]);
  running.push(gateway.process);
  const page = () => ask(`${gateway.adminUrl}/debug/queues`);
  const queues = () => getJson<Queues>(`${gateway.adminUrl}/debug/queues`);
  const send = (name: string, headers: Record<string, string> = {}): Promise<Answer> => {
    const client = new AbortController();
    clients.push(client);
    const body = JSON.stringify({ model: name, prompt: "p", max_tokens: 2 });
    const answer = ask(`${gateway.url}/v1/completions`, {
      ...{ method: "POST", headers: { ...JSON_HEADERS, ...headers }, body, signal: client.signal, timeoutMs: 60_000 },
    });
    answer.catch(() => {});
    return answer;
  };
  const statuses = async (sent: readonly Promise<Answer>[]) => (await Promise.all(sent)).map(({ status }) => status);
  /** Sends one request after the other, so that each waits before the next one comes. */
  const enqueue = async (...names: string[]): Promise<Promise<Answer>[]> => {
    const sent: Promise<Answer>[] = [];
    for (const name of names) {
      sent.push(send(name));
      await poll(`${sent.length} to wait`, async () => (await queues()).requests === sent.length, 20_000);
    }
    return sent;
  };

  expect((await page()).status).toBe(404);
  write("models.yaml", MODELS);
  await poll("flow control", async () => (await page()).status === 200, 20_000);
  expect((await queues()).bands.map(({ priority }) => priority)).toEqual([1, 0, -1]);
  await poll("the log", () => gateway.process.stderr.includes("flow control is on: there are InferenceModels"), 20_000);
  expect(gateway.process.stderr).toMatch(/"two\\" is not a weight, so Sluice uses weight 1/);

  const held = { "x-sim-stall-after-tokens": "0" };
  for (let i = 0; i < SLOTS; i++) void send("chat", held);
  const inFlight = async (): Promise<number> => {
    const { endpoints } = await getJson<{ endpoints: { inFlight: { requests: number } }[] }>(
      `${gateway.adminUrl}/debug/endpoints`,
    );
    return endpoints[0]!.inFlight.requests;
  };
  await poll("the slots to be taken", async () => (await inFlight()) === SLOTS, 20_000);
  const first = await enqueue("chat", "chat", "chat", "code", "code");
  const standard = (await queues()).bands.find(({ priority }) => priority === 0)!;
  expect(standard.longest.map(({ fairnessId, requests }) => [fairnessId, requests])).toEqual([
    ["chat", 3],
    ["code", 2],
  ]);
  // One free slot serves them all, one after the other.
  clients.shift()!.abort();
  expect(await statuses(first)).toEqual([200, 200, 200, 200, 200]);

  void send("chat", held);
  await poll("the slots to be taken again", async () => (await inFlight()) === SLOTS, 20_000);
  const second = await enqueue("chat", "code", "code");
  rmSync(join(folder, "models.yaml"));
  expect(await statuses(second)).toEqual([200, 200, 200]);
  expect((await page()).status).toBe(404);
  expect(gateway.process.stderr).toContain("flow control by InferenceModels is off");
});

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { ask, getJson, JSON_HEADERS } from "../support/client.ts";
import { freePort } from "../support/free-port.ts";
import { type ShownEndpoint, startGateway } from "../support/gateway.ts";
import { EventPublisher, stored } from "../support/kv-events/publisher.ts";
import { poll } from "../support/poll.ts";
import { RenderServer } from "../support/render-server.ts";
import { endpointsFile, startSims } from "../support/stack.ts";

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

const MODEL = "m";
const PROMPT = Array.from({ length: 40 }, (_, i) => `word${i}`).join(" ");

describe("sluice gateway with KV-cache events", () => {
  it("sends a prompt to the server that says it has it, and elsewhere once another one says so", async () => {
    const folder = mkdtempSync(join(tmpdir(), "kv-events-"));
    cleanUps.push(() => rmSync(folder, { recursive: true }));
    const render = await RenderServer.start();
    cleanUps.push(() => render.close());
    const sims = await startSims(3, ["--model", MODEL]);
    cleanUps.push(() => Promise.all(sims.map((sim) => sim.process.stop())));
    const port = await freePort();
    const config = join(folder, "config.yaml");
    writeFileSync(
      config,
      `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: token-producer
  parameters: {vllm: {url: "${render.url}"}}
- type: precise-prefix-cache-producer
  parameters:
    indexerConfig: {kvBlockIndexConfig: {enableMetrics: true}}
    kvEventsConfig: {zmqEndpoint: "tcp://127.0.0.1:${port}", discoverPods: false}
- type: prefix-cache-scorer
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: prefix-cache-scorer}
`,
    );
    const gateway = await startGateway(endpointsFile(sims.map((sim) => sim.port)), ["--config-file", config]);
    cleanUps.push(() => gateway.process.stop());
    const engines = await Promise.all(
      sims.map((sim) =>
        EventPublisher.start({ connect: `tcp://127.0.0.1:${port}`, topic: `kv@127.0.0.1:${sim.port}@${MODEL}` }),
      ),
    );
    for (const engine of engines) cleanUps.push(() => engine.kill());
    const tokens = render.tokens(PROMPT);
    const send = async (): Promise<string> => {
      const body = JSON.stringify({ model: MODEL, prompt: PROMPT, max_tokens: 1 });
      const answer = await ask(`${gateway.url}/v1/completions`, { method: "POST", headers: JSON_HEADERS, body });
      expect(answer.status).toBe(200);
      const [newest] = await getJson<{ endpoint: string }[]>(`${gateway.adminUrl}/debug/decisions`);
      return newest!.endpoint;
    };
    const { endpoints } = await getJson<{ endpoints: ShownEndpoint[] }>(`${gateway.adminUrl}/debug/endpoints`);
    const idOf = (port: number): string => endpoints.find(({ hostPort }) => hostPort === `127.0.0.1:${port}`)!.id;
    const goesTo = (at: number) => async () => {
      await engines[at]!.send([stored(tokens.slice(0, 32), 100 * (at + 1))]);
      for (let i = 0; i < 5; i++) if ((await send()) !== idOf(sims[at]!.port)) return false;
      return true;
    };
    await poll("five requests in a row at the second server", goesTo(1));
    await engines[1]!.send([{ type: "AllBlocksCleared" }]);
    await poll("five requests in a row at the third server", goesTo(2));
    const page = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
    expect(page).toMatch(/^llm_d_epp_kv_cache_index_lookup_hits_total [1-9]/m);
    const states = await getJson<unknown>(`${gateway.adminUrl}/debug/plugins/state`);
    expect(JSON.stringify(states)).toContain('"engineBlockSizes":[16]');
  });
});

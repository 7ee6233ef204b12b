import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { realClock } from "../../src/base/clock/real.ts";
import { EventBatchReader } from "../../src/picker/kv-events/event-batch.ts";
import { zeroMqSockets } from "../../src/picker/kv-events/zeromq-sockets.ts";
import { ask, getJson, JSON_HEADERS } from "../support/client.ts";
import { freePort } from "../support/free-port.ts";
import { startGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { endpointsFile, startSims } from "../support/stack.ts";

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

const PROMPT = Array.from({ length: 60 }, (_, i) => `word${i}`).join(" ");
const body = (prompt: string): string => JSON.stringify({ model: "sim", prompt, max_tokens: 1 });

/** An explained decision. */
interface Shown {
  readonly explanation?: {
    readonly cache: { readonly events: number | null; readonly reported: number | null } | null;
  };
}

describe("the events of sluice sim", () => {
  it("tell a gateway exactly what each server reports of its cache, also after it lost all", async () => {
    const folder = mkdtempSync(join(tmpdir(), "sim-events-"));
    cleanUps.push(() => rmSync(folder, { recursive: true }));
    const address = `tcp://127.0.0.1:${await freePort()}`;
    const sims = await startSims(2, ["--kv-events", address]);
    cleanUps.push(() => Promise.all(sims.map((sim) => sim.process.stop())));
    const config = join(folder, "config.yaml");
    writeFileSync(
      config,
      `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: token-producer
  parameters: {vllm: {url: "${sims[0]!.url}"}}
- type: precise-prefix-cache-producer
  parameters: {kvEventsConfig: {zmqEndpoint: "${address}", discoverPods: false}, tokenProcessorConfig: {blockSizeTokens: 16}}
- type: prefix-cache-scorer
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: prefix-cache-scorer}
`,
    );
    const gateway = await startGateway(endpointsFile(sims.map((sim) => sim.port)), ["--config-file", config]);
    cleanUps.push(() => gateway.process.stop());
    let number = 0;
    const cacheOf = async (): Promise<readonly (number | null)[]> => {
      const id = `r${++number}`;
      const headers = { ...JSON_HEADERS, "x-request-id": id };
      const answer = await ask(`${gateway.url}/v1/completions`, { method: "POST", headers, body: body(PROMPT) });
      expect(answer.status).toBe(200);
      const shown = await getJson<Shown & Shown["explanation"]>(`${gateway.adminUrl}/debug/decisions/${id}`);
      const cache = (shown.explanation ?? shown)!.cache!;
      return [cache.events, cache.reported];
    };
    await poll("exact hits", async () => {
      const [events, reported] = await cacheOf();
      return events === reported && Number(events) > 0;
    });
    for (const sim of sims) await ask(`${sim.url}/admin/reset`, { method: "POST" });
    await poll("that nothing is there", async () => {
      const [events] = await cacheOf();
      return events === 0;
    });
  });

  it("can be listened to and asked for again, on ports of their own for each server", async () => {
    const ports = [await freePort(), await freePort()];
    const [sim] = await startSims(1, [
      ...["--kv-events", `tcp://*:${ports[0]}`],
      ...["--kv-events-replay", `tcp://127.0.0.1:${ports[1]}`],
    ]);
    cleanUps.push(() => sim!.process.stop());
    for (const prompt of [PROMPT, `other ${PROMPT}`])
      await ask(`${sim!.url}/v1/completions`, { method: "POST", headers: JSON_HEADERS, body: body(prompt) });
    const sockets = zeroMqSockets(realClock);
    const reader = new EventBatchReader();
    const seen: string[] = [];
    const take = ({ sequence, payload }: { readonly sequence: number; readonly payload: Buffer }) => {
      reader.read(payload, (event) => seen.push(`${sequence} ${event.type}`));
      return undefined;
    };
    // Nobody heard the messages so far.
    const replay = sockets.replay(`tcp://127.0.0.1:${ports[1]}`, 1, {
      message: take,
      done: () => seen.push("done"),
      fault: (fault) => seen.push(fault),
    });
    cleanUps.push(() => replay.close());
    await poll("the second message again", async () => seen.includes("done"));
    expect(seen).toEqual(["1 stored", "done"]);
    const live = sockets.subscribe(`tcp://127.0.0.1:${ports[0]}`, "kv@127.0.0.1:", false, {
      message: take,
      disconnected() {},
      fault: () => undefined,
    });
    cleanUps.push(() => live.close());
    await poll("a live message", async () => {
      await ask(`${sim!.url}/admin/reset`, { method: "POST" });
      return seen.some((event) => event.endsWith(" cleared"));
    });
  });
});

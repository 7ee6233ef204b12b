import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { GRPC_STATUS } from "../../../src/base/grpc/status.ts";
import { ask, chat, getJson, JSON_HEADERS } from "../client.ts";
import { poll } from "../poll.ts";
import { type Metadata, ScalerClient } from "../scaler-client.ts";
import { endpointsFile, type Sim, seenBy, startSims } from "../stack.ts";

/** A picker with an external scaler, behind one of its wires. */
export interface ScaledWire {
  /** Where clients send their requests. */
  readonly url: string;
  readonly adminUrl: string;
  readonly scalerAddress: string;
  /** The authority of the scaler's certificate, PEM; absent = the scaler speaks clear text. */
  readonly scalerCa?: string;
  terminate(): void;
  stop(): Promise<unknown>;
}

const KEYS = `flowControl:
  noEndpointRequestTTL: 10m
`;
const CONFIGURATION = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins:
- { type: active-request-scorer }
- { type: max-score-picker }
schedulingProfiles:
- { name: default, plugins: [{ pluginRef: active-request-scorer }, { pluginRef: max-score-picker }] }
${KEYS}`;
const WITHOUT_GATE = CONFIGURATION.replace("featureGates: [flowControl]\n", "").slice(0, -KEYS.length);
const TEN = 10;

/**
 * Scales a pool from zero as KEDA does.
 * @param startWire starts a picker with these arguments, `--endpoints` aside
 */
export function describeScaling(
  name: string,
  startWire: (endpoints: string, args: readonly string[]) => Promise<ScaledWire>,
): void {
  describe(`a pool that scales from zero, ${name}`, () => {
    const running: { stop(): Promise<unknown> }[] = [];
    const clients: ScalerClient[] = [];
    let wire: ScaledWire;
    let endpoints: string;
    let config: string;
    let sims: readonly Sim[] = [];

    const scaler = (metadata: Metadata): ScalerClient => {
      const client = new ScalerClient(wire.scalerAddress, metadata, wire.scalerCa);
      clients.push(client);
      return client;
    };
    const reload = (text: string): void => writeFileSync(config, text);

    beforeAll(async () => {
      endpoints = endpointsFile([]);
      writeFileSync(endpoints, "endpoints: []\n");
      config = join(mkdtempSync(join(tmpdir(), "sluice-scaling-")), "config.yaml");
      writeFileSync(config, CONFIGURATION);
      wire = await startWire(endpoints, ["--config-file", config]);
      running.push(wire);
    });
    afterAll(async () => {
      for (const client of clients) client.close();
      await Promise.all(running.map((one) => one.stop()));
    });

    it("is active once requests wait, has their number, and answers all of them when the first server comes", async () => {
      const requests = scaler({ target: "5" });
      const tokens = scaler({ metric: "queuedTokens", target: "1k" });
      const wait = scaler({ metric: "predictedWaitSeconds", target: "10" });
      const watched = requests.watch();
      await poll("the first state", () => watched.states.length > 0);
      expect([watched.states, await requests.isActive(), await requests.value()]).toEqual([[false], false, 0]);
      expect(await requests.target()).toEqual({
        ...{ metricName: "sluice-queued-requests", targetSize: 5, targetSizeFloat: 5 },
      });

      const sent = Array.from({ length: TEN }, (_, n) =>
        ask(`${wire.url}/v1/chat/completions`, {
          ...{ headers: JSON_HEADERS, body: chat(`scaled-${n}`), timeoutMs: 120_000 },
        }),
      );
      await poll("the push of work", () => watched.states.at(-1) === true);
      await poll("ten waiting requests", async () => (await requests.value()) === TEN);
      expect([watched.states, await requests.isActive()]).toEqual([[false, true], true]);
      expect(await tokens.value()).toBeGreaterThan(TEN);
      expect(await scaler({ target: "5", priority: "1" }).value()).toBe(0);
      const before = await wait.value();
      await poll("a longer wait", async () => (await wait.value()) > before);
      const page = (await ask(`${wire.adminUrl}/metrics`)).text;
      const queued = /^sluice_flow_control_queue_tokens\{.*\} (\d+)$/m.exec(page)?.[1];
      expect(Number(queued)).toBe(await tokens.value());
      expect(page).toMatch(/^sluice_flow_control_predicted_wait_seconds\{inference_pool=".*"\} [\d.]+$/m);

      sims = await startSims(1);
      running.push(...sims.map(({ process }) => process));
      writeFileSync(endpoints, `endpoints:\n- { name: first, address: 127.0.0.1, port: ${sims[0]!.port} }\n`);
      const answers = await Promise.all(sent);
      expect(answers.map(({ status }) => status)).toEqual(Array(TEN).fill(200));
      await poll("the push of rest", () => watched.states.at(-1) === false);
      expect([watched.states, await requests.isActive(), await requests.value()]).toEqual([
        ...[[false, true, false], false, 0],
      ]);
      const { requests: served } = await getJson<{ requests: { model: string | null }[] }>(
        `${sims[0]!.url}/admin/requests`,
      );
      // The question of the gateway names no model.
      expect(served.filter(({ model }) => model !== null)).toHaveLength(TEN);
    });

    it("stays active while a request is in flight and none waits", async () => {
      const requests = scaler({ target: "5" });
      const client = new AbortController();
      const stalled = ask(`${wire.url}/v1/chat/completions`, {
        headers: { ...JSON_HEADERS, "x-sim-stall-after-tokens": "0", "x-test-id": "stalled" },
        ...{ body: chat("stalled"), signal: client.signal, timeoutMs: 120_000 },
      });
      stalled.catch(() => {});
      await poll("the request at the server", async () => (await seenBy(sims, "stalled")).length === 1);
      expect([await requests.isActive(), await requests.value()]).toEqual([true, 0]);
      client.abort();
      await poll("the end of the work", async () => !(await requests.isActive()));
    });

    it("names the fault in the metadata, and the gate when a reload turns flow control off", async () => {
      await expect(scaler({ metric: "queueRequests", target: "1" }).isActive()).rejects.toMatchObject({
        code: GRPC_STATUS.invalidArgument,
        details: 'unknown metric "queueRequests"; did you mean `queuedRequests`?',
      });
      const requests = scaler({ target: "5" });
      const watched = requests.watch();
      reload(WITHOUT_GATE);
      expect(await watched.ended).toMatchObject({ code: GRPC_STATUS.failedPrecondition });
      await expect(requests.value()).rejects.toMatchObject({ details: expect.stringContaining("featureGates") });
      reload(CONFIGURATION);
      await poll("flow control", () => requests.isActive().then(() => true));
    });

    it("ends its streams at once when the picker drains", async () => {
      const watched = scaler({ target: "5" }).watch();
      await poll("the first state", () => watched.states.length > 0);
      wire.terminate();
      expect(await watched.ended).toMatchObject({ code: GRPC_STATUS.unavailable, details: /drains/ });
    });
  });
}

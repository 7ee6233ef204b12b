import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, chat } from "../support/client.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { residentMiB } from "../support/process.ts";
import { type Stack, startStack } from "../support/stack.ts";
import { chats, StalledUploads, sampleOn } from "../support/stalled.ts";

const KiB = 1024;
const MiB = 1024 * KiB;
const UPLOADS = 1000;
const SMALL = 10_000;
/**
 * Of docs/operate/bodies.md, with the defaults, in MiB: the budget, the reserve, one body, 128 KiB and a piece for each upload,
 * and the window of each stream.
 */
const BOUND = 256 + 64 + 32 + (UPLOADS * (128 + 64 + 256)) / KiB;
/** What else 1,000 connections and 10,000 requests cost, garbage included. */
const BESIDE = 150;

/** The long form of `stalled.test.ts`: default settings, 1,000 uploads that stall, 10,000 small requests meanwhile. */
describe("1,000 uploads that stall", () => {
  let stack: Stack;
  let gateway: TestGateway;

  beforeAll(async () => {
    const quick = ["--inter-token-latency", "0", "--time-to-first-token", "0", "--prefill-time-per-token", "0"];
    stack = await startStack("standalone", {
      simArgs: [...quick, "--max-num-seqs", "256", "--max-model-len", "4000000"],
    });
    gateway = await startGateway(stack.endpoints);
    await poll("the first answer", async () => (await ask(`${stack.url}/v1/models`)).status === 200);
  });
  afterAll(async () => {
    await gateway?.process.stop();
    await stack?.stop();
  });

  it.each(["through Envoy and the picker", "through the gateway"])(
    "fail no request of others and leave their p99 within three times that of an idle run, %s",
    async (through) => {
      const isEnvoy = through.includes("Envoy");
      const { adminUrl, process } = isEnvoy ? stack.epp : gateway;
      const url = isEnvoy ? stack.url : gateway.url;
      const port = isEnvoy ? stack.envoy.port : gateway.port;
      const sample = async (name: string) => sampleOn((await ask(`${adminUrl}/metrics`)).text, name);
      const small = { count: SMALL, connections: 16, body: chat("hello") };

      await chats(url, { ...small, count: 1000 });
      const idle = await chats(url, small);
      const before = await residentMiB(process.pid);
      const uploads = await StalledUploads.begin({ port, count: UPLOADS, announced: 2 * MiB, sent: 512 * KiB });
      try {
        await poll("bodies that wait", async () => (await sample("sluice_body_budget_paused")) > 100);
        let grown = 0;
        let moderate = 0;
        let isOver = false;
        const watch = (async () => {
          while (!isOver) {
            grown = Math.max(grown, (await residentMiB(process.pid)) - before);
            const one = await chats(url, { count: 1, connections: 1, body: chat("x".repeat(200_000)) });
            expect(one.bad).toEqual([]);
            moderate++;
          }
        })();
        const busy = await chats(url, small).finally(() => {
          isOver = true;
        });
        await watch;
        const ratio = busy.p99 / idle.p99;
        const waiting = await sample("sluice_body_budget_paused");
        const ms = (value: number) => value.toFixed(1);
        globalThis.process.stdout.write(
          [
            `${through}: p50 ${ms(idle.p50)} -> ${ms(busy.p50)} ms, p99 ${ms(idle.p99)} -> ${ms(busy.p99)} ms, ratio ${ms(ratio)};`,
            `${moderate} requests of 200 KB meanwhile; memory +${grown.toFixed(0)} MiB, bound ${BOUND.toFixed(0)};`,
            `${uploads.answered().get(408) ?? 0} uploads let go, ${waiting} wait\n`,
          ].join(" "),
        );
        expect([idle.bad, busy.bad, busy.count]).toEqual([[], [], SMALL]);
        expect(moderate).toBeGreaterThan(0);
        expect(ratio).toBeLessThan(3);
        expect(grown).toBeLessThan(BOUND + BESIDE);
        await poll("nobody to wait", async () => (await sample("sluice_body_budget_paused")) === 0, 600_000);
        expect([...uploads.answered().keys()]).toEqual([408]);
      } finally {
        uploads.close();
      }
    },
    1_800_000,
  );
});

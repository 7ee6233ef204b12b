import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, chat } from "../support/client.ts";
import { poll } from "../support/poll.ts";
import { slownessAtStart } from "../support/slowness.ts";
import { type Stack, startStack } from "../support/stack.ts";
import { chats, StalledUploads, sampleOn } from "../support/stalled.ts";

const MiB = 1024 * 1024;
/** A share of one body (1/64) that a moderate one, of 200 KB, keeps within. */
const BUDGET = 16 * MiB;
/** Seconds. So long that all uploads are there before the first of them stalls. */
const WINDOW = Math.ceil(4 * slownessAtStart());
const HELD = 'sluice_body_budget_bytes{pool="main"}';

describe("real Envoy, and a picker whose budget for bodies is spent by uploads that stall", () => {
  let stack: Stack;
  let uploads: StalledUploads;

  beforeAll(async () => {
    const quick = ["--inter-token-latency", "0", "--time-to-first-token", "0", "--prefill-time-per-token", "0"];
    stack = await startStack("standalone", {
      simArgs: [...quick, "--max-num-seqs", "256", "--max-model-len", "4000000"],
      eppArgs: ["--body-budget", "16Mi", "--small-body-reserve", "4Mi", "--body-stall-window", `${WINDOW}s`],
    });
    await poll("the first answer", async () => (await ask(`${stack.url}/v1/models`)).status === 200);
  });
  afterAll(async () => {
    uploads?.close();
    await stack?.stop();
  });

  const sample = async (name: string) => sampleOn((await ask(`${stack.epp.adminUrl}/metrics`)).text, name);

  it("serves small and moderate requests, names the clients that hold it, and answers those that stall with 408", async () => {
    uploads = await StalledUploads.begin({ port: stack.envoy.port, count: 100, announced: 320_000, sent: 300_000 });
    const small = await chats(stack.url, { count: 1000, connections: 16, body: chat("hello") });
    expect(small.bad).toEqual([]);
    const report = await stack.epp.process.until("bodies that wait", () =>
      stack.epp.process.stderr.split("\n").find((line) => line.includes("request bodies wait for memory")),
    );
    const { waiting, holders } = JSON.parse(report);
    expect(waiting).toBeGreaterThan(10);
    // The clients are named by their addresses.
    expect(holders[0]).toMatchObject({ address: expect.stringMatching(/^127\.1\./), bytes: expect.any(Number) });
    const pieces = await chats(stack.url, { count: 100, connections: 8, body: chat("x".repeat(60_000)) });
    expect(pieces.bad).toEqual([]);
    const moderate = await chats(stack.url, { count: 50, connections: 4, body: chat("x".repeat(200_000)) });
    expect(moderate.bad).toEqual([]);

    // As many as it takes until nobody waits, and no more than half is in use.
    await poll("the others to be let go", async () => (await sample("sluice_body_budget_paused")) === 0, 90_000);
    await poll("half of it to be free", async () => 2 * (await sample(HELD)) <= BUDGET, 90_000);
    await poll("their answers", () => (uploads.answered().get(408) ?? 0) > 60);
    expect([...uploads.answered().keys()]).toEqual([408]);
    expect(uploads.answer(408)).toContain(`stalled: less than 1024 bytes/s for ${WINDOW} s`);
    uploads.close();
    await poll("their bytes to be given back", async () => (await sample(HELD)) === 0);
    // Each was one exchange that was refused, and none a failure of the filter.
    expect(await stack.envoy.stat("http.inference.ext_proc.streams_failed")).toBe(0);
  });
});

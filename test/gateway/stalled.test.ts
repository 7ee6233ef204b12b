import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, chat } from "../support/client.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { slownessAtStart } from "../support/slowness.ts";
import { endpointsFile, type Sim, startSims } from "../support/stack.ts";
import { chats, StalledUploads, sampleOn } from "../support/stalled.ts";

const MiB = 1024 * 1024;
/** A share of one body (1/64) that a moderate one, of 200 KB, keeps within. */
const BUDGET = 16 * MiB;
/** Seconds: what an upload may stall for. Long enough for those that only have a slow machine. */
const WINDOW = Math.ceil(4 * slownessAtStart());
const HELD = 'sluice_body_budget_bytes{pool="main"}';

describe("a gateway whose budget for bodies is spent by uploads that stall", () => {
  let sims: Sim[];
  let gateway: TestGateway;
  /** As the gateway, but nobody is let go. */
  let patient: TestGateway;
  let uploads: StalledUploads;

  beforeAll(async () => {
    const quick = ["--inter-token-latency", "0", "--time-to-first-token", "0", "--prefill-time-per-token", "0"];
    sims = await startSims(2, [...quick, "--max-num-seqs", "256", "--max-model-len", "4000000"]);
    const start = (window: number) =>
      startGateway(endpointsFile(sims.map((sim) => sim.port)), [
        ...["--body-budget", "16Mi", "--small-body-reserve", "4Mi", "--body-stall-window", `${window}s`],
      ]);
    [gateway, patient] = await Promise.all([start(WINDOW), start(3600)]);
  });
  afterAll(async () => {
    uploads?.close();
    for (const started of [gateway, patient]) await started?.process.stop();
    await Promise.all((sims ?? []).map((sim) => sim.process.stop()));
  });

  const sample = async (name: string, { adminUrl } = gateway) =>
    sampleOn((await ask(`${adminUrl}/metrics`)).text, name);

  it("serves small requests, in one piece and in several, and moderate ones, and ends those that stall with 408", async () => {
    uploads = await StalledUploads.begin({ port: gateway.port, count: 100, announced: 320_000, sent: 300_000 });
    await poll("bodies that wait", async () => (await sample("sluice_body_budget_paused")) > 10);

    const small = await chats(gateway.url, { count: 1000, connections: 16, body: chat("hello") });
    expect(small.bad).toEqual([]);
    // Too long for one piece, not too long for the reserve.
    const pieces = await chats(gateway.url, { count: 100, connections: 8, body: chat("x".repeat(60_000)) });
    expect(pieces.bad).toEqual([]);
    const moderate = await chats(gateway.url, { count: 50, connections: 4, body: chat("x".repeat(200_000)) });
    expect(moderate.bad).toEqual([]);

    // As many as it takes until nobody waits, and no more than half is in use.
    await poll("the others to be let go", async () => (await sample("sluice_body_budget_paused")) === 0, 90_000);
    await poll("half of it to be free", async () => 2 * (await sample(HELD)) <= BUDGET, 90_000);
    await poll("their answers", () => (uploads.answered().get(408) ?? 0) > 60);
    expect([...uploads.answered().keys()]).toEqual([408]);
    const answer = uploads.answer(408)!;
    expect(answer).toMatch(/\r\nconnection: close\r\n/i);
    expect(answer).toMatch(/\r\nx-gateway-error: body-stalled\r\n/);
    const { error } = JSON.parse(answer.slice(answer.indexOf("\r\n\r\n") + 4));
    expect(error).toMatchObject({ type: "invalid_request_error", code: 408 });
    expect(error.message).toContain(`stalled: less than 1024 bytes/s for ${WINDOW} s`);

    uploads.close();
    await poll("their bytes to be given back", async () => (await sample(HELD)) === 0);
    expect(await sample('sluice_body_budget_limit_bytes{pool="main"}')).toBe(BUDGET);
  });

  it("reports it once with who holds the budget, reports its end, and stays ready", async () => {
    await poll("the report of the end", () => gateway.process.stderr.includes("no request body waits for memory"));
    const lines = gateway.process.stderr
      .split("\n")
      .filter((line) => line.includes("request bodies wait for memory"))
      .map((line) => JSON.parse(line));
    expect(lines.length).toBeGreaterThan(0);
    const [{ waiting, used, limit, holders }] = lines;
    expect(waiting).toBeGreaterThan(0);
    expect([limit, used > 0.6 * BUDGET, holders.length]).toEqual([BUDGET, true, 5]);
    expect(holders[0]).toMatchObject({ address: expect.stringMatching(/^127\.1\./), bytes: expect.any(Number) });
    expect(holders[0].requestId).toMatch(/^[0-9a-f-]{36}$/);
    expect((await ask(`${gateway.adminUrl}/ready`)).status).toBe(200);
  });

  it("leaves room to others when one address alone has begun them all, and all to one address when nobody else is there", async () => {
    const alone = await StalledUploads.begin({
      ...{ port: patient.port, count: 100, announced: 320_000, sent: 300_000, address: "127.2.0.1" },
    });
    try {
      await poll("bodies that wait", async () => (await sample("sluice_body_budget_paused", patient)) > 10);
      await poll("most of it to be held", async () => (await sample(HELD, patient)) > 0.6 * BUDGET);
      // At once: nobody is let go before the test ends.
      const moderate = await chats(patient.url, { count: 5, connections: 1, body: chat("x".repeat(200_000)) });
      expect(moderate.bad).toEqual([]);
      expect(alone.answered().get(408) ?? 0).toBe(0);
    } finally {
      alone.close();
    }
  });
});

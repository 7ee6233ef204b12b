import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { delay } from "../../src/base/clock/clock.ts";
import { SeededRandom } from "../../src/base/clock/random.ts";
import { realClock } from "../../src/base/clock/real.ts";
import { startBatchServer, type TestBatchServer } from "../support/batch-server.ts";
import { GatewayProcess } from "../support/gateway-process.ts";
import { poll } from "../support/poll.ts";
import { BatchCalls, chatLines } from "./calls.ts";

/** Requests that reach the gateway between two kills, at least and at most. */
const LEAST = 20;
const MOST = 150;
/** Milliseconds after that until the kill, at most: claims, answers and writes are under way all the time. */
const AFTER = 40;

/**
 * Kills the batch server `kills` times while it works on batches of `lines` lines, starting it again at once. One batch is cancelled
 * on the way. Expects one answer for each line, and counts that say so.
 */
export async function survivesKills(kills: number, lines: number): Promise<void> {
  const random = new SeededRandom(kills);
  const folder = mkdtempSync(join(tmpdir(), "sluice-batch-kills-"));
  const gateway = await GatewayProcess.start({ delay: 10, failEvery: 100 });
  const start = (): Promise<TestBatchServer> =>
    startBatchServer(folder, gateway.url, ["--batch-workers", "16", "--batch-window", "200"]);
  let server = await start();
  const calls = new BatchCalls(server.url);
  try {
    const batches = [await calls.submit(chatLines("a", lines))];
    for (let killed = 0; killed < kills; killed++) {
      const from = (await gateway.stats()).requests;
      const wanted = from + LEAST + random.below(MOST - LEAST);
      // There is work for the next process, however far the last one came.
      if ((await calls.get(batches.at(-1)!)).status === "completed")
        batches.push(await calls.submit(chatLines(`${batches.length}-`, lines)));
      await server.process.until(
        "requests at the gateway",
        async () => (await gateway.stats()).requests >= wanted || (await allEnded(calls, batches)),
      );
      await delay(realClock, random.below(AFTER));
      await server.process.stop("SIGKILL");
      server = await start();
      calls.moveTo(server.url);
    }
    // While the gateway answers nothing, the batch cannot end by itself.
    await gateway.manner({ hold: true });
    const cancelled = await calls.submit(chatLines("x", lines));
    await poll("a batch that runs", async () => (await calls.get(cancelled)).status === "in_progress");
    await calls.call("POST", `/batches/${cancelled}/cancel`);
    await server.process.stop("SIGKILL");
    await gateway.manner({ hold: false });
    await gateway.release();
    server = await start();
    calls.moveTo(server.url);
    const refused = await calls.submit("nonsense\n");
    expect((await calls.ended(refused)).status).toBe("failed");
    for (const id of batches) {
      const { status, request_counts } = await calls.ended(id, 120_000);
      expect([status, request_counts]).toEqual(["completed", { total: lines, completed: lines, failed: 0 }]);
      expectOneEach((await calls.answers(id)).all, lines);
    }
    const ended = await calls.ended(cancelled);
    expect(ended.status).toBe("cancelled");
    const { all, good, codes } = await calls.answers(cancelled);
    expectOneEach(all, lines);
    expect(ended.request_counts).toEqual({ total: lines, completed: good.length, failed: lines - good.length });
    expect([...codes]).toEqual(["batch_cancelled"]);
    await server.process.stop("SIGTERM");
    expect(server.process.exit).toEqual({ code: 0, signal: null });
  } finally {
    await server.process.stop("SIGKILL");
    await gateway.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function allEnded(calls: BatchCalls, batches: readonly string[]): Promise<boolean> {
  return (await calls.get(batches.at(-1)!)).status === "completed";
}

function expectOneEach(ids: readonly string[], lines: number): void {
  expect(new Set(ids).size).toBe(lines);
  expect(ids.length).toBe(lines);
}

/** Expects that the deadline ends a batch whose requests get no answer, and that each line has an error that says so. */
export async function endsAtDeadline(lines: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-batch-deadline-"));
  const gateway = await GatewayProcess.start({ hold: true });
  const server = await startBatchServer(folder, gateway.url, ["--batch-workers", "4", "--batch-window", "20"]);
  try {
    const calls = new BatchCalls(server.url);
    const { id, status, request_counts } = await calls.ended(await calls.submit(chatLines("l", lines), "3s"));
    expect([status, request_counts]).toEqual(["expired", { total: lines, completed: 0, failed: lines }]);
    const { all, codes } = await calls.answers(id);
    expectOneEach(all, lines);
    expect([...codes]).toEqual(["batch_expired"]);
  } finally {
    await server.process.stop("SIGKILL");
    await gateway.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

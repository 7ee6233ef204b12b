import { describe, expect, it } from "vitest";
import { answer, Harness, OK } from "../../../test/support/dispatch/harness.cases.ts";
import { type LogFields, type Logger, silentLogger } from "../../base/telemetry/logger.ts";

interface Line {
  readonly level: string;
  readonly fields: LogFields;
  readonly message: string;
}

function keepingLog(): { log: Logger; lines: Line[] } {
  const lines: Line[] = [];
  const write = (level: string) => (fields: LogFields, message: string) => void lines.push({ level, fields, message });
  return { lines, log: { ...silentLogger, warn: write("warn"), error: write("error") } };
}

describe("a store that loses everything under a dispatcher", () => {
  it("loses no answer that is in hand: all are written as recovered, counted, and told in one line", async () => {
    const { log, lines } = keepingLog();
    const harness = new Harness({ workers: 64, log });
    harness.gateway.latency = 30_000;
    await harness.submitMany(100);
    harness.start();
    await harness.run(1000);
    expect(harness.gateway.running).toBe(64);
    harness.store.wipe();
    await harness.run(60_000);
    expect(harness.results()).toHaveLength(64);
    expect(harness.results().every(({ statusCode, recovered }) => statusCode === 200 && recovered === true)).toBe(true);
    // Each request was sent once, and ran to its end.
    expect(harness.gateway.requests).toHaveLength(64);
    expect(harness.metric("results_recovered_total")).toBe(64);
    expect(harness.metric("leases_recovered_total")).toBe(64);
    expect(harness.metric("results_fenced_total")).toBeNaN();
    expect(harness.metric("claims_active")).toBe(0);
    expect(lines).toEqual([
      { level: "error", fields: { count: 64, queues: { q: 64 } }, message: expect.stringContaining("lost data") },
    ]);
  });

  it("sends what it had claimed and not sent yet, and parks what is to be retried", async () => {
    const harness = new Harness({ workers: 2 });
    harness.gateway.latency = 20_000;
    harness.gateway.reply = (_, attempt) => (attempt <= 2 ? answer(503) : OK);
    await harness.submitMany(2);
    harness.start();
    await harness.run(1000);
    harness.store.wipe();
    await harness.run(120_000);
    expect(
      harness
        .results()
        .map(({ id, statusCode }) => [id, statusCode])
        .sort(),
    ).toEqual([
      ["m0", 200],
      ["m1", 200],
    ]);
    expect(harness.gateway.requests).toHaveLength(4);
  });

  it("an answer whose message another process took over is dropped, and told and counted by reason", async () => {
    const { log, lines } = keepingLog();
    const harness = new Harness({ workers: 8, log });
    harness.gateway.latency = 5000;
    await harness.submitMany(8);
    harness.start();
    await harness.run(1000);
    // Somebody else has reclaimed them all.
    for (const id of [...harness.store.leases.keys()]) harness.store.leases.delete(id);
    await harness.run(6000);
    expect(harness.results()).toHaveLength(0);
    expect(harness.metric("results_fenced_total", 'reason="taken"')).toBe(8);
    expect(harness.metric("results_recovered_total")).toBeNaN();
    expect(lines).toEqual([
      {
        level: "warn",
        fields: { count: 8, queues: { q: 8 } },
        message: expect.stringContaining("taken over the messages"),
      },
    ]);
  });

  it("what was dropped last is told before the process ends", async () => {
    const { log, lines } = keepingLog();
    const harness = new Harness({ workers: 1, log });
    harness.gateway.latency = 500;
    await harness.submit("a");
    harness.start();
    await harness.run(100);
    harness.store.leases.clear();
    const stopped = harness.dispatcher.stop(1000);
    await harness.run(600);
    await stopped;
    expect(lines).toHaveLength(1);
  });
});

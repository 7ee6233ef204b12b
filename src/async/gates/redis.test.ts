import { describe, expect, it } from "vitest";
import { Harness } from "../../../test/support/dispatch/harness.cases.ts";
import { message, ScriptedRedis } from "../../../test/support/gates/gate-fakes.cases.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { type CapacityReading, CONTINUE, REFUSE } from "../../base/plugin/gate.ts";
import { RedisBudget } from "./redis.ts";

function budgetOf(reply: ScriptedRedis["reply"], missing?: number) {
  const clock = new VirtualClock(1_700_000_000_000);
  const redis = new ScriptedRedis();
  redis.reply = reply;
  const figures: CapacityReading[] = [];
  const gate = new RedisBudget(redis, { name: "redis localhost:6379/0 share", budgetKey: "share" }, missing, {
    clock,
    figures: { reading: (_, reading) => figures.push(reading) },
  });
  return { gate, redis, clock, figures };
}

describe("redis gate", () => {
  it.each([
    ["0.4", 0.4],
    ["-3", 0],
    ["7", 1],
    ["0", 0],
    ["1e-1", 0.1],
    [".5", 0.5],
    ["0.25\n", 0.25],
  ])("reads %j as %d (A-18)", async (text, budget) => {
    const { gate } = budgetOf(text);
    expect(await gate.budget()).toBe(budget);
    expect(await gate.apply(message())).toBe(budget > 0 ? CONTINUE : REFUSE);
    expect(await gate.read(true)).toMatchObject({
      readable: true,
      problem: "",
      budget,
      value: Number(text),
      threshold: 0,
    });
  });

  it.each(["", "open", "NaN", "inf", "0x1", "1,5", "0.5 0.6"])(
    "is closed by %j, which is no number (A-18, G-7)",
    async (text) => {
      const { gate } = budgetOf(text, 1);
      expect(await gate.budget()).toBe(0);
      const reading = await gate.read(true);
      expect(reading.readable).toBe(false);
      expect(reading.problem).toContain("redis localhost:6379/0 share holds");
    },
  );

  it("is closed while the key is missing, unless missing_budget says otherwise (A-18)", async () => {
    const closed = budgetOf(null);
    expect(await closed.gate.budget()).toBe(0);
    expect(await closed.gate.read(true)).toMatchObject({
      readable: false,
      problem: expect.stringContaining("does not exist"),
    });
    const open = budgetOf(null, 1);
    expect(await open.gate.budget()).toBe(1);
    expect(await open.gate.read(true)).toMatchObject({ readable: true, budget: 1 });
  });

  it("is closed by an error, and says which (A-18)", async () => {
    const { gate, figures } = budgetOf(new Error("connection refused"), 1);
    expect(await gate.budget()).toBe(0);
    expect(await gate.apply(message())).toBe(REFUSE);
    expect(figures[0]).toMatchObject({ readable: false, problem: expect.stringContaining("connection refused") });
  });

  it("waits for the first connection, and is closed when it does not come", async () => {
    const { gate, redis } = budgetOf("1");
    redis.ready = false;
    expect(await gate.read(true)).toMatchObject({ readable: false, problem: expect.stringContaining("not connected") });
    redis.ready = true;
    expect(await gate.read(true)).toMatchObject({ readable: true, budget: 1 });
  });

  it("dates a reading with the moment of the question, and does not know the size of the system", async () => {
    const { gate, clock } = budgetOf("0.5");
    clock.advance(1_234);
    expect(await gate.read(false)).toMatchObject({
      sampleTime: 1_700_000_001_234,
      maxSys: undefined,
      kind: "queue-only",
      baseline: 0,
      unit: "requests",
    });
    expect(gate.capacities).toEqual([gate]);
  });

  it.each([
    ["0.1", 6],
    ["0.5", 32],
    ["1", 64],
  ])(
    "of a constant %s keeps that share of the workers busy, however often it is read (G-2)",
    async (text, inFlight) => {
      const { gate, redis, clock } = budgetOf(text);
      const harness = new Harness({ workers: 64, gates: { q: gate }, clock });
      harness.gateway.latency = 7000;
      await harness.submitMany(2000);
      harness.start();
      for (let i = 0; i < 30; i++) {
        await harness.run(1000);
        expect(harness.gateway.peak).toBeLessThanOrEqual(inFlight);
      }
      expect(harness.gateway.running).toBe(inFlight);
      // Another number holds from then on, also a smaller one.
      redis.reply = "0.25";
      await harness.run(10_000);
      expect(harness.gateway.running).toBe(16);
    },
  );

  it("asks once for all who ask together, and again when the answer is old or a fresh one is wanted", async () => {
    const { gate, redis, clock, figures } = budgetOf("0.5");
    await Promise.all(Array.from({ length: 64 }, () => gate.apply(message())));
    await gate.read(false);
    expect(redis.sent).toEqual([["GET", "share"]]);
    redis.reply = "0";
    expect((await gate.read(true)).budget).toBe(0);
    redis.reply = "1";
    clock.advance(50);
    expect(await gate.budget()).toBe(1);
    expect([redis.sent.length, figures.length]).toEqual([3, 3]);
  });

  it("holds nobody up who does not want the verdict any more", async () => {
    const { gate, redis } = budgetOf("1");
    redis.send = () => new Promise(() => {});
    const shown = message();
    const verdict = gate.apply(shown);
    shown.abort(new Error("shutting down"));
    await expect(verdict).rejects.toThrow("shutting down");
  });

  it("is closed while the server does not answer, after five seconds", async () => {
    const { gate, redis, clock } = budgetOf("1");
    redis.send = () => new Promise(() => {});
    const reading = gate.read(false);
    await clock.advanceAsync(5_000);
    expect(await reading).toMatchObject({ readable: false, budget: 0 });
  });

  it("does not ask for a message that room was found for", () => {
    const { gate, redis } = budgetOf("0");
    expect(gate.apply({ ...message(), admitted: true })).toBe(CONTINUE);
    expect(redis.sent).toEqual([]);
    gate.close();
    expect(redis.closed).toBe(true);
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  Collected,
  LogLines,
  MemoryQuota,
  message,
  ScriptedGate,
} from "../../../test/support/gates/gate-fakes.cases.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { CONTINUE, type GateMessage, WAIT } from "../../base/plugin/gate.ts";
import { CompositeGate } from "./composite.ts";
import { MAX_HELD, QuotaGate } from "./redis-quota.ts";

const MINUTE = 60_000;
const EXHAUSTED = { kind: "refuse", reason: "quota_exhausted" };

function quota(settings: {
  readonly limit: number;
  readonly mode: "concurrency" | "rate-limit";
  readonly classifying?: boolean;
  readonly clock?: VirtualClock;
  readonly store?: MemoryQuota;
}) {
  const clock = settings.clock ?? new VirtualClock();
  const store = settings.store ?? new MemoryQuota(clock, settings.limit, MINUTE);
  const log = new LogLines();
  const options = {
    attribute: "userid",
    prefix: "quota:",
    classifying: settings.classifying ?? false,
    lease: settings.mode === "concurrency" ? MINUTE : undefined,
  };
  return { gate: new QuotaGate(store, options, { clock, log }), clock, store, log };
}

const byAlice = (): GateMessage => message({ userid: "alice" });

describe("redis-quota", () => {
  it.each(["rate-limit", "concurrency"] as const)(
    "%s, blocking: refuses what is over the quota, with its reason, and labels both (A-21)",
    async (mode) => {
      const { gate, store } = quota({ limit: 2, mode });
      const shown = [byAlice(), byAlice(), byAlice()];
      const verdicts = [];
      for (const one of shown) verdicts.push(await gate.apply(one, new Collected()));
      expect(verdicts).toEqual([CONTINUE, CONTINUE, EXHAUSTED]);
      expect(shown.map(({ labels }) => labels["classification"])).toEqual(["reserved", "reserved", "overflow"]);
      expect(store.taken("quota:userid:alice")).toBe(2);
      expect(await gate.apply(message({ userid: "bob" }), new Collected())).toEqual(CONTINUE);
      await gate.close();
    },
  );

  it("classifying: labels, lets everything pass, and reserves nothing over the quota (A-21)", async () => {
    const { gate, store } = quota({ limit: 1, mode: "concurrency", classifying: true });
    const [first, second] = [byAlice(), byAlice()];
    const [kept, none] = [new Collected(), new Collected()];
    expect(await gate.apply(first, kept)).toEqual(CONTINUE);
    expect(await gate.apply(second, none)).toEqual(CONTINUE);
    expect([first.labels["classification"], second.labels["classification"]]).toEqual(["reserved", "overflow"]);
    expect([kept.count, none.count, store.taken("quota:userid:alice")]).toEqual([1, 0, 1]);
    expect(gate.refusalKey(first)).toBeUndefined();
    await gate.close();
  });

  it("has no quota for a message without the attribute, and asks nobody (A-22)", () => {
    const { gate, store } = quota({ limit: 1, mode: "concurrency" });
    for (const metadata of [{}, { toString: "x", team: "a" }]) {
      const shown = message(metadata);
      expect(gate.apply(shown, new Collected())).toEqual(CONTINUE);
      expect(shown.labels).toEqual({});
      expect(gate.refusalKey(shown)).toBeUndefined();
    }
    expect(store.calls).toBe(0);
  });

  it("holds the messages of one tenant for alike, and those of another apart (H-4)", () => {
    const { gate } = quota({ limit: 1, mode: "rate-limit" });
    expect(gate.refusalKey(byAlice())).toBe("quota:userid:alice");
    expect(gate.refusalKey(message({ userid: "bob" }))).toBe("quota:userid:bob");
  });

  it("keeps a token that a message was sent for, and gives back that of one that was not (G-18)", async () => {
    const { gate, store } = quota({ limit: 5, mode: "rate-limit" });
    const [sent, unsent] = [new Collected(), new Collected()];
    await gate.apply(byAlice(), sent);
    await gate.apply(byAlice(), unsent);
    sent.release();
    unsent.release(true);
    expect(store.taken("quota:userid:alice")).toBe(1);
  });

  it("inside a composite burns no token when a later gate refuses (A-23, G-18)", async () => {
    const { gate, store } = quota({ limit: 5, mode: "rate-limit" });
    const closed = new ScriptedGate({ kind: "refuse" });
    const chain = new CompositeGate([gate, closed]);
    for (let i = 0; i < 20; i++) await chain.apply(byAlice(), new Collected());
    expect(store.taken("quota:userid:alice")).toBe(0);
    expect(closed.asked).toBe(20);
  });

  it("keeps the place of a message that runs for longer than the window (A-20, H-35)", async () => {
    const { gate, store, clock } = quota({ limit: 1, mode: "concurrency" });
    const collected = new Collected();
    await gate.apply(byAlice(), collected);
    for (let minute = 0; minute < 10; minute++) {
      await clock.advanceAsync(MINUTE);
      expect(await gate.apply(byAlice(), new Collected())).toEqual(EXHAUSTED);
    }
    collected.release();
    expect(store.taken("quota:userid:alice")).toBe(0);
    await clock.advanceAsync(MINUTE);
    expect(clock.pending).toBe(0);
  });

  it("frees the places of a process that died within one window, not those of one that lives (A-20)", async () => {
    const { gate, store, clock, log } = quota({ limit: 2, mode: "concurrency" });
    const dead = quota({ limit: 2, mode: "concurrency", clock: new VirtualClock(), store });
    await gate.apply(byAlice(), new Collected());
    await dead.gate.apply(byAlice(), new Collected());
    expect(await gate.apply(byAlice(), new Collected())).toEqual(EXHAUSTED);
    await clock.advanceAsync(MINUTE);
    expect(store.taken("quota:userid:alice")).toBe(1);
    expect(await gate.apply(byAlice(), new Collected())).toEqual(CONTINUE);
    expect(log.lines).toEqual([]);
    await gate.close();
  });

  it("takes a place again whose lease ran out while the store was away: its message still runs", async () => {
    const { gate, store, clock, log } = quota({ limit: 1, mode: "concurrency" });
    await gate.apply(byAlice(), new Collected());
    store.failure = { error: new Error("Redis is away"), done: false };
    await clock.advanceAsync(2 * MINUTE);
    expect(store.taken("quota:userid:alice")).toBe(0);
    expect(log.lines[0]).toMatchObject({ level: "warn", fields: { error: "Redis is away", quotas: 1 } });
    store.failure = undefined;
    await clock.advanceAsync(MINUTE / 3);
    expect(await gate.apply(byAlice(), new Collected())).toEqual(EXHAUSTED);
    await gate.close();
  });

  it.each([false, true])(
    "fails when the store fails, and leaves no place taken behind (reservation made: %s)",
    async (done) => {
      const { gate, store, clock } = quota({ limit: 1, mode: "rate-limit" });
      store.failure = { error: new Error("connection lost"), done };
      const shown = byAlice();
      await expect((async () => gate.apply(shown, new Collected()))()).rejects.toThrow("connection lost");
      expect(shown.labels).toEqual({});
      store.failure = undefined;
      await clock.advanceAsync(10_000);
      expect(store.taken("quota:userid:alice")).toBe(0);
    },
  );

  it("takes no place for a verdict that nobody waits for any more", async () => {
    const { gate, store } = quota({ limit: 1, mode: "concurrency" });
    const collected = new Collected();
    const shown = message({ userid: "alice" });
    const verdict = gate.apply(shown, collected);
    shown.abort(new Error("shutting down"));
    await expect(verdict).rejects.toThrow("shutting down");
    expect([store.taken("quota:userid:alice"), collected.count]).toEqual([0, 0]);
  });

  it("holds a bounded number of places and tells the rest to ask again", async () => {
    const clock = new VirtualClock();
    const { gate } = quota({
      limit: 1,
      mode: "concurrency",
      clock,
      store: new MemoryQuota(clock, MAX_HELD + 1, MINUTE),
    });
    const collected = new Collected();
    // Counting those taken is the fake's slow part: many tenants, few places each.
    for (let i = 0; i < MAX_HELD; i++) await gate.apply(message({ userid: `tenant-${i >> 4}` }), collected);
    expect(await gate.apply(message({ userid: "another" }), new Collected())).toEqual(WAIT);
    collected.release();
    expect(await gate.apply(message({ userid: "another" }), new Collected())).toEqual(CONTINUE);
    await gate.close();
  });

  it("closes the store, after what is to be given back", async () => {
    const { gate, store, clock } = quota({ limit: 1, mode: "concurrency" });
    const collected = new Collected();
    await gate.apply(byAlice(), collected);
    store.failure = { error: new Error("away"), done: false };
    collected.release();
    await clock.advanceAsync(0);
    store.failure = undefined;
    await gate.close();
    expect([store.taken("quota:userid:alice"), store.closed, clock.pending]).toEqual([0, true, 0]);
  });

  it("never lets more than the limit run, whoever dies, for however long messages run (A-20)", async () => {
    const step = fc.oneof(
      { weight: 5, arbitrary: fc.constant("come" as const) },
      { weight: 3, arbitrary: fc.constant("leave" as const) },
      { weight: 3, arbitrary: fc.constant("time" as const) },
      { weight: 1, arbitrary: fc.constant("crash" as const) },
    );
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 4 }),
        fc.array(fc.tuple(step, fc.nat({ max: 2 }), fc.nat({ max: 90_000 })), { maxLength: 60 }),
        async (limit, steps) => {
          const clock = new VirtualClock();
          const store = new MemoryQuota(clock, limit, MINUTE);
          // A process that crashed is one whose clock stands still.
          const start = () => {
            const own = new VirtualClock();
            return { own, ...quota({ limit, mode: "concurrency", clock: own, store }), running: [] as Collected[] };
          };
          const processes = [start(), start(), start()];
          for (const [what, which, much] of steps) {
            const process = processes[which]!;
            if (what === "come") {
              const collected = new Collected();
              if ((await process.gate.apply(byAlice(), collected)).kind === "continue") process.running.push(collected);
            } else if (what === "leave") {
              process.running.splice(much % Math.max(1, process.running.length), 1)[0]?.release();
            } else if (what === "crash") processes[which] = start();
            else
              for (let ms = 0; ms < much; ms += 1_000) {
                clock.advance(1_000);
                for (const { own } of processes) await own.advanceAsync(1_000);
              }
            const running = processes.reduce((sum, each) => sum + each.running.length, 0);
            expect(running).toBeLessThanOrEqual(limit);
            expect(store.taken("quota:userid:alice")).toBeGreaterThanOrEqual(running);
          }
          clock.advance(MINUTE);
          for (const { own } of processes) await own.advanceAsync(MINUTE);
        },
      ),
      { numRuns: 50 },
    );
  });
});

import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { Claim, Settlement, SettleOutcome } from "../brokers/broker.ts";
import { SettlementWriter } from "./settlement-writer.ts";

function made() {
  const clock = new VirtualClock();
  const calls: { readonly at: number; readonly ids: readonly string[] }[] = [];
  const settled: string[] = [];
  let outcome: (id: string) => SettleOutcome | Error = () => "settled";
  let latency = 0;
  let retries = 0;
  const whole: boolean[] = [];
  const writer = new SettlementWriter({
    clock,
    broker: {
      settle: async (settlements) => {
        const ids = settlements.map(({ claim }) => claim.id);
        calls.push({ at: clock.now(), ids });
        if (latency > 0) await new Promise<void>((resolve) => clock.after(latency, resolve));
        return ids.map((id) => {
          const found = outcome(id);
          if (found instanceof Error) throw found;
          return found;
        });
      },
    },
    onSettled: ({ claim }, what) => settled.push(`${claim.id} ${what}`),
    onRetry: (_, all) => {
      retries++;
      whole.push(all);
    },
  });
  return {
    ...{ clock, calls, settled, writer, whole },
    retries: () => retries,
    outcomes: (next: typeof outcome) => {
      outcome = next;
    },
    slow: (ms: number) => {
      latency = ms;
    },
    add: (...ids: string[]) => {
      for (const id of ids) writer.add({ kind: "refuse", claim: { id } as Claim, labels: {} } satisfies Settlement);
    },
  };
}

describe("SettlementWriter", () => {
  it("writes what ends together in one call, and what gathers meanwhile in the next", async () => {
    const { clock, calls, add, slow, writer } = made();
    slow(10);
    add("a", "b");
    await clock.advanceAsync(1);
    add("c");
    add("d");
    await clock.advanceAsync(30);
    expect(calls.map(({ ids }) => ids)).toEqual([
      ["a", "b"],
      ["c", "d"],
    ]);
    expect(writer.pending).toBe(0);
  });

  it("takes at most 256 per call, in the order they came", async () => {
    const { clock, calls, add } = made();
    add(...Array.from({ length: 1000 }, (_, i) => String(i)));
    await clock.advanceAsync(1);
    expect(calls.map(({ ids }) => ids.length)).toEqual([256, 256, 256, 232]);
    expect(calls.flatMap(({ ids }) => ids)).toEqual(Array.from({ length: 1000 }, (_, i) => String(i)));
  });

  it("repeats while the broker is away, at growing pauses, until it has everything", async () => {
    const { clock, calls, settled, add, outcomes, writer, retries } = made();
    outcomes(() => new Error("away"));
    add("a", "b");
    await clock.advanceAsync(20_000);
    expect(settled).toEqual([]);
    expect(writer.pending).toBe(2);
    const pauses = calls.slice(1).map(({ at }, i) => at - calls[i]!.at);
    expect(pauses.slice(0, 5)).toEqual([100, 200, 400, 800, 1600]);
    expect(Math.max(...pauses)).toBe(2000);
    expect(retries()).toBe(calls.length);
    outcomes(() => "settled");
    let idle = false;
    void writer.idle().then(() => {
      idle = true;
    });
    await clock.advanceAsync(2000);
    expect(settled).toEqual(["a settled", "b settled"]);
    expect(idle).toBe(true);
  });

  it("what the broker does not take holds up nobody else, and is tried until it does (async-processor 5.2.8, H-24)", async () => {
    const { clock, calls, settled, add, outcomes, writer } = made();
    outcomes((id) => (id === "bad" ? { failed: "NOPERM" } : "settled"));
    add("bad");
    for (let i = 0; i < 1000; i++) {
      add(`m${i}`);
      await clock.advanceAsync(10);
    }
    // Each was written in the turn in which it came.
    expect(settled).toHaveLength(1000);
    expect(writer.pending).toBe(1);
    // And the bad one was no busy loop.
    expect(calls.filter(({ ids }) => ids.includes("bad")).length).toBeLessThan(20);
    let idle = false;
    void writer.idle().then(() => {
      idle = true;
    });
    await clock.advanceAsync(5000);
    expect(idle).toBe(false);
    outcomes(() => "settled");
    await clock.advanceAsync(2000);
    expect(idle).toBe(true);
    expect(settled.at(-1)).toBe("bad settled");
  });

  it("tells a broker that takes nothing from one that takes some", async () => {
    const { clock, add, outcomes, whole } = made();
    outcomes((id) => (id === "bad" ? { failed: "no" } : "settled"));
    add("good", "bad");
    await clock.advanceAsync(1);
    expect(whole).toEqual([false]);
    await clock.advanceAsync(100);
    expect(whole).toEqual([false, true]);
    outcomes(() => new Error("away"));
    await clock.advanceAsync(200);
    expect(whole).toEqual([false, true, true]);
  });

  it("tells each outcome once, also when a broker gives too few", async () => {
    const { clock, settled, add, outcomes, writer } = made();
    let first = true;
    outcomes((id) => {
      if (id !== "b") return id === "c" ? "fenced" : "dead-lettered";
      if (!first) return "settled";
      first = false;
      return undefined as unknown as SettleOutcome;
    });
    add("a", "b", "c");
    await clock.advanceAsync(1000);
    expect(settled).toEqual(["a dead-lettered", "c fenced", "b settled"]);
    expect(writer.pending).toBe(0);
  });
});

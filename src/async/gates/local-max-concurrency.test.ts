import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Collected, message, type TestMessage } from "../../../test/support/gates/gate-fakes.cases.ts";
import { CONTINUE, REFUSE, WAIT } from "../../base/plugin/gate.ts";
import { LocalMaxConcurrency, MAX_WAITERS } from "./local-max-concurrency.ts";

describe("local-max-concurrency", () => {
  it("fills to the last slot when messages come in batches of ten, and refuses the next (A-26, H-34)", () => {
    const gate = new LocalMaxConcurrency(100, false);
    const collected = new Collected();
    for (let batch = 0; batch < 10; batch++)
      for (let i = 0; i < 10; i++) expect(gate.apply(message(), collected)).toBe(CONTINUE);
    expect(collected.count).toBe(100);
    expect(gate.apply(message(), collected)).toBe(REFUSE);
    expect(collected.count).toBe(100);
  });

  it("has the free share of its slots as budget", async () => {
    const gate = new LocalMaxConcurrency(4, false);
    const collected = new Collected();
    const shares = [];
    for (let i = 0; i < 4; i++) {
      shares.push(await gate.budget());
      gate.apply(message(), collected);
    }
    expect(shares).toEqual([1, 0.75, 0.5, 0.25]);
    expect(await gate.budget()).toBe(0);
    collected.release();
    expect(await gate.budget()).toBe(1);
  });

  it("judges messages, spends no capacity, sets no label, and holds all messages for alike", () => {
    const gate = new LocalMaxConcurrency(1, false);
    const shown = message();
    gate.apply(shown, new Collected());
    expect(shown.labels).toEqual({});
    expect(gate.capacities).toEqual([]);
    expect(gate.refusalKey()).toBe("");
  });

  it("blocking: lets messages wait in place and admits them in the order of their coming", async () => {
    const gate = new LocalMaxConcurrency(1, true);
    const [first, second, third] = [new Collected(), new Collected(), new Collected()];
    const order: string[] = [];
    expect(gate.apply(message(), first)).toBe(CONTINUE);
    const waiting = [
      Promise.resolve(gate.apply(message(), second)).then(() => order.push("second")),
      Promise.resolve(gate.apply(message(), third)).then(() => order.push("third")),
    ];
    await Promise.resolve();
    expect(order).toEqual([]);
    first.release();
    await waiting[0];
    expect(order).toEqual(["second"]);
    second.release();
    await waiting[1];
    expect([order, await gate.budget()]).toEqual([["second", "third"], 0]);
    third.release();
    expect(await gate.budget()).toBe(1);
  });

  it("blocking: fails when nobody wants the verdict any more, and passes the slot to the next in line", async () => {
    const gate = new LocalMaxConcurrency(1, true);
    const holder = new Collected();
    const [gone, next] = [message(), message()];
    gate.apply(message(), holder);
    const lost = gate.apply(gone, new Collected());
    const collected = new Collected();
    const admitted = gate.apply(next, collected);
    gone.abort(new Error("shutting down"));
    await expect(lost).rejects.toThrow("shutting down");
    holder.release();
    expect(await admitted).toBe(CONTINUE);
    next.abort();
    collected.release();
    expect(await gate.budget()).toBe(1);
    gate.apply(message(), holder);
    await expect(gate.apply(gone, new Collected())).rejects.toThrow("shutting down");
  });

  it("blocking: keeps a bounded number waiting and tells the rest to ask again", async () => {
    const gate = new LocalMaxConcurrency(1, true);
    gate.apply(message(), new Collected());
    const waiting = Array.from({ length: MAX_WAITERS }, () =>
      Promise.resolve(gate.apply(message(), new Collected())).catch((error: Error) => error),
    );
    expect(gate.apply(message(), new Collected())).toBe(WAIT);
    gate.close();
    expect(((await waiting[0]) as Error).message).toContain("closed");
    await expect(gate.apply(message(), new Collected())).rejects.toThrow("closed");
  });

  it("never has more than its limit in flight, and leaves no slot unused while somebody waits", async () => {
    const step = fc.oneof(
      { weight: 3, arbitrary: fc.constant("come" as const) },
      { weight: 2, arbitrary: fc.constant("leave" as const) },
      { weight: 1, arbitrary: fc.constant("abort" as const) },
    );
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 5 }),
        fc.boolean(),
        fc.array(fc.tuple(step, fc.nat()), { maxLength: 60 }),
        async (limit, blocking, steps) => {
          const gate = new LocalMaxConcurrency(limit, blocking);
          const inFlight: Collected[] = [];
          const waiting = new Set<TestMessage>();
          for (const [what, pick] of steps) {
            if (what === "come") {
              const shown = message();
              const collected = new Collected();
              waiting.add(shown);
              Promise.resolve(gate.apply(shown, collected)).then(
                (verdict) => {
                  waiting.delete(shown);
                  if (verdict.kind === "continue") inFlight.push(collected);
                },
                () => waiting.delete(shown),
              );
            } else if (what === "leave") inFlight.splice(pick % Math.max(1, inFlight.length), 1)[0]?.release();
            else [...waiting][pick % Math.max(1, waiting.size)]?.abort();
            for (let turn = 0; turn < 4; turn++) await Promise.resolve();
            expect(inFlight.length).toBeLessThanOrEqual(limit);
            expect(await gate.budget()).toBe((limit - inFlight.length) / limit);
            if (waiting.size > 0) expect(inFlight.length).toBe(limit);
          }
        },
      ),
    );
  });
});

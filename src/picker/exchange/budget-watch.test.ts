import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { type BudgetReport, BudgetWatch } from "./budget-watch.ts";
import { BodyAccount, ByteBudget, type HolderReport } from "./byte-budget.ts";

function made() {
  const clock = new VirtualClock();
  const budget = new ByteBudget({ limit: 6400, small: 0, reserve: 0, minRate: 10, window: 10_000 });
  const gone: HolderReport[] = [];
  const stuck: BudgetReport[] = [];
  const moved: number[] = [];
  new BudgetWatch(budget, clock, {
    letGo: (holder) => gone.push(holder),
    stuck: (report) => stuck.push(report),
    moving: (milliseconds) => moved.push(milliseconds),
  });
  const body = (requestId: string, bytes: number) => {
    const account = new BodyAccount({ requestId, pause() {}, resume() {}, letGo() {} });
    budget.add(account, bytes, false);
    return account;
  };
  return { clock, budget, gone, stuck, moved, body };
}

describe("the watch over the byte budget", () => {
  it("sleeps while no more than half is in use", () => {
    const { clock, body, budget } = made();
    const first = body("first", 3200);
    expect(clock.pending).toBe(0);
    body("second", 1);
    expect(clock.pending).toBe(1);
    budget.release(first);
    clock.advance(2000);
    expect(clock.pending).toBe(0);
  });

  it("lets bodies go that stall, and says so", () => {
    const { clock, budget, body, gone } = made();
    body("large", 6000);
    body("small", 500);
    // The window begins at the first look behind the last bytes.
    clock.advance(10_999);
    expect(gone).toEqual([]);
    clock.advance(2);
    expect(gone.map(({ requestId, slowFor }) => [requestId, slowFor])).toEqual([["large", 10_000]]);
    expect(budget.used).toBe(500);
  });

  it("reports once that bodies wait and nothing moves, with who holds the budget, and once that it is over", () => {
    const { clock, budget, body, stuck, moved } = made();
    const whole = new BodyAccount({ requestId: "whole", pause() {}, resume() {}, letGo() {} });
    budget.add(whole, 1000, true);
    const first = body("first", 5300);
    const second = body("second", 200);
    clock.advance(2500);
    expect(stuck).toEqual([]);
    clock.advance(5000);
    expect(stuck).toEqual([
      {
        ...{ waiting: 1, used: 6500, limit: 6400, complete: 1000 },
        holders: [
          { address: "", requestId: "first", bytes: 5300, state: "reading", slowFor: 2000 },
          { address: "", requestId: "second", bytes: 200, state: "paused", slowFor: 0 },
        ],
      },
    ]);
    expect(moved).toEqual([]);
    budget.release(first);
    budget.release(second);
    clock.advance(1001);
    expect(moved).toEqual([5000]);
    expect([stuck.length, clock.pending]).toEqual([1, 0]);
  });

  it("does not report a budget that moves", () => {
    const { clock, budget, body, stuck } = made();
    body("first", 6400);
    body("second", 100);
    for (let i = 0; i < 8; i++) {
      const other = body("other", 1);
      clock.advance(1000);
      budget.release(other);
    }
    expect(stuck).toEqual([]);
  });
});

import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { BodyAccount, type HolderReport } from "./body-account.ts";
import { type BudgetReport, BudgetWatch } from "./budget-watch.ts";
import { ByteBudget } from "./byte-budget.ts";

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
  const body = (requestId: string, bytes: number, expected = 0) => {
    const account = new BodyAccount({ requestId, pause() {}, resume() {}, letGo() {} });
    account.expected = expected;
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

  it("lets bodies go that stall while others wait, however little is in use", () => {
    const { clock, budget, body, gone } = made();
    const first = body("first", 6400);
    for (const name of ["a", "b", "c"]) body(name, 50, 3000);
    budget.release(first);
    expect([budget.used, budget.paused]).toEqual([150, 1]);
    clock.advance(11_001);
    expect(gone.map(({ requestId }) => requestId)).toEqual(["a", "b"]);
    expect(budget.paused).toBe(0);
  });

  it("counts the bytes that came during a turn that took long, though its own timer is due before they are read", () => {
    const { clock, budget, body, gone } = made();
    const steady = body("steady", 4000);
    // The look at 11 s ends the window: what is needed for it is read in the same turn, behind the timer.
    clock.advance(10_500);
    clock.after(500, () => budget.add(steady, 100, false));
    clock.advance(501);
    expect(gone).toEqual([]);
  });

  it("does not report a budget that is more than half in use while nobody waits", () => {
    const { clock, budget, stuck } = made();
    budget.add(new BodyAccount({ requestId: "whole", pause() {}, resume() {}, letGo() {} }), 4000, true);
    clock.advance(20_000);
    expect(stuck).toEqual([]);
  });

  it("reports the end only when nobody waits any more", () => {
    const { clock, budget, body, stuck, moved } = made();
    const first = body("first", 6400);
    const [second, third] = [body("second", 6400), body("third", 100)];
    clock.advance(5000);
    expect([stuck.length, budget.paused]).toEqual([1, 2]);
    budget.release(first);
    clock.advance(1001);
    expect([moved, budget.paused > 0]).toEqual([[], true]);
    budget.release(second);
    budget.release(third);
    clock.advance(1001);
    expect([stuck.length, moved.length]).toEqual([1, 1]);
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

import { describe, expect, it } from "vitest";
import { type BudgetHolder, ByteBudget } from "./byte-budget.ts";

class Holder implements BudgetHolder {
  paused = false;
  pause(): void {
    this.paused = true;
  }
  resume(): void {
    this.paused = false;
  }
}

describe("ByteBudget", () => {
  it("pauses readers once it is spent and resumes them when bytes come back", () => {
    const budget = new ByteBudget(100);
    const [a, b, c] = [new Holder(), new Holder(), new Holder()];
    budget.add(a, 60);
    budget.add(b, 30);
    expect([a.paused, b.paused]).toEqual([false, false]);
    budget.add(b, 30);
    budget.add(c, 1);
    expect([a.paused, b.paused, c.paused]).toEqual([false, true, true]);
    budget.release(a);
    expect([b.paused, c.paused]).toEqual([false, false]);
    expect(budget.used).toBe(61);
  });

  it("lets the oldest holder read on, so that half-read bodies never block each other", () => {
    const budget = new ByteBudget(100);
    const holders = Array.from({ length: 10 }, () => new Holder());
    for (const holder of holders) budget.add(holder, 20);
    expect(holders[0]!.paused).toBe(false);
    let finished = 0;
    // Each body needs 20 bytes more; whoever may read does, and finishes.
    const waiting = new Set(holders);
    while (waiting.size > 0) {
      const free = [...waiting].find((holder) => !holder.paused);
      expect(free).toBeDefined();
      budget.add(free!, 20);
      budget.release(free!);
      waiting.delete(free!);
      finished++;
    }
    expect(finished).toBe(10);
    expect(budget.used).toBe(0);
    expect(budget.paused).toBe(0);
  });

  it("resumes a paused holder that gives back its bytes", () => {
    const budget = new ByteBudget(1);
    const [a, b] = [new Holder(), new Holder()];
    budget.add(a, 1);
    budget.add(b, 1);
    expect(b.paused).toBe(true);
    budget.release(b);
    expect(b.paused).toBe(false);
  });

  it("refuses what can be given up, and forgets a holder once", () => {
    const budget = new ByteBudget(10);
    const holder = new Holder();
    expect(budget.tryAdd(holder, 8)).toBe(true);
    expect(budget.tryAdd(holder, 8)).toBe(false);
    budget.release(holder);
    budget.release(holder);
    expect(budget.used).toBe(0);
  });
});

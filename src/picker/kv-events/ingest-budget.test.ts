import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { IngestBudget } from "./ingest-budget.ts";

/** Milliseconds until a promise of the budget resolves. */
async function pauseOf(clock: VirtualClock, pause: Promise<void> | undefined): Promise<number> {
  if (pause === undefined) return 0;
  const begin = clock.now();
  let isOver = false;
  void pause.then(() => {
    isOver = true;
  });
  while (!isOver) await clock.advanceAsync(0.25);
  return clock.now() - begin;
}

describe("IngestBudget", () => {
  it("leaves decisions as much time as a flood of events took, and the shortest pause is a millisecond", async () => {
    const clock = new VirtualClock();
    const budget = new IngestBudget(clock);
    for (const workMs of [1, 3, 20]) {
      const started = clock.now();
      clock.advance(workMs);
      expect(await pauseOf(clock, budget.spent(started))).toBeGreaterThanOrEqual(workMs);
    }
  });

  it("adds up small messages of one slice, and not those with other work in between", async () => {
    const clock = new VirtualClock();
    const budget = new IngestBudget(clock);
    const message = (): Promise<void> | undefined => {
      const started = clock.now();
      clock.advance(0.4);
      return budget.spent(started);
    };
    expect([message(), message()]).toEqual([undefined, undefined]);
    expect(await pauseOf(clock, message())).toBeGreaterThanOrEqual(1);
    expect(message()).toBeUndefined();
    clock.advance(2);
    expect([message(), message()]).toEqual([undefined, undefined]);
  });
});

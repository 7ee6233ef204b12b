import { describe, expect, it } from "vitest";
import { expireAfter } from "./clock.ts";
import { VirtualClock } from "./virtual.ts";

/** Keeps what is to run after the waiting I/O events until the test lets it. */
class StandingClock extends VirtualClock {
  readonly waiting: (() => void)[] = [];

  override soon(callback: () => void): void {
    this.waiting.push(callback);
  }

  readInput(): void {
    for (const callback of this.waiting.splice(0)) callback();
  }
}

describe("expireAfter", () => {
  it("runs once, after the input that was there when the time was over", () => {
    const clock = new StandingClock();
    let expired = 0;
    expireAfter(clock, 100, () => expired++);
    clock.advance(99);
    expect([clock.waiting.length, expired]).toEqual([0, 0]);
    clock.advance(1);
    expect([clock.waiting.length, expired]).toEqual([1, 0]);
    clock.readInput();
    clock.advance(1000);
    expect([clock.waiting.length, expired]).toEqual([0, 1]);
  });

  it("does not run when that input has cancelled it, nor when it was cancelled before", () => {
    const clock = new StandingClock();
    let expired = 0;
    const early = expireAfter(clock, 100, () => expired++);
    const late = expireAfter(clock, 100, () => expired++);
    early.cancel();
    clock.advance(100);
    expect(clock.waiting).toHaveLength(1);
    late.cancel();
    clock.readInput();
    expect(expired).toBe(0);
  });
});

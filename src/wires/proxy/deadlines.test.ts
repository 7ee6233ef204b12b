import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { Deadlines, sweepInterval, type Timed } from "./deadlines.ts";

class Member implements Timed {
  deadline: number;
  calls = 0;
  readonly #leave: ((self: Member) => void) | undefined;
  constructor(deadline: number, leave?: (self: Member) => void) {
    this.deadline = deadline;
    this.#leave = leave;
  }
  expired(): void {
    this.calls++;
    this.#leave?.(this);
  }
}

describe("Deadlines", () => {
  it("tells a member within one interval after its deadline, and not before", () => {
    const clock = new VirtualClock();
    const deadlines = new Deadlines(clock, 100);
    const member = new Member(1_000, (self) => deadlines.delete(self));
    deadlines.add(member);
    clock.advance(999);
    expect(member.calls).toBe(0);
    clock.advance(101);
    expect(member.calls).toBe(1);
    expect(deadlines.size).toBe(0);
  });

  it("a moved deadline counts from where it was moved to; none is never told", () => {
    const clock = new VirtualClock();
    const deadlines = new Deadlines(clock, 100);
    const [moved, never] = [new Member(500), new Member(Number.POSITIVE_INFINITY)];
    deadlines.add(moved);
    deadlines.add(never);
    clock.advance(450);
    moved.deadline = 2_000;
    clock.advance(1_500);
    expect(moved.calls).toBe(0);
    clock.advance(200);
    expect(moved.calls).toBeGreaterThan(0);
    expect(never.calls).toBe(0);
  });

  it("has a timer only while it has members", () => {
    const clock = new VirtualClock();
    const deadlines = new Deadlines(clock, 100);
    expect(clock.pending).toBe(0);
    const member = new Member(Number.POSITIVE_INFINITY);
    deadlines.add(member);
    deadlines.add(new Member(50, (self) => deadlines.delete(self)));
    expect(clock.pending).toBe(1);
    deadlines.delete(member);
    clock.advance(200);
    expect(clock.pending).toBe(0);
  });

  it("sweeps at a quarter of the shortest duration, within bounds", () => {
    expect(sweepInterval([60_000, 0, 2_000])).toBe(500);
    expect(sweepInterval([60_000])).toBe(1_000);
    expect(sweepInterval([4])).toBe(5);
  });
});

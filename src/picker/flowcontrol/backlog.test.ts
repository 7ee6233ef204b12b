import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { Backlog } from "./backlog.ts";
import { DispatchRate } from "./dispatch-rate.ts";

const counted = (priority = 0, bytes = 100, tokens = 25) => ({ priority, bytes, tokens });

describe("the backlog", () => {
  it("counts the requests of a priority and above", () => {
    const backlog = new Backlog(new VirtualClock());
    backlog.entered(counted(100, 10, 1));
    backlog.entered(counted(0, 200, 20));
    backlog.entered(counted(-10, 3000, 300));
    expect(backlog.figures()).toMatchObject({ requests: 3, bytes: 3210, tokens: 321 });
    expect(backlog.figures(0)).toMatchObject({ requests: 2, bytes: 210, tokens: 21 });
    expect(backlog.figures(101)).toEqual({ requests: 0, bytes: 0, tokens: 0, waitSeconds: 0 });
  });

  it("has the figures of those that wait, in any order of arrivals and ends", () => {
    const arrival = fc.record({ priority: fc.integer({ min: -2, max: 2 }), bytes: fc.nat(1e6), tokens: fc.nat(1e5) });
    fc.assert(
      fc.property(fc.array(fc.tuple(arrival, fc.boolean())), fc.integer({ min: -3, max: 3 }), (arrivals, from) => {
        const backlog = new Backlog(new VirtualClock());
        for (const [one] of arrivals) backlog.entered(one);
        for (const [one, leaves] of arrivals.toReversed()) if (leaves) backlog.left(one);
        const rest = arrivals.flatMap(([one, leaves]) => (leaves || one.priority < from ? [] : [one]));
        const sum = (key: "bytes" | "tokens") => rest.reduce((total, one) => total + one[key], 0);
        expect(backlog.figures(from)).toEqual({
          ...{ requests: rest.length, bytes: sum("bytes"), tokens: sum("tokens"), waitSeconds: 0 },
        });
      }),
    );
  });

  it("predicts the wait by the rate of the last dispatches", () => {
    const clock = new VirtualClock();
    const rate = new DispatchRate();
    const backlog = new Backlog(clock, rate);
    // Two a second, for long enough that the smoothed rate has reached it.
    for (let i = 0; i < 200; i++) {
      backlog.entered(counted());
      backlog.left(counted());
      rate.count(clock.now());
      clock.advance(500);
    }
    for (let i = 0; i < 30; i++) backlog.entered(counted());
    for (let i = 0; i < 10; i++) backlog.entered(counted(10));
    expect(Math.abs(backlog.figures().waitSeconds - 20)).toBeLessThan(1);
    expect(Math.abs(backlog.figures(10).waitSeconds - 5)).toBeLessThan(0.3);
    // A refused request says nothing about the rate.
    for (let i = 0; i < 30; i++) backlog.left(counted());
    expect(Math.abs(backlog.figures().waitSeconds - 5)).toBeLessThan(0.3);
  });

  it("has for how long requests have waited while none leaves", () => {
    const clock = new VirtualClock();
    const rate = new DispatchRate();
    const backlog = new Backlog(clock, rate);
    clock.advance(1000);
    expect(backlog.figures().waitSeconds).toBe(0);
    backlog.entered(counted());
    clock.advance(3000);
    backlog.entered(counted(10));
    clock.advance(4000);
    expect([backlog.figures().waitSeconds, backlog.figures(10).waitSeconds]).toEqual([7, 4]);
    backlog.left(counted());
    expect(backlog.figures().waitSeconds).toBe(4);
    // The rate of a single dispatch says nothing after some 18 s.
    backlog.entered(counted());
    backlog.left(counted());
    rate.count(clock.now());
    clock.advance(17_000);
    expect(backlog.figures().waitSeconds).toBeGreaterThan(50);
    clock.advance(1000);
    expect(backlog.figures().waitSeconds).toBe(22);
  });

  it("calls its listeners for every request that comes, until they leave", () => {
    const backlog = new Backlog(new VirtualClock());
    let calls = 0;
    const leave = backlog.onEntered(() => calls++);
    backlog.entered(counted());
    backlog.entered(counted());
    backlog.left(counted());
    expect(calls).toBe(2);
    backlog.passed(counted());
    expect(calls).toBe(3);
    expect(backlog.figures().requests).toBe(1);
    leave();
    backlog.entered(counted());
    backlog.passed(counted());
    expect(calls).toBe(3);
    expect(backlog.figures().requests).toBe(2);
  });
});

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { realClock } from "./real.ts";

const DAY = 24 * 3600 * 1000;

describe("the machine's clock", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each([1, 20, 25, 41, 365])("a timer of %d days fires after as many, once, and not at once", (days) => {
    let fired = 0;
    realClock.after(days * DAY, () => fired++, true);
    vi.advanceTimersByTime(days * DAY - 1);
    expect(fired).toBe(0);
    vi.advanceTimersByTime(1);
    expect(fired).toBe(1);
    vi.advanceTimersByTime(100 * DAY);
    expect(fired).toBe(1);
  });

  it("one that was cancelled does not fire, in whatever part of it", () => {
    let fired = 0;
    for (const at of [0, 10, 30, 60]) {
      const timer = realClock.after(70 * DAY, () => fired++);
      vi.advanceTimersByTime(at * DAY);
      timer.cancel();
    }
    vi.advanceTimersByTime(200 * DAY);
    expect(fired).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("a negative time is none", () => {
    let fired = 0;
    realClock.after(-5, () => fired++);
    vi.advanceTimersByTime(0);
    expect(fired).toBe(1);
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RunningHistory } from "./arithmetic.ts";

/** All that was ever recorded. */
class Ledger {
  readonly #entries: { readonly at: number; readonly running: number }[] = [];

  record(at: number, running: number): void {
    this.#entries.push({ at, running });
  }

  /** The smaller of what ran when the step of `time` began and when it ended. */
  at(time: number): number {
    const step = Math.floor(time / 10);
    // By steps, as the history has them: a moment just below a multiple of ten may be divided up to the next step.
    const endOf = (last: number): number =>
      this.#entries.findLast(({ at }) => Math.floor(at / 10) <= last)?.running ?? 0;
    return Math.min(endOf(step - 1), endOf(step));
  }
}

describe("RunningHistory", () => {
  it("says what ran at any time of the last two minutes, and never more than that of what it forgot", () => {
    const event = fc.record({
      pause: fc.oneof(
        fc.integer({ min: 0, max: 25 }),
        fc.double({ min: 0, max: 400, noNaN: true }),
        fc.constant(119_990),
      ),
      running: fc.nat(100),
      back: fc.double({ min: -50, max: 130_000, noNaN: true }),
    });
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1e6, noNaN: true }), fc.array(event, { maxLength: 60 }), (start, events) => {
        const history = new RunningHistory();
        const ledger = new Ledger();
        let now = start;
        for (const { pause, running, back } of events) {
          now += pause;
          history.record(now, running);
          ledger.record(now, running);
          const time = now - back;
          const found = history.at(time, now);
          const expected = ledger.at(Math.min(time, now + 10));
          if (time >= now) expect(found).toBeGreaterThanOrEqual(0);
          else if (back < 119_000 && time >= start) expect(found).toBe(expected);
          else expect([0, expected]).toContain(found);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("what began after a moment did not run at it, also within the same hundredth of a second", () => {
    const history = new RunningHistory();
    history.record(1000, 3);
    history.record(2004, 30);
    expect(history.at(2003, 2010)).toBe(3);
    expect(history.at(2004, 2010)).toBe(3);
    expect(history.at(2014, 2020)).toBe(30);
  });

  it("what ended before a moment did not run at it, also within the same hundredth of a second", () => {
    const history = new RunningHistory();
    history.record(1000, 30);
    history.record(2004, 3);
    expect(history.at(2005, 2005)).toBe(3);
    expect(history.at(2005, 2500)).toBe(3);
  });
});

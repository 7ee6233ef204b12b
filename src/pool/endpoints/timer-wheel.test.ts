import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { NOWHERE, TimerWheel, type WheelEntry } from "./timer-wheel.ts";

interface Named extends WheelEntry {
  readonly name: string;
}

function entry(name: string): Named {
  return { name, due: 0, bucket: NOWHERE, place: 0 };
}

describe("TimerWheel", () => {
  it("fires at most one tick late and never early, beyond one turn too", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 0, max: 9000 }), fc.integer({ min: 0, max: 20_000 })), { maxLength: 40 }),
        (timers) => {
          const clock = new VirtualClock();
          const late: number[] = [];
          const wheel = new TimerWheel<Named>(clock, (fired) => late.push(clock.now() - fired.due));
          for (const [at, delay] of timers)
            clock.after(at, () => wheel.put(entry(`${at}+${delay}`), clock.now() + delay));
          clock.advance(30_000);
          expect(late).toHaveLength(timers.length);
          for (const by of late) {
            expect(by).toBeGreaterThanOrEqual(0);
            expect(by).toBeLessThanOrEqual(10);
          }
          expect(wheel.size).toBe(0);
        },
      ),
    );
  });

  it("moves and takes out entries, also those that were about to fire", () => {
    const clock = new VirtualClock();
    const fired: string[] = [];
    const entries = ["a", "b", "c", "d"].map(entry) as [Named, Named, Named, Named];
    const [a, b, c, d] = entries;
    const wheel = new TimerWheel<Named>(clock, (due) => {
      fired.push(`${due.name}@${clock.now()}`);
      if (due !== a) return;
      wheel.take(b);
      wheel.put(c, clock.now() + 100);
    });
    for (const each of entries) wheel.put(each, 50);
    wheel.put(d, 70);
    clock.advance(1000);
    expect(fired).toEqual(["a@50", "d@70", "c@150"]);
  });

  it("needs one timer for all and none when empty", () => {
    const clock = new VirtualClock();
    const wheel = new TimerWheel<Named>(clock, () => {});
    const entries = Array.from({ length: 500 }, (_, i) => entry(`e${i}`));
    for (const [i, each] of entries.entries()) wheel.put(each, 1000 - i);
    expect(clock.pending).toBe(1);
    clock.advance(2000);
    expect(clock.pending).toBe(0);
    wheel.put(entries[0]!, 5000);
    wheel.clear();
    expect([wheel.size, clock.pending]).toEqual([0, 0]);
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { Coincidence } from "./coincidence.ts";

const LAG = 40;

/** The moments as a list, and the slope of a line through all of them, each weighing less than the one after it. */
function slowShare(events: readonly { readonly at: number; readonly heard: number }[], peers: number): number {
  const moments: { begun: number; own: number; ofPeers: number }[] = [];
  for (const { at, heard } of events) {
    const last = moments.at(-1);
    const lasts = last !== undefined && at - last.begun <= LAG;
    if (heard > 0) {
      if (lasts) last.ofPeers += heard;
    } else if (lasts) last.own++;
    else moments.push({ begun: at, own: 1, ofPeers: 0 });
  }
  // The last one is not over.
  const over = moments.slice(0, -1).reverse();
  const sum = (of: (moment: (typeof over)[number]) => number): number =>
    over.reduce((total, moment, age) => total + of(moment) * (31 / 32) ** age, 0);
  const squares = sum(({ own }) => own * own);
  return squares === 0 || peers === 0 ? 0 : Math.min(1, sum(({ own, ofPeers }) => own * ofPeers) / squares / peers);
}

describe("Coincidence", () => {
  it("agrees with the slope of a line through all moments", () => {
    const event = fc.record({ after: fc.nat(60), heard: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 9 })) });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 200 }), fc.nat(5), (steps, peers) => {
        const one = new Coincidence();
        let at = 0;
        const events = steps.map(({ after, heard }) => {
          at += after;
          return { at, heard };
        });
        for (const { at: now, heard } of events) {
          if (heard > 0) one.heard(heard, now, LAG);
          else one.sent(now, LAG);
        }
        expect(one.share(peers)).toBeCloseTo(slowShare(events, peers), 9);
      }),
    );
  });

  it("is 1 where bursts come to all replicas at once, whatever their size", () => {
    const one = new Coincidence();
    for (let second = 0; second < 30; second++) {
      const size = 1 + (second % 5);
      for (let i = 0; i < size; i++) one.sent(1000 * second, LAG);
      for (let peer = 0; peer < 3; peer++) one.heard(size, 1000 * second + 20, LAG);
    }
    expect(one.share(3)).toBe(1);
    expect(one.share(6)).toBe(0.5);
  });

  it("is what chance brings where requests come one by one, and 0 where peers send none", () => {
    const random = new SeededRandom(1);
    const one = new Coincidence();
    // Each of four replicas sends five a second.
    for (let ms = 0; ms < 200_000; ms++) {
      if (random.next() < 0.005) one.sent(ms, LAG);
      for (let peer = 0; peer < 3; peer++) if (random.next() < 0.005) one.heard(1, ms, LAG);
    }
    expect(one.share(3)).toBeGreaterThan(0.08);
    expect(one.share(3)).toBeLessThan(0.32);
    const alone = new Coincidence();
    for (let i = 0; i < 100; i++) alone.sent(100 * i, LAG);
    expect([alone.share(3), alone.share(0)]).toEqual([0, 0]);
  });
});

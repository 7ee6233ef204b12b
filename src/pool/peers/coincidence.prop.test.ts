import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { Coincidence } from "./coincidence.ts";

const LAG = 40;

/** The moments as a list, and slopes of lines through all of them, each weighing less than the one after it. */
function slowly(
  events: readonly { readonly at: number; readonly heard: number }[],
  peers: number,
): [number, number, number] {
  const moments: { begun: number; own: number; ofPeers: number; all: number }[] = [];
  for (const { at, heard } of events) {
    const last = moments.at(-1);
    const lasts = last !== undefined && at - last.begun <= LAG;
    if (heard > 0 && last !== undefined) last.all += heard;
    if (heard > 0 && lasts) last.ofPeers += heard;
    if (heard > 0) continue;
    if (lasts) last.own++;
    else moments.push({ begun: at, own: 1, ofPeers: 0, all: 0 });
  }
  // The last one is not over.
  const over = moments.slice(0, -1).map((moment, i) => ({ ...moment, ms: moments[i + 1]!.begun - moment.begun }));
  over.reverse();
  const mean = (of: (moment: (typeof over)[number]) => number): number =>
    over.reduce((total, moment, age) => total + of(moment) * (31 / 32) ** age, 0) / 32;
  const rate = over.length === 0 ? 0 : mean(({ all }) => all) / mean(({ ms }) => ms);
  const slope = (of: (moment: (typeof over)[number]) => number): number =>
    peers === 0 ? 0 : Math.min(1, Math.max(0, mean(of) / (mean(({ own }) => own * own) + 1 / 32) / peers));
  return [
    slope(({ own, ofPeers }) => own * ofPeers),
    slope(({ own, ofPeers }) => own * ofPeers - own * rate * LAG),
    over.length === 0 ? 1 : rate * LAG,
  ];
}

describe("Coincidence", () => {
  it("agrees with slopes of lines through all moments", () => {
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
        const [share, together, unheard] = slowly(events, peers);
        expect(one.share(peers)).toBeCloseTo(share, 9);
        expect(one.together(peers, LAG)).toBeCloseTo(together, 9);
        expect(one.unheard(LAG)).toBeCloseTo(unheard, 9);
      }),
    );
  });

  it("is nearly 1 where bursts come to all replicas at once, whatever their size", () => {
    const one = new Coincidence();
    for (let second = 0; second < 30; second++) {
      const size = 1 + (second % 5);
      for (let i = 0; i < size; i++) one.sent(1000 * second, LAG);
      for (let peer = 0; peer < 3; peer++) one.heard(size, 1000 * second + 20, LAG);
    }
    expect(one.share(3)).toBeGreaterThan(0.95);
    expect(one.together(3, LAG)).toBeGreaterThan(0.9);
    expect(one.share(6)).toBeLessThan(0.5);
  });

  it("is little where requests come one by one at any rate, and nothing where peers send none", () => {
    for (const perSecond of [5, 25, 125]) {
      const random = new SeededRandom(1);
      const one = new Coincidence();
      const most = { share: 0, together: 0 };
      for (let ms = 0; ms < 60_000; ms++) {
        if (random.next() < perSecond / 1000) one.sent(ms, LAG);
        for (let peer = 0; peer < 3; peer++) if (random.next() < perSecond / 1000) one.heard(1, ms, LAG);
        most.share = Math.max(most.share, one.share(3));
        most.together = Math.max(most.together, one.together(3, LAG));
      }
      expect(most.together).toBeLessThan(0.35);
      expect(most.share).toBeGreaterThan(perSecond === 5 ? 0.1 : 0.4);
    }
    const alone = new Coincidence();
    for (let i = 0; i < 100; i++) alone.sent(100 * i, LAG);
    expect([alone.share(3), alone.together(3, LAG), alone.share(0), alone.together(0, LAG)]).toEqual([0, 0, 0, 0]);
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FlowShares } from "./flow-shares.ts";

/** The ids that are above their share at this fill. */
function above(shares: FlowShares, ids: readonly string[], fill: number): string[] {
  return ids.filter((id) => shares.isAbove(id, fill));
}

describe("the shares of flows in the room of a band", () => {
  it("the reserve begins where the rest of the room is in use; without a reserve nothing is reserved", () => {
    expect([0, 0.69, 0.7, 1].map((fill) => new FlowShares(0.3).isReserved(fill))).toEqual([false, false, true, true]);
    expect(new FlowShares(0).isReserved(1)).toBe(false);
  });

  it("a flow is above its share when it has more of the whole room, by the tokens in flight and the weights", () => {
    const shares = new FlowShares(0.5);
    for (const [id, weight] of Object.entries({ noisy: 1, quiet: 1, paid: 2 })) shares.seen(id, weight, 0);
    shares.add("noisy", 60);
    shares.add("paid", 40);
    // At fill 0.5 the room is 200 tokens: shares of 50, 50 and 100.
    expect(above(shares, ["noisy", "quiet", "paid", "unknown"], 0.5)).toEqual(["noisy"]);
    // At fill 1 it is 100 tokens: shares of 25, 25 and 50.
    expect(above(shares, ["noisy", "quiet", "paid"], 1)).toEqual(["noisy"]);
    // With 10 and 40 tokens the room at fill 1 is 50.
    shares.add("noisy", -50);
    expect(above(shares, ["noisy", "quiet", "paid"], 1)).toEqual(["paid"]);
  });

  it("a flow that is alone has the whole room", () => {
    const shares = new FlowShares(0.5);
    shares.seen("a", 1, 0);
    shares.add("a", 1000);
    expect(shares.isAbove("a", 1)).toBe(false);
  });

  it("a flow keeps its share for a minute after its last request, and as long as it has requests in flight", () => {
    const shares = new FlowShares(0.5);
    shares.seen("away", 1, 0);
    shares.seen("runs", 1, 0);
    shares.add("runs", 50);
    shares.seen("here", 1, 60_000);
    shares.add("here", 20);
    expect(above(shares, ["here", "runs"], 1)).toEqual(["runs"]);
    shares.seen("here", 1, 60_001);
    // Half of the room each now: 35 of 70.
    expect(above(shares, ["here", "runs"], 1)).toEqual(["runs"]);
    shares.add("runs", -50);
    shares.seen("here", 1, 200_000);
    expect(above(shares, ["here"], 1)).toEqual([]);
  });

  it("counts 4,096 flows at most: beyond them those that had no request for longest do not count", () => {
    const shares = new FlowShares(0.5);
    for (let i = 0; i < 5000; i++) {
      shares.seen(`f${i}`, 1, i);
      shares.add(`f${i}`, 2);
    }
    shares.add("f4999", 1);
    expect(shares.isAbove("f4999", 1)).toBe(true);
    // 4,096 flows have 8,193 tokens: the first ones do not count any more, also when they end.
    for (let i = 0; i < 904; i++) shares.add(`f${i}`, -2);
    expect(shares.isAbove("f4998", 8193 / 8192)).toBe(false);
    shares.seen("f0", 1, 6000);
    shares.add("f0", -2);
    expect(shares.isAbove("f0", 1)).toBe(false);
  });

  it("agrees with sums over all flows", () => {
    const step = fc.record({
      id: fc.constantFrom("a", "b", "c"),
      weight: fc.integer({ min: 1, max: 4 }),
      tokens: fc.integer({ min: 0, max: 100 }),
      ends: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), fc.double({ min: 0.5, max: 1, noNaN: true }), (steps, fill) => {
        const shares = new FlowShares(0.5);
        const slow = new Map<string, { weight: number; running: number[] }>();
        for (const [now, { id, weight, tokens, ends }] of steps.entries()) {
          const flow = slow.get(id) ?? { weight, running: [] };
          slow.set(id, { ...flow, weight });
          shares.seen(id, weight, now);
          const ended = ends ? slow.get(id)!.running.shift() : undefined;
          if (ended !== undefined) shares.add(id, -ended);
          slow.get(id)!.running.push(tokens);
          shares.add(id, tokens);
        }
        const sum = (list: readonly number[]): number => list.reduce((total, value) => total + value, 0);
        const all = sum([...slow.values()].map(({ running }) => sum(running)));
        const weights = sum([...slow.values()].map(({ weight }) => weight));
        for (const [id, { weight, running }] of slow)
          expect(shares.isAbove(id, fill)).toBe(sum(running) * weights * fill > weight * all);
      }),
      { numRuns: 200 },
    );
  });
});

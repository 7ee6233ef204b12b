import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isHome, type PlanParts, planUnseen } from "./unseen-plan.ts";

const idle = (addresses: number) => Array.from({ length: addresses }, () => ({ requests: 0, tokens: 0 }));

function planned(parts: PlanParts): number[] {
  const out = new Float64Array(parts.loads.length).fill(7);
  const any = planUnseen(parts, out);
  expect(any).toBe(out.some((requests) => requests > 0));
  return [...out];
}

/** The same with a list of turns, and all addresses sorted anew for each. */
function slowPlan({ loads, replicas, self, each, together, tokens, lean }: PlanParts): number[] {
  const left = Array.from({ length: replicas }, (_, replica) =>
    replica === self ? 0 : Math.round(each + (replica < self ? together : 0)),
  );
  const turns: number[] = [];
  while (left.some((requests) => requests > 0))
    left.forEach((requests, replica) => {
      if (requests > 0) turns.push(replica);
      left[replica] = requests - 1;
    });
  const out = loads.map(() => 0);
  const request = 49_152 / Math.max(1, ...loads.map(({ requests }) => requests));
  for (const replica of turns) {
    const cost = (at: number): number =>
      loads[at]!.tokens +
      (isHome(at, replica, replicas, loads.length) ? 0 : lean) +
      request * loads[at]!.requests +
      out[at]! * (tokens + request);
    const away = (at: number): number => (isHome(at, replica, replicas, loads.length) ? 0 : 1);
    const best = loads.map((_, at) => at).sort((a, b) => cost(a) - cost(b) || away(a) - away(b) || a - b)[0]!;
    out[best]!++;
  }
  return loads.length < 2 ? loads.map(() => 0) : out;
}

describe("planUnseen", () => {
  it("agrees with a slow and obvious plan", () => {
    const load = fc.record({ requests: fc.nat(20), tokens: fc.nat(40_000) });
    const parts = fc.integer({ min: 2, max: 8 }).chain((replicas) =>
      fc.record({
        ...{ loads: fc.array(load, { minLength: 1, maxLength: 12 }), replicas: fc.constant(replicas) },
        ...{ self: fc.nat(replicas - 1), each: fc.double({ min: 0, max: 6, noNaN: true }) },
        ...{ together: fc.double({ min: 0, max: 1, noNaN: true }), tokens: fc.nat(9000), lean: fc.nat(16_384) },
      }),
    );
    fc.assert(
      fc.property(parts, (given) => {
        expect(planned(given)).toEqual(slowPlan(given));
      }),
    );
  });

  it("lets replicas that get a request each at once take different endpoints, and those first that are least busy", () => {
    const loads = [3, 0, 0, 5, 0, 2, 0, 0].map((requests) => ({ requests, tokens: 1000 * requests }));
    for (const replicas of [2, 4, 5]) {
      const chosen = Array.from({ length: replicas }, (_, self) => {
        const parts = { loads, replicas, self, each: 0, together: 1, tokens: 6000, lean: 6000 };
        const others = planned(parts);
        expect(others.reduce((sum, requests) => sum + requests, 0)).toBe(self);
        // As if one more replica came after this one: what it assumes in addition is the choice of this one.
        return planned({ ...parts, replicas, self: self + 1 }).findIndex((requests, at) => requests > others[at]!);
      });
      expect(new Set(chosen).size).toBe(replicas);
      expect(chosen.every((at) => loads[at]!.requests === 0)).toBe(true);
    }
  });

  it("assumes nothing that is less probable than not, and nothing alone", () => {
    const parts = { loads: idle(4), replicas: 4, self: 3, each: 0.2, together: 0.2, tokens: 100, lean: 1 };
    expect(planned(parts)).toEqual([0, 0, 0, 0]);
    expect(planned({ ...parts, together: 0.4 })).toEqual([1, 1, 1, 0]);
    expect(planned({ ...parts, replicas: 1, self: 0, together: 1 })).toEqual([0, 0, 0, 0]);
    expect(planned({ ...parts, self: 0, together: 1 })).toEqual([0, 0, 0, 0]);
  });

  it("does a bounded number of steps in a large pool", () => {
    const parts = { loads: idle(1024), replicas: 64, self: 63, each: 4, together: 1, tokens: 100, lean: 1 };
    expect(planned(parts).reduce((sum, requests) => sum + requests, 0)).toBe(4);
  });
});

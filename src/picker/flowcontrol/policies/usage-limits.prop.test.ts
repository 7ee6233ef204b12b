import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { instanceOf } from "../../../../test/support/scheduling/fakes.cases.ts";
import type { UsageLimitPolicy } from "../../../base/plugin/flow-kinds.ts";
import { priorityHoldbackPolicy, softReflectiveCeilingPolicy, staticUsageLimitPolicy } from "./usage-limits.ts";

function ceilings(policy: UsageLimitPolicy, saturation: number, priorities: readonly number[]): number[] {
  const out = priorities.map(() => 1);
  policy.limit(saturation, priorities, out);
  return out;
}

/** Priorities of bands, highest first. */
const bands = fc
  .uniqueArray(fc.integer({ min: -1000, max: 1000 }), { minLength: 1, maxLength: 12 })
  .map((priorities) => priorities.sort((a, b) => b - a));

describe("static-usage-limit-policy", () => {
  it("gives all bands the threshold, which is 1 unless configured", () => {
    expect(ceilings(instanceOf(staticUsageLimitPolicy), 0.3, [5, 0])).toEqual([1, 1]);
    expect(ceilings(instanceOf(staticUsageLimitPolicy, { threshold: 0.8 }), 2, [5, 0, -1])).toEqual([0.8, 0.8, 0.8]);
    expect(staticUsageLimitPolicy.parameters.safeParse({ threshold: -0.1 }).success).toBe(false);
    expect(staticUsageLimitPolicy.notes?.({ threshold: 0 })).toEqual(["threshold 0 dispatches no request"]);
    expect(staticUsageLimitPolicy.notes?.({ threshold: 0.1 })).toEqual([]);
  });
});

describe("priority-holdback-policy", () => {
  const holdback = (parameters: object) => instanceOf(priorityHoldbackPolicy, { minCeiling: 0.5, ...parameters });

  it("rises in equal steps by rank, or with the number of the priority", () => {
    expect(ceilings(holdback({}), 0.1, [100, 1, 0])).toEqual([1, 0.75, 0.5]);
    expect(ceilings(holdback({ maxCeiling: 0.9 }), 0.1, [100, 0])).toEqual([0.9, 0.5]);
    expect(ceilings(holdback({ domain: "value" }), 0.1, [10, 4, 0])).toEqual([1, 0.7, 0.5]);
    expect(ceilings(holdback({ domain: "value", minCeiling: 0 }), 0.1, [0, -90, -100])).toEqual(
      [1, 0.1, 0].map((c) => expect.closeTo(c, 12)),
    );
  });

  it("holds nothing back where there is one band", () => {
    for (const domain of ["rank", "value"])
      expect(ceilings(holdback({ domain, maxCeiling: 0.9 }), 0.1, [7])).toEqual([0.9]);
  });

  it("falls from the highest ceiling to the lowest, whatever the saturation", () => {
    const parameters = fc
      .tuple(fc.double({ min: 0, max: 0.99, noNaN: true }), fc.double({ min: 0.01, max: 1, noNaN: true }))
      .filter(([least, most]) => least < most);
    const domains = fc.constantFrom("rank", "value");
    fc.assert(
      fc.property(parameters, domains, bands, fc.double({ min: 0, max: 3, noNaN: true }), (range, domain, all, at) => {
        const [minCeiling, maxCeiling] = range;
        const policy = instanceOf(priorityHoldbackPolicy, { minCeiling, maxCeiling, domain });
        const given = ceilings(policy, at, all);
        expect(given[0]).toBe(maxCeiling);
        if (given.length > 1) expect(given.at(-1)).toBeCloseTo(minCeiling, 12);
        for (let i = 1; i < given.length; i++) expect(given[i]!).toBeLessThanOrEqual(given[i - 1]!);
        expect(ceilings(policy, 0, all)).toEqual(given);
      }),
    );
  });

  it.each([
    [{}, ["minCeiling is required"]],
    [{ minCeiling: "0.5" }, ["minCeiling must be a number"]],
    [{ minCeiling: 1 }, ["minCeiling must be at least 0 and less than 1"]],
    [{ minCeiling: -0.1 }, ["minCeiling must be at least 0 and less than 1"]],
    [{ minCeiling: 0, maxCeiling: 0 }, ["maxCeiling must be greater than 0 and at most 1"]],
    [{ minCeiling: 0, maxCeiling: 1.1 }, ["maxCeiling must be greater than 0 and at most 1"]],
    [{ minCeiling: 0.6, maxCeiling: 0.6 }, ["minCeiling 0.6 must be less than maxCeiling 0.6"]],
    [{ minCeiling: 0.1, domain: "name", shape: "step" }, ["domain must be rank or value", "shape must be linear"]],
  ])("refuses %j", (parameters, messages) => {
    const issues = priorityHoldbackPolicy.parameters.safeParse(parameters).error?.issues ?? [];
    expect(issues.map(({ message }) => message)).toEqual(messages);
  });
});

describe("soft-reflective-ceiling-policy", () => {
  const soft = () => instanceOf(softReflectiveCeilingPolicy);

  it("says that its ceilings alternate", () => expect(soft().alternates).toBe(true));

  it("leaves one band alone", () => {
    for (const saturation of [0, 0.7, 1, 5]) expect(ceilings(soft(), saturation, [3])).toEqual([1]);
  });

  it("opens all bands while the saturation is below the lowest ceiling, and shuts lower ones from 1 up", () => {
    const policy = soft();
    expect(ceilings(policy, 0.49, [2, 1, 0])).toEqual([1, 1, 1]);
    expect(ceilings(policy, 1, [2, 1, 0])).toEqual([1, 0, 0]);
    expect(ceilings(policy, 7, [2, 1, 0])).toEqual([1, 0, 0]);
    expect(ceilings(policy, Number.NaN, [2, 1, 0])).toEqual([1, 0, 0]);
  });

  it("at saturation 0.65 shuts the third of three bands, and opens it in every second call", () => {
    // The ceilings are 1, 0.675 and 0.35; the period is round(0.65 / 0.35) = 2.
    const policy = soft();
    const calls = [1, 2, 3, 4].map(() => ceilings(policy, 0.65, [2, 1, 0]));
    expect(calls).toEqual([
      [1, 1, 0],
      [1, 1, 1],
      [1, 1, 0],
      [1, 1, 1],
    ]);
  });

  it("counts no calls at which no band is at its ceiling, or all lower bands are shut", () => {
    const policy = soft();
    expect(ceilings(policy, 0.75, [1, 0])).toEqual([1, 0]);
    for (const saturation of [0.2, 1, 0.49]) ceilings(policy, saturation, [1, 0]);
    expect(ceilings(policy, 0.75, [1, 0])).toEqual([1, 0]);
    // The period of 0.75 is 3.
    expect(ceilings(policy, 0.75, [1, 0])).toEqual([1, 1]);
  });

  it("opens bands at their ceiling in one of round(s / (1 - s)) calls, all of them in the same calls", () => {
    fc.assert(
      fc.property(bands, fc.double({ min: 0.5, max: 0.99, noNaN: true }), (priorities, saturation) => {
        const policy = soft();
        const period = Math.max(1, Math.round(saturation / (1 - saturation + 1e-9)));
        const last = priorities.length - 1;
        let opened = 0;
        for (let call = 0; call < 4 * period; call++) {
          const given = ceilings(policy, saturation, priorities);
          const gated = given.filter((_, i) => i > 0 && saturation >= 1 - (i * saturation) / last);
          const free = given.filter((_, i) => i === 0 || saturation < 1 - (i * saturation) / last);
          expect(new Set(free)).toEqual(new Set([1]));
          expect(new Set(gated).size).toBeLessThanOrEqual(1);
          for (let i = 1; i <= last; i++) expect(given[i]!).toBeLessThanOrEqual(given[i - 1]!);
          if (gated.length === 0 || gated[0] === 1) opened++;
        }
        expect(opened).toBe(last === 0 ? 4 * period : 4);
      }),
    );
  });
});

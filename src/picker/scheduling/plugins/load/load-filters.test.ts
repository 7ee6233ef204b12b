import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, keptBy, unscraped } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { IN_FLIGHT_REQUESTS } from "../../../../base/plugin/keys.ts";
import { boundedLoadFilter, utilizationFilter } from "./load-filters.ts";

describe("utilization-filter (scheduling 3.15)", () => {
  const loads = columnsOf(
    [
      { waiting: 0, running: 9, kvUsage: 0.2 },
      { waiting: 5, running: 4, kvUsage: 0.8 },
      { waiting: 6, running: 0, kvUsage: 0.9 },
    ].map((metrics, slot) => endpointOf(slot, { metrics })),
    [[IN_FLIGHT_REQUESTS, [3, 0, 1]]],
  );
  const kept = (conditions: object[], more: object = {}) => keptBy(utilizationFilter, loads, { conditions, ...more });

  it.each([
    [{ metric: "waiting-queue", maxValue: 5 }, [0, 1]],
    [{ metric: "running-requests", maxValue: 4 }, [1, 2]],
    [{ metric: "kv-cache-utilization", maxValue: 0.8 }, [0, 1]],
    [{ metric: "active-requests", maxValue: 0 }, [1]],
    [{ metric: "waiting-queue", maxValue: -1 }, []],
  ])("keeps what is at most the limit: %j", (condition, expected) => {
    expect(kept([condition])).toEqual(expected);
  });

  it("wants every value within its limit", () => {
    const conditions = [
      { metric: "waiting-queue", maxValue: 5 },
      { metric: "running-requests", maxValue: 4 },
    ];
    expect(kept(conditions)).toEqual([1]);
  });

  it("with fallbackOnEmpty keeps all where none would be left, and only there", () => {
    expect(kept([{ metric: "kv-cache-utilization", maxValue: 0.1 }], { fallbackOnEmpty: true })).toEqual([0, 1, 2]);
    expect(kept([{ metric: "kv-cache-utilization", maxValue: 0.2 }], { fallbackOnEmpty: true })).toEqual([0]);
  });

  it("takes a value nobody knows for 0, and one that only others know for the worst of theirs", () => {
    const conditions = [{ metric: "waiting-queue", maxValue: 5 }];
    const column = [[IN_FLIGHT_REQUESTS, [0, 0]]] as const;
    expect(keptBy(utilizationFilter, columnsOf([unscraped(0), unscraped(1)], column), { conditions })).toEqual([0, 1]);
    const busy = endpointOf(1, { metrics: { waiting: 6 } });
    expect(keptBy(utilizationFilter, columnsOf([unscraped(0), busy], column), { conditions })).toEqual([]);
  });

  it("a higher limit never keeps fewer, and two conditions keep what both keep", () => {
    const metric = fc.constantFrom("active-requests", "running-requests", "waiting-queue", "kv-cache-utilization");
    const condition = fc.record({ metric, maxValue: fc.double({ min: -1, max: 10, noNaN: true }) });
    fc.assert(
      fc.property(condition, condition, fc.double({ min: 0, max: 5, noNaN: true }), (a, b, more) => {
        const both = kept([a, b]);
        expect(both).toEqual(kept([a]).filter((slot) => kept([b]).includes(slot)));
        expect(kept([{ ...a, maxValue: a.maxValue + more }])).toEqual(expect.arrayContaining(kept([a])));
      }),
    );
  });

  it.each([
    {},
    { conditions: [] },
    { conditions: [{ metric: "queue", maxValue: 1 }] },
    { conditions: [{ metric: "waiting-queue" }] },
  ])("refuses %j", (parameters) => {
    expect(utilizationFilter.parameters.safeParse(parameters).success).toBe(false);
  });
});

describe("bounded-load-filter", () => {
  /** The places that are kept of endpoints with `loads` requests in flight. */
  function kept(loads: readonly number[], parameters: object = {}): number[] {
    const endpoints = loads.map((_, slot) => endpointOf(slot));
    return keptBy(boundedLoadFilter, columnsOf(endpoints, [[IN_FLIGHT_REQUESTS, loads]]), {
      minRequests: 1,
      ...parameters,
    });
  }

  it("drops what would have more than its factor of the mean with this request, 1.4 unless told otherwise", () => {
    // 20 with this one: 5 are fair, 7 the most.
    expect(kept([6, 7, 3, 3])).toEqual([0, 2, 3]);
    expect(kept([6, 7, 3, 3], { meanLoadFactor: 1.2 })).toEqual([2, 3]);
    expect(kept([6, 7, 3, 3], { meanLoadFactor: 1.5 })).toEqual([0, 1, 2, 3]);
  });

  it("rounds the bound up to whole requests", () => {
    // 1.4 x 10 / 4 = 3.5: four at most, with this one.
    expect(kept([3, 4, 1, 1])).toEqual([0, 2, 3]);
    // 1.4 x 2 / 3 is below 1: whoever has a request is left alone as long as others have none.
    expect(kept([1, 0, 0])).toEqual([1, 2]);
    expect(kept([1, 1, 0])).toEqual([0, 1, 2]);
  });

  it("lets an endpoint have a few in any case, four unless told otherwise", () => {
    // 1.4 x 3 / 3 and 1.4 x 5 / 3 come to 2 and 3.
    expect(kept([2, 0, 0], { minRequests: 2 })).toEqual([1, 2]);
    expect(kept([2, 0, 0], { minRequests: 3 })).toEqual([0, 1, 2]);
    expect(kept([3, 1, 0], { minRequests: undefined })).toEqual([0, 1, 2]);
    expect(kept([4, 0, 0], { minRequests: undefined })).toEqual([1, 2]);
    // 1.4 x 31 / 3 is above four.
    expect(kept([13, 16, 1], { minRequests: undefined })).toEqual([0, 2]);
  });

  it("keeps all that are idle or even, and a single candidate whatever its load", () => {
    expect(kept([0, 0, 0])).toEqual([0, 1, 2]);
    expect(kept([50, 50, 50])).toEqual([0, 1, 2]);
    expect(kept([1_000_000])).toEqual([0]);
    expect(kept([])).toEqual([]);
  });

  it("always keeps the least loaded endpoint, and otherwise those under the bound only", () => {
    const loads = fc.array(fc.oneof(fc.nat({ max: 9 }), fc.nat({ max: 10_000 })), { minLength: 1, maxLength: 40 });
    const factor = fc.constantFrom(1.001, 1.1, 1.4, 2, 10);
    fc.assert(
      fc.property(loads, factor, (given, meanLoadFactor) => {
        const left = kept(given, { meanLoadFactor });
        const total = given.reduce((sum, load) => sum + load, 1);
        // A whole number of requests is at most the bound rounded up where one fewer is below the bound itself.
        const thousandths = Math.round(meanLoadFactor * 1000) * total;
        const fits = (load: number): boolean => load * 1000 * given.length < thousandths;
        expect(left).toEqual([...given.keys()].filter((i) => fits(given[i]!)));
        expect(left).toContain(given.indexOf(Math.min(...given)));
        if (given.length === 1 || total === 1) expect(left).toHaveLength(given.length);
      }),
    );
  });

  it("never keeps fewer with a higher factor", () => {
    const loads = fc.array(fc.nat({ max: 20 }), { minLength: 1, maxLength: 12 });
    const factor = fc.double({ min: 1, minExcluded: true, max: 20, noNaN: true });
    fc.assert(
      fc.property(loads, factor, factor, (given, a, b) => {
        const [low, high] = [a, b].sort((one, other) => one - other);
        expect(kept(given, { meanLoadFactor: high })).toEqual(
          expect.arrayContaining(kept(given, { meanLoadFactor: low })),
        );
      }),
    );
  });

  it.each([
    [{ meanLoadFactor: 1 }, "must be greater than 1: with 1, no endpoint could have more than its fair share"],
    [{ meanLoadFactor: 0.5 }, "must be greater than 1"],
    [{ meanLoadFactor: "1.4" }, "expected number"],
    [{ meanLoadFactor: Number.POSITIVE_INFINITY }, "expected number"],
    [{ meanLoad: 2 }, "meanLoad"],
    [{ minRequests: 0 }, ">=1"],
    [{ minRequests: 2.5 }, "expected int"],
  ])("refuses %j", (parameters, message) => {
    const { error } = boundedLoadFilter.parameters.safeParse(parameters);
    expect(error?.issues.map((issue) => issue.message).join()).toContain(message);
  });
});

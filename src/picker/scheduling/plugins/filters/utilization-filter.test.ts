import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, keptBy, unscraped } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { IN_FLIGHT_REQUESTS } from "../../../../base/plugin/keys.ts";
import { utilizationFilter } from "./utilization-filter.ts";

const loads = columnsOf(
  [
    { waiting: 0, running: 9, kvUsage: 0.2 },
    { waiting: 5, running: 4, kvUsage: 0.8 },
    { waiting: 6, running: 0, kvUsage: 0.9 },
  ].map((metrics, slot) => endpointOf(slot, { metrics })),
  [[IN_FLIGHT_REQUESTS, [3, 0, 1]]],
);
const kept = (conditions: object[], more: object = {}) => keptBy(utilizationFilter, loads, { conditions, ...more });

describe("utilization-filter (3.15)", () => {
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

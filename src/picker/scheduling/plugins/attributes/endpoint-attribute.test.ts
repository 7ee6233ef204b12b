import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, keptBy, scoresOf } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { expectPick } from "../../../testing/expect-pick.ts";
import { endpointAttributeFilter, endpointAttributeScorer } from "./endpoint-attribute.ts";

const GPU = "GPUUtilization/dcgm-extractor";
const DEPTH = "depth/core-metrics-extractor";

/** Endpoints with these values of a custom metric; undefined = without it. */
const deep = (...values: (number | undefined)[]) =>
  columnsOf(
    values.map((value, slot) =>
      endpointOf(slot, { metrics: value === undefined ? {} : { attributes: new Map([[DEPTH, value]]) } }),
    ),
  );
const threshold = (operator: string, value: number) => ({
  algorithm: { type: "threshold", threshold: { operator, value } },
});

describe("endpoint-attribute-filter (scheduling 3.15)", () => {
  const kept = (parameters: object, candidates = deep(1, 2, 3, undefined)) =>
    keptBy(endpointAttributeFilter, candidates, { attribute: "depth", ...parameters });

  it.each([
    ["LessThan", [0]],
    ["LessThanOrEqual", [0, 1]],
    ["GreaterThan", [2]],
    ["GreaterThanOrEqual", [1, 2]],
    ["Equal", [1]],
    ["NotEqual", [0, 2]],
  ])("keeps what is %s 2", (operator, expected) => {
    expect(kept({ ...threshold(operator, 2), onMissing: "Fail" })).toEqual(expected);
  });

  it("keeps endpoints without the attribute, unless onMissing is Fail", () => {
    for (const onMissing of [undefined, "Pass", ""])
      expect(kept({ ...threshold("LessThan", 2), ...(onMissing === undefined ? {} : { onMissing }) })).toEqual([0, 3]);
    expect(kept({ ...threshold("LessThan", 2), onMissing: "Fail" })).toEqual([0]);
  });

  it("with fallbackOnEmpty keeps all where none would be left, and only there", () => {
    const none = { ...threshold("GreaterThan", 9), onMissing: "Fail" };
    expect(kept(none)).toEqual([]);
    expect(kept({ ...none, fallbackOnEmpty: true })).toEqual([0, 1, 2, 3]);
    expect(kept({ ...threshold("Equal", 3), onMissing: "Fail", fallbackOnEmpty: true })).toEqual([2]);
  });

  it("takes a stale value for a missing one", () => {
    const stale = columnsOf(
      [endpointOf(0, { metrics: { attributes: new Map([[DEPTH, 1]]), scrapedAt: -1000 } }), endpointOf(1)],
      [],
      0,
    );
    expect(kept({ ...threshold("LessThan", 2), onMissing: "Fail" }, stale)).toEqual([]);
  });

  it("reads the attribute of the producer that it is told", () => {
    const values = [0.5, 0.95].map((value, slot) => endpointOf(slot, { attributes: new Map([[GPU, value]]) }));
    const parameters = { ...threshold("LessThanOrEqual", 0.9), onMissing: "Fail" };
    const read = (more: object) => keptBy(endpointAttributeFilter, columnsOf(values), { ...parameters, ...more });
    expect(read({ attribute: "GPUUtilization", producer: "dcgm-extractor" })).toEqual([0]);
    expect(read({ attribute: "GPUUtilization" })).toEqual([]);
    expect(read({ attribute: "GPUUtilization", producer: "" })).toEqual([]);
    // Values of other pages do not grow stale with the metrics: their reader removes them.
    const blind = columnsOf(values.map((value) => ({ ...value, metrics: { ...value.metrics, scrapedAt: -9999 } })));
    expect(
      keptBy(endpointAttributeFilter, blind, {
        ...parameters,
        attribute: "GPUUtilization",
        producer: "dcgm-extractor",
      }),
    ).toEqual([0]);
  });

  it("refuses what it could only guess at", () => {
    const problems = (parameters: object) =>
      endpointAttributeFilter.parameters.safeParse(parameters).error?.issues.map(({ message }) => message) ?? [];
    expect(problems({ attribute: "GPUUtilization/dcgm-extractor", ...threshold("Equal", 1) })).toEqual([
      'has a slash, but no producer is given; write attribute: "GPUUtilization" and producer: "dcgm-extractor", or producer: "" if the slash belongs to the name',
    ]);
    expect(problems({ attribute: "llm-d.ai/multicluster-queue-size", producer: "", ...threshold("Equal", 1) })).toEqual(
      [],
    );
    expect(problems({ ...threshold("Equal", 1) })).toHaveLength(1);
    expect(problems({ attribute: "a", algorithm: { type: "percentile" } })).toContain(
      "must be threshold, the only algorithm of this filter",
    );
    expect(problems({ attribute: "a", ...threshold("Less", 1) })).toHaveLength(1);
    expect(problems({ attribute: "a", onMissing: "pass", ...threshold("Equal", 1) })).toHaveLength(1);
  });
});

describe("endpoint-attribute-scorer (scheduling 3.9)", () => {
  const scores = (algorithm: object, ...values: (number | undefined)[]) =>
    scoresOf(endpointAttributeScorer, deep(...values), { attributeKey: "depth", algorithm });
  const lower = { type: "linear_lower_is_better" };
  const higher = { type: "linear_higher_is_better" };

  it("is linear between the least and the most of the candidates, missing ones apart", () => {
    expect(scores(lower, 10, 20, 15, undefined)).toEqual([1, 0, 0.5, 0]);
    expect(scores({ ...higher, normalization: { adaptiveRange: {} } }, 10, 20, 15)).toEqual([0, 1, 0.5]);
    expect(scores(lower, 7, 7, undefined)).toEqual([1, 1, 0]);
    expect(scores(lower, undefined, undefined)).toEqual([0, 0]);
  });

  it("is linear between fixed values, and clamped", () => {
    const normalization = { fixedRange: { min: 0, max: 10 } };
    expect(scores({ ...lower, normalization }, 5, 20, -3)).toEqual([0.5, 0, 1]);
    expect(scores({ ...higher, normalization }, 5, 20, -3)).toEqual([0.5, 1, 0]);
  });

  it("refuses two ranges, an empty range and other algorithms", () => {
    const accepts = (algorithm: object) =>
      endpointAttributeScorer.parameters.safeParse({ attributeKey: "a", algorithm }).success;
    expect(accepts({ ...lower, normalization: { fixedRange: { min: 0, max: 1 }, adaptiveRange: {} } })).toBe(false);
    expect(accepts({ ...lower, normalization: { fixedRange: { min: 1, max: 1 } } })).toBe(false);
    expect(accepts({ type: "linear" })).toBe(false);
    expect(accepts(lower)).toBe(true);
  });

  it("decides, and its decision repeats from the record", () => {
    const algorithm = { ...lower, normalization: { fixedRange: { min: 0, max: 1 } } };
    expectPick({
      plugins: [
        [
          endpointAttributeScorer,
          { parameters: { attributeKey: "GPUUtilization", producer: "dcgm-extractor", algorithm } },
        ],
      ],
      endpoints: [
        { name: "busy", attributes: { [GPU]: 0.9 } },
        { name: "idle", attributes: { [GPU]: 0.1 } },
      ],
    })
      .toBe("idle")
      .toRepeat();
  });
});

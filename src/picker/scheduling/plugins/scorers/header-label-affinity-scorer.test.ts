import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, requestOf, scoresOf } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { HeaderList } from "../../../../base/inference/headers.ts";
import { headerLabelAffinityScorer } from "./header-label-affinity-scorer.ts";

const zones = ["eu", "us", undefined, ""];
const pool = columnsOf(zones.map((zone, slot) => endpointOf(slot, zone === undefined ? {} : { labels: { zone } })));
const PARAMETERS = { headerName: "X-Zone", labelKey: "zone" };
const scores = (...headers: readonly (readonly [string, string])[]) =>
  scoresOf(headerLabelAffinityScorer, pool, PARAMETERS, requestOf("p", { headers: HeaderList.of(headers) }));

describe("header-label-affinity-scorer (3.9)", () => {
  it("scores 1 where the label has the value of the header, else 0", () => {
    expect(scores(["x-zone", "us"])).toEqual([0, 1, 0, 0]);
    expect(scores(["X-ZONE", " eu "])).toEqual([1, 0, 0, 0]);
    expect(scores(["x-zone", "EU"])).toEqual([0, 0, 0, 0]);
  });

  it("scores 0 without the header, and for an empty one even where the label is empty", () => {
    expect(scores()).toEqual([0, 0, 0, 0]);
    expect(scores(["x-zone", ""])).toEqual([0, 0, 0, 0]);
  });

  it("takes no property of every object for a label", () => {
    const parameters = { ...PARAMETERS, labelKey: "constructor" };
    const request = requestOf("p", { headers: HeaderList.of([["x-zone", String(Object)]]) });
    expect(scoresOf(headerLabelAffinityScorer, pool, parameters, request)).toEqual([0, 0, 0, 0]);
  });

  it("says which header a record needs, and must be told header and label", () => {
    expect(headerLabelAffinityScorer.headers!(headerLabelAffinityScorer.parameters.parse(PARAMETERS))).toEqual([
      "x-zone",
    ]);
    for (const parameters of [{}, { headerName: "a" }, { labelKey: "b" }, { headerName: "", labelKey: "b" }])
      expect(headerLabelAffinityScorer.parameters.safeParse(parameters).success).toBe(false);
  });
});

import { describe, expect, it } from "vitest";
import { SESSION_BOUND } from "../../../plugin/keys.ts";
import { columnsOf, endpointOf, keptBy, scoresOf } from "../../fakes.cases.ts";
import { sessionAffinityScorer } from "../scorers/session-affinity-scorer.ts";
import { sessionAffinityFilter } from "./session-affinity-filter.ts";

const bound = (...column: number[]) =>
  columnsOf(
    column.map((_, slot) => endpointOf(slot)),
    [[SESSION_BOUND, column]],
  );

describe("session affinity in a profile (3.9.2)", () => {
  it("S-46: the filter keeps the bound endpoint alone, and all where there is none", () => {
    expect(keptBy(sessionAffinityFilter, bound(0, 1, 0))).toEqual([1]);
    expect(keptBy(sessionAffinityFilter, bound(0, 0, 0))).toEqual([0, 1, 2]);
    expect(keptBy(sessionAffinityFilter, bound(1))).toEqual([0]);
  });

  it("S-46: the scorer gives the bound endpoint 1 and the others 0; without a session all have 0", () => {
    expect(scoresOf(sessionAffinityScorer, bound(0, 1, 0))).toEqual([0, 1, 0]);
    expect(scoresOf(sessionAffinityScorer, bound(0, 0))).toEqual([0, 0]);
  });

  it.each([
    [{ strategy: "cookie" }, "Invalid option"],
    [{ sessionIdConfig: { evictionTtlSeconds: 0 } }, "must be greater than 0"],
    [{ sessionIdConfig: { evictionSweepSeconds: -1 } }, "must be greater than 0"],
    [{ sessionIdConfig: { sources: [] } }, "must list at least one"],
    [{ sessionIdConfig: { sources: [{ header: "a", attribute: "b" }] } }, "is not supported yet; name a header"],
    [{ encodedEndpointHeaderConfig: { header: "" } }, "must not be empty"],
  ])("both refuse %j", (parameters, message) => {
    for (const definition of [sessionAffinityFilter, sessionAffinityScorer])
      expect(definition.parameters.safeParse(parameters).error?.issues[0]?.message).toContain(message);
  });
});

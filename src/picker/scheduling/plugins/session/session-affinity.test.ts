import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, keptBy, scoresOf } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { SESSION_BOUND } from "../../../../base/plugin/keys.ts";
import { sessionAffinityFilter, sessionAffinityScorer } from "./session-affinity.ts";

const bound = (...column: number[]) =>
  columnsOf(
    column.map((_, slot) => endpointOf(slot)),
    [[SESSION_BOUND, column]],
  );

describe("session affinity in a profile (scheduling 3.9.2)", () => {
  it("S-46: the filter keeps the bound endpoint alone, and all where there is none", () => {
    expect(keptBy(sessionAffinityFilter, bound(0, 1, 0))).toEqual([1]);
    expect(keptBy(sessionAffinityFilter, bound(0, 0, 0))).toEqual([0, 1, 2]);
    expect(keptBy(sessionAffinityFilter, bound(1))).toEqual([0]);
  });

  it("S-46: the scorer gives the bound endpoint 1 and the others 0; without a session all have 0", () => {
    expect(scoresOf(sessionAffinityScorer, bound(0, 1, 0))).toEqual([0, 1, 0]);
    expect(scoresOf(sessionAffinityScorer, bound(0, 0))).toEqual([0, 0]);
  });

  it("S-46: both bring along the memory, and the header of answers only where tokens are sent back", () => {
    const parameters = { profileName: "prefill", encodedEndpointHeaderConfig: { header: "X-Token" } };
    for (const definition of [sessionAffinityFilter, sessionAffinityScorer]) {
      const companions = (given: object) =>
        definition.companions!(definition.parameters.parse(given)).map(({ definition, parameters }) => {
          return [definition.type, definition.parameters.parse(parameters)];
        });
      expect(companions(parameters)).toMatchObject([
        ["session-affinity-producer", { profileName: "prefill" }],
        ["session-token-hook", { profileName: "prefill", header: "x-token" }],
      ]);
      const sources = [{ attribute: "SessionIDDataKey", producer: "cookies" }];
      const byId = { strategy: "session_id", sessionIdConfig: { sources } };
      expect(companions(byId)).toMatchObject([["session-affinity-producer", { sessionIdProducerName: "cookies" }]]);
      expect(definition.references!(definition.parameters.parse(byId))).toMatchObject([{ name: "cookies" }]);
      expect(definition.references!(definition.parameters.parse({ ...byId, strategy: undefined }))).toEqual([]);
    }
  });

  it.each([
    [{ strategy: "cookie" }, "Invalid option"],
    [{ sessionIdConfig: { evictionTtlSeconds: 0 } }, "must be greater than 0"],
    [{ sessionIdConfig: { evictionSweepSeconds: -1 } }, "must be greater than 0"],
    [{ sessionIdConfig: { sources: [] } }, "must list at least one"],
    [
      { sessionIdConfig: { sources: [{ header: "a", attribute: "session-id" }] } },
      "exactly one of header and attribute",
    ],
    [{ sessionIdConfig: { sources: [{}] } }, "exactly one of header and attribute"],
    [{ sessionIdConfig: { sources: [{ attribute: "user" }] } }, "names no attribute with a session"],
    [{ sessionIdConfig: { sources: [{ header: "a", producer: "b" }] } }, "goes with attribute, not with header"],
    [
      {
        sessionIdConfig: {
          sources: [
            { attribute: "SessionIDDataKey", producer: "a" },
            { attribute: "SessionIDDataKey", producer: "b" },
          ],
        },
      },
      "several session-id-producers; name only one",
    ],
    [{ encodedEndpointHeaderConfig: { header: "" } }, "must not be empty"],
  ])("both refuse %j", (parameters, message) => {
    for (const definition of [sessionAffinityFilter, sessionAffinityScorer])
      expect(definition.parameters.safeParse(parameters).error?.issues[0]?.message).toContain(message);
  });
});

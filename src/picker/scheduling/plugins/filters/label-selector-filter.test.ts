import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, keptBy } from "../../../../../test/support/scheduling/fakes.cases.ts";
import type { PluginDefinition } from "../../../../base/plugin/kinds.ts";
import { byLabelSelector, labelSelectorFilter } from "./label-selector-filter.ts";

const GOLD = { tier: "gold", zone: "a" };
const SILVER = { tier: "silver", zone: "b" };
const labelled = columnsOf([GOLD, SILVER, { zone: "a" }, {}].map((labels, slot) => endpointOf(slot, { labels })));
const kept = (parameters: object, definition: PluginDefinition<"filter"> = labelSelectorFilter) =>
  keptBy(definition, labelled, parameters);

describe.each([labelSelectorFilter, byLabelSelector])("$type (3.15)", (definition) => {
  it.each([
    ["an empty selector", {}, [0, 1, 2, 3]],
    ["no label asked for", { matchLabels: {}, matchExpressions: [] }, [0, 1, 2, 3]],
    ["one label", { matchLabels: { tier: "gold" } }, [0]],
    ["two labels", { matchLabels: { tier: "silver", zone: "a" } }, []],
    ["In", { matchExpressions: [{ key: "tier", operator: "In", values: ["gold", "silver"] }] }, [0, 1]],
    [
      "NotIn, which what is not there is",
      { matchExpressions: [{ key: "tier", operator: "NotIn", values: ["gold"] }] },
      [1, 2, 3],
    ],
    ["Exists", { matchExpressions: [{ key: "tier", operator: "Exists" }] }, [0, 1]],
    ["DoesNotExist", { matchExpressions: [{ key: "tier", operator: "DoesNotExist", values: [] }] }, [2, 3]],
    [
      "all of several",
      { matchLabels: { zone: "a" }, matchExpressions: [{ key: "tier", operator: "DoesNotExist" }] },
      [2],
    ],
    ["names that every object has", { matchExpressions: [{ key: "constructor", operator: "Exists" }] }, []],
    ["an empty value, which is a value", { matchLabels: { tier: "" } }, []],
  ])("takes %s", (_, parameters, expected) => {
    expect(kept(parameters, definition)).toEqual(expected);
  });

  it.each([
    [{ matchLabel: {} }, 'Unrecognized key: "matchLabel"'],
    [{ matchExpressions: [{ key: "a", operator: "in", values: ["b"] }] }, "Invalid option"],
    [{ matchExpressions: [{ key: "a", operator: "In" }] }, "must name at least one with In"],
    [{ matchExpressions: [{ key: "a", operator: "NotIn", values: [] }] }, "must name at least one with NotIn"],
    [{ matchExpressions: [{ key: "a", operator: "Exists", values: ["b"] }] }, "must be empty with the operator Exists"],
    [{ matchExpressions: [{ key: "", operator: "Exists" }] }, "must not be empty"],
    [{ matchLabels: { tier: 1 } }, "expected string"],
  ])("refuses %j", (parameters, message) => {
    const issues = definition.parameters.safeParse(parameters).error?.issues.map((issue) => issue.message);
    expect(issues?.join()).toContain(message);
  });
});

describe("label-selector-filter", () => {
  it("In and NotIn part the endpoints, as do Exists and DoesNotExist; matchLabels is In with one value", () => {
    const value = fc.constantFrom("gold", "silver", "a", "b", "");
    const key = fc.constantFrom("tier", "zone", "toString");
    fc.assert(
      fc.property(key, fc.array(value, { minLength: 1, maxLength: 3 }), (key, values) => {
        const by = (operator: string, given?: string[]) =>
          kept({ matchExpressions: [{ key, operator, values: given }] });
        expect([...by("In", values), ...by("NotIn", values)].sort()).toEqual([0, 1, 2, 3]);
        expect([...by("Exists"), ...by("DoesNotExist")].sort()).toEqual([0, 1, 2, 3]);
        expect(kept({ matchLabels: { [key]: values[0] } })).toEqual(by("In", [values[0]!]));
      }),
    );
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, keptBy, requestOf, scoresOf } from "../../../../test/support/scheduling/fakes.cases.ts";
import { HeaderList } from "../../../base/inference/headers.ts";
import type { PluginDefinition } from "../../../base/plugin/kinds.ts";
import {
  byLabel,
  byLabelSelector,
  decodeFilter,
  encodeFilter,
  headerLabelAffinityScorer,
  labelSelectorFilter,
  prefillFilter,
} from "./labels.ts";

describe("by-label (scheduling 3.15)", () => {
  const labelled = columnsOf(
    [{ role: "decode" }, { role: "prefill" }, {}].map((labels, slot) => endpointOf(slot, { labels })),
  );

  it.each([
    [{ label: "role", validValues: ["decode"] }, [0]],
    [{ label: "role", validValues: ["decode", "prefill"] }, [0, 1]],
    [{ label: "role", validValues: ["decode"], allowsNoLabel: true }, [0, 2]],
    [{ label: "role", allowsNoLabel: true }, [2]],
    [{ label: "role" }, []],
    [{ label: "constructor", allowsNoLabel: true }, [0, 1, 2]],
  ])("%j", (parameters, kept) => {
    expect(keptBy(byLabel, labelled, parameters)).toEqual(kept);
  });

  it("needs a label, and warns of settings that keep no endpoint", () => {
    for (const parameters of [{}, { label: "" }, { label: "role", values: ["x"] }])
      expect(byLabel.parameters.safeParse(parameters).success).toBe(false);
    const notes = (parameters: object) => byLabel.notes!(byLabel.parameters.parse(parameters));
    expect(notes({ label: "role" })).toEqual([expect.stringContaining("keeps no endpoint: in validValues, list")]);
    expect(notes({ label: "role", allowsNoLabel: true })).toEqual([]);
  });
});

describe("label-selector-filter", () => {
  const GOLD = { tier: "gold", zone: "a" };
  const SILVER = { tier: "silver", zone: "b" };
  const labelled = columnsOf([GOLD, SILVER, { zone: "a" }, {}].map((labels, slot) => endpointOf(slot, { labels })));
  const kept = (parameters: object, definition: PluginDefinition<"filter"> = labelSelectorFilter) =>
    keptBy(definition, labelled, parameters);

  describe.each([labelSelectorFilter, byLabelSelector])("$type (scheduling 3.15)", (definition) => {
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
      [
        { matchExpressions: [{ key: "a", operator: "Exists", values: ["b"] }] },
        "must be empty with the operator Exists",
      ],
      [{ matchExpressions: [{ key: "", operator: "Exists" }] }, "must not be empty"],
      [{ matchLabels: { tier: 1 } }, "expected string"],
    ])("refuses %j", (parameters, message) => {
      const issues = definition.parameters.safeParse(parameters).error?.issues.map((issue) => issue.message);
      expect(issues?.join()).toContain(message);
    });
  });

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

describe("role filters (scheduling 3.7.1, 3.15)", () => {
  const ROLES = ["encode", "prefill", "decode", "encode-prefill", "prefill-decode", "both", "encode-prefill-decode"];
  const labelled = [...ROLES, "Decode", "", "worker"].map((role) => ({ "llm-d.ai/role": role }));
  const ENDPOINTS = [...labelled, {}, { role: "decode" }].map((labels, slot) => endpointOf(slot, { labels }));

  /** The roles that a filter keeps; `none` for endpoints without the label. */
  function kept(filter: typeof decodeFilter): string[] {
    return keptBy(filter, columnsOf(ENDPOINTS)).map((slot) => ENDPOINTS[slot]!.labels["llm-d.ai/role"] ?? "none");
  }

  it("decode-filter keeps decoders, and those that say nothing", () => {
    expect(kept(decodeFilter)).toEqual(["decode", "prefill-decode", "both", "encode-prefill-decode", "none", "none"]);
  });

  it("prefill-filter keeps those that say so", () => {
    expect(kept(prefillFilter)).toEqual([
      "prefill",
      "encode-prefill",
      "prefill-decode",
      "both",
      "encode-prefill-decode",
    ]);
  });

  it("encode-filter keeps those that say so", () => {
    expect(kept(encodeFilter)).toEqual(["encode", "encode-prefill", "encode-prefill-decode"]);
  });

  it("take no parameters", () => {
    for (const { parameters } of [decodeFilter, prefillFilter, encodeFilter])
      expect(parameters.safeParse({ label: "role" }).success).toBe(false);
  });
});

const zones = ["eu", "us", undefined, ""];
const pool = columnsOf(zones.map((zone, slot) => endpointOf(slot, zone === undefined ? {} : { labels: { zone } })));
const PARAMETERS = { headerName: "X-Zone", labelKey: "zone" };
const scores = (...headers: readonly (readonly [string, string])[]) =>
  scoresOf(headerLabelAffinityScorer, pool, PARAMETERS, requestOf("p", { headers: HeaderList.of(headers) }));

describe("header-label-affinity-scorer (scheduling 3.9)", () => {
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

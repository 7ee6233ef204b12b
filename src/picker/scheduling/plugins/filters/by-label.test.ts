import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, keptBy } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { byLabel } from "./by-label.ts";

const labelled = columnsOf(
  [{ role: "decode" }, { role: "prefill" }, {}].map((labels, slot) => endpointOf(slot, { labels })),
);

describe("by-label (3.15)", () => {
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

  it("needs a label, and says so when it would keep nobody", () => {
    for (const parameters of [{}, { label: "" }, { label: "role", values: ["x"] }])
      expect(byLabel.parameters.safeParse(parameters).success).toBe(false);
    const notes = (parameters: object) => byLabel.notes!(byLabel.parameters.parse(parameters));
    expect(notes({ label: "role" })).toEqual([expect.stringContaining("keeps no endpoint at all")]);
    expect(notes({ label: "role", allowsNoLabel: true })).toEqual([]);
  });
});

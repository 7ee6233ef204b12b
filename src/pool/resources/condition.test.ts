import { describe, expect, it } from "vitest";
import { pendingCondition } from "../../../test/support/resources/made.cases.ts";
import { type Condition, type Finding, MAX_MESSAGE, setCondition } from "./condition.ts";

const T1 = Date.UTC(2026, 0, 31, 12, 0, 0, 900);
const T2 = Date.UTC(2026, 0, 31, 13);
const finding = (change: Partial<Finding> = {}): Finding => ({
  type: "Accepted",
  status: "True",
  reason: "Accepted",
  message: "",
  observedGeneration: 1,
  ...change,
});
const foreign = (count: number): Condition[] =>
  Array.from({ length: count }, (_, i) => pendingCondition(`Foreign${i}`));

describe("setCondition", () => {
  it("adds a condition with the time it is told, to the second", () => {
    expect(setCondition([], finding(), T1)).toEqual([{ ...finding(), lastTransitionTime: "2026-01-31T12:00:00Z" }]);
  });

  it("moves lastTransitionTime with the status and with nothing else (R-47)", () => {
    const first = setCondition([], finding(), T1)!;
    const second = setCondition(first, finding({ observedGeneration: 2, message: "m", reason: "Other" }), T2)!;
    expect(second).toEqual([
      {
        ...finding({ observedGeneration: 2, message: "m", reason: "Other" }),
        lastTransitionTime: "2026-01-31T12:00:00Z",
      },
    ]);
    expect(setCondition(second, finding({ status: "False" }), T2)![0]!.lastTransitionTime).toBe("2026-01-31T13:00:00Z");
  });

  it("hands back the same list when it already says so", () => {
    const list = setCondition(foreign(2), finding(), T1)!;
    expect(setCondition(list, finding(), T2)).toBe(list);
    expect(setCondition(list, finding({ observedGeneration: 2 }), T2)!.at(-1)!.observedGeneration).toBe(2);
  });

  it("keeps the others and their order", () => {
    const list = [...foreign(1), pendingCondition("Accepted"), pendingCondition("Other")];
    expect(setCondition(list, finding(), T1)!.map(({ type, status }) => `${type} ${status}`)).toEqual([
      "Foreign0 Unknown",
      "Accepted True",
      "Other Unknown",
    ]);
  });

  it("holds 8 conditions and still changes them, but takes no ninth", () => {
    const full = setCondition(foreign(7), finding(), T1)!;
    expect(full).toHaveLength(8);
    expect(setCondition(full, finding({ status: "False" }), T1)).toHaveLength(8);
    expect(setCondition(foreign(8), finding(), T1)).toBeUndefined();
  });

  it("cuts a message to what the API takes, in code points, and is stable about it", () => {
    const longest = "\u{1F600}".repeat(MAX_MESSAGE);
    expect(setCondition([], finding({ message: longest }), T1)![0]!.message).toBe(longest);
    const list = setCondition([], finding({ message: "x".repeat(MAX_MESSAGE + 1) }), T1)!;
    expect(list[0]!.message).toBe(`${"x".repeat(MAX_MESSAGE - 3)}...`);
    expect(setCondition(list, finding({ message: "x".repeat(MAX_MESSAGE + 1) }), T2)).toBe(list);
  });
});

import { describe, expect, it } from "vitest";
import { madeModel, pendingCondition } from "../../../test/support/resources/made.cases.ts";
import { type Condition, type ConditionUpdate, MAX_MESSAGE, modelConditions, setCondition } from "./model-status.ts";
import { codePoints } from "./scalars.ts";

const NOW = Date.UTC(2026, 0, 31, 12);
const model = madeModel("late", "food", { meta: { generation: 4 } });
const gist = (conditions: readonly Condition[]) =>
  conditions.map(({ type, status, reason }) => `${type}=${status}/${reason}`);
const owner = (name: string, creationTimestamp: number) =>
  madeModel(name, "food", { meta: { creationTimestamp } }).meta;
const winner = owner("early", Date.UTC(2025, 11, 24, 18));

describe("modelConditions (R-19)", () => {
  it("says of the winner that it is in force, under both names (X-3)", () => {
    const conditions = modelConditions(model, [], undefined, NOW);
    expect(gist(conditions)).toEqual(["Accepted=True/Accepted", "Ready=True/Accepted"]);
    expect(conditions[0]).toMatchObject({
      message: 'serves the model name "food" of InferencePool pool',
      observedGeneration: 4,
      lastTransitionTime: "2026-01-31T12:00:00Z",
    });
  });

  it("tells the loser who won and since when", () => {
    const conditions = modelConditions(model, [], winner, NOW);
    expect(gist(conditions)).toEqual(["Accepted=False/ModelNameInUse", "Ready=False/ModelNameInUse"]);
    expect(conditions[0]!.message).toBe(
      'the model name "food" of InferencePool pool belongs to InferenceModel default/early, created 2025-12-24T18:00:00Z',
    );
    expect(modelConditions(model, [], owner("file", 0), NOW)[1]!.message).toMatch(
      /belongs to InferenceModel default\/file$/,
    );
  });

  it("is idempotent, and flips both when the winner goes", () => {
    const lost = modelConditions(model, [], winner, NOW);
    expect(modelConditions(model, lost, winner, NOW + 5000)).toBe(lost);
    const promoted = modelConditions(model, lost, undefined, NOW + 5000);
    expect(gist(promoted)).toEqual(["Accepted=True/Accepted", "Ready=True/Accepted"]);
    expect(promoted.map(({ lastTransitionTime }) => lastTransitionTime)).toEqual(Array(2).fill("2026-01-31T12:00:05Z"));
  });

  it("keeps foreign conditions, replaces the one that waits, and stays within 8", () => {
    const foreign = Array.from({ length: 7 }, (_, i) => pendingCondition(`Foreign${i}`));
    expect(gist(modelConditions(model, [foreign[0]!, pendingCondition("Ready")], undefined, NOW))).toEqual([
      "Foreign0=Unknown/Pending",
      "Ready=True/Accepted",
      "Accepted=True/Accepted",
    ]);
    const crowded = modelConditions(model, foreign, winner, NOW);
    expect(crowded).toHaveLength(8);
    expect(crowded.slice(0, 7)).toEqual(foreign);
    expect(crowded[7]!.type).toBe("Accepted");
    const full = [...foreign, pendingCondition("Foreign7")];
    expect(modelConditions(model, full, winner, NOW)).toBe(full);
  });

  it("writes a message that the API accepts, whatever the model is called", () => {
    const strange = { ...model, modelName: '\u0000\u{1F600}"'.repeat(80_000) };
    for (const { message } of modelConditions(strange, [], winner, NOW))
      expect(codePoints(message)).toBeLessThanOrEqual(MAX_MESSAGE);
  });
});

const T1 = Date.UTC(2026, 0, 31, 12, 0, 0, 900);
const T2 = Date.UTC(2026, 0, 31, 13);
const finding = (change: Partial<ConditionUpdate> = {}): ConditionUpdate => ({
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

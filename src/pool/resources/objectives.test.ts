import { describe, expect, it } from "vitest";
import type { SluiceError } from "../../base/inference/errors.ts";
import { ObjectiveTable, objectivesFromFlags, parseObjective } from "./objectives.ts";

const codeOf = (run: () => unknown): string => {
  try {
    run();
  } catch (error) {
    return (error as SluiceError).code;
  }
  return "";
};

describe("ObjectiveTable", () => {
  it("answers 0 for names nobody defined", () => {
    const table = new ObjectiveTable();
    table.add("batch", -5);
    expect([table.lookup("batch"), table.lookup("other"), table.lookup("__proto__")]).toEqual([-5, 0, 0]);
  });

  it("holds 1,000 names, still replaces known ones, and refuses the next", () => {
    const table = new ObjectiveTable();
    for (let i = 0; i < 1000; i++) table.add(`o${i}`, i);
    table.add("o7", 70);
    expect(table.lookup("o7")).toBe(70);
    expect(() => table.add("another", 1)).toThrow("objective another is over the limit of 1000 objectives");
  });
});

describe("--objective flags", () => {
  it.each([
    ["a=1", "a", 1],
    ["batch=-10", "batch", -10],
    [" x.y-z=+3 ", "x.y-z", 3],
    ["zero=-0", "zero", 0],
  ])("reads %j", (text, name, priority) => {
    expect(parseObjective(text)).toEqual({ name, priority });
  });

  it.each(["", "a", "a=", "=1", "a=1.5", "a=high", "a b=1", "a=b=1", `${"n".repeat(254)}=1`, "a=9999999999999999"])(
    "refuses %j and shows what to write",
    (text) => {
      expect(() => parseObjective(text)).toThrow(/is not NAME=PRIORITY with a whole number; write for example/);
    },
  );

  it("makes a table, tolerates repetition and refuses contradiction", () => {
    expect(objectivesFromFlags(["a=1", "b=-1", "a=1"]).lookup("b")).toBe(-1);
    expect(() => objectivesFromFlags(["a=1", "a=2"])).toThrow("--objective gives a both priority 1 and 2; keep one");
    expect(codeOf(() => objectivesFromFlags(Array.from({ length: 1001 }, (_, i) => `o${i}=1`)))).toBe("RESOURCE_LIMIT");
  });
});

import { describe, expect, it } from "vitest";
import { requestChoices } from "./queue-flags.ts";

const FLAGS = { deadline: "1h", metadata: [], header: [], label: [] };
const deadlineAt = (text: string) => requestChoices({ ...FLAGS, deadlineAt: text }).deadline;

describe("requestChoices", () => {
  it("reads deadlines as durations and as moments", () => {
    expect(requestChoices(FLAGS).deadline).toEqual({ kind: "in", ms: 3_600_000 });
    for (const [text, seconds] of [
      ["1900000000", 1_900_000_000],
      ["2030-01-31T18:00:00Z", 1_896_112_800],
      ["2030-01-31T19:00+01:00", 1_896_112_800],
    ] as const)
      expect(deadlineAt(text), text).toEqual({ kind: "at", seconds, text });
  });

  it("refuses moments that are none, or that depend on the machine", () => {
    for (const text of ["tomorrow", "2030-01-31", "2030-01-31T18:00:00", "2030-13-31T18:00:00Z", "-5", ""])
      expect(() => deadlineAt(text), text).toThrow(/give a time: Unix seconds or 2030-/);
    expect(() => deadlineAt("1900000000000")).toThrow("in seconds, not milliseconds");
    for (const deadline of ["1", "0s", "-1h", "soon"])
      expect(() => requestChoices({ ...FLAGS, deadline }), deadline).toThrow(
        /--deadline is ".*"; give a duration such as/,
      );
  });

  it("reads names and values; a value may hold anything", () => {
    expect(requestChoices({ ...FLAGS, label: ["tier=gold", "x=a=b", "empty="] }).labels).toEqual({
      ...{ tier: "gold", x: "a=b", empty: "" },
    });
    for (const text of ["tier", "=gold", ""])
      expect(() => requestChoices({ ...FLAGS, metadata: [text] })).toThrow("give a name and a value, NAME=VALUE");
  });
});

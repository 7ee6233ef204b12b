import { describe, expect, it } from "vitest";
import { holds, line, type Start, secondsOf, secondsOfThreads } from "./figures.ts";

const starts = (...cpus: readonly number[]): Start[] =>
  cpus.map((cpu) => ({ cpu, idle: 1000 * cpu, peak: 2000 * cpu }));
const BARE = starts(0.03, 0.05, 0.04);

describe("figures of starts", () => {
  it("adds user and system time, whatever the program wrote before", () => {
    expect(secondsOf("a warning\n0.120 0.034\n")).toBeCloseTo(0.154);
    expect(() => secondsOf("0.1\n")).toThrow("not the times");
  });

  it("adds the threads", () => {
    expect(secondsOfThreads(["250000000 13 4\n", "750000000 1 2\n", ""])).toBe(1);
  });

  it("compares medians with those of bare Node", () => {
    expect(holds(starts(0.08, 9, 0.01), BARE, { cpu: 2, idle: 2 })).toBe(true);
    expect(holds(starts(0.08, 9, 0.01), BARE, { cpu: 1.9 })).toBe(false);
    expect(holds(starts(0.08, 9, 0.01), BARE, { idle: 1.9 })).toBe(false);
  });

  it("leaves memory out for a program that ends", () => {
    expect(holds([{ cpu: 0.08 }], BARE, { cpu: 2, idle: 0.1 })).toBe(true);
    expect(line("--version", "dist", [{ cpu: 0.08 }], BARE)).toBe(
      "--version  dist            0.080 (0.080-0.080)       2.00",
    );
  });

  it("has a column for each figure, and says what a limit is", () => {
    expect(line("epp", "dist", starts(0.8, 0.4, 1.2), BARE, { cpu: 20, idle: 19 })).toBe(
      "epp        dist            0.800 (0.400-1.200)      20.00        800   20.00       1600   FAILS: at most 20 x its CPU, 19 x its memory",
    );
  });
});

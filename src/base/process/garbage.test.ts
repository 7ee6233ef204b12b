import { describe, expect, it } from "vitest";
import { stopsGrowth } from "./garbage.ts";

const MIB = 1 << 20;

describe("the young generation of a picker", () => {
  it("stops growing at 12 MiB", () => {
    expect([8, 11.9, 12, 16].map((mib) => stopsGrowth(mib * MIB, []))).toEqual([false, false, true, true]);
  });

  it.each([
    "--max-semi-space-size=32",
    "--max_semi_space_size=32",
    "--no-warnings --min-semi-space-size=16",
    "--semi-space-growth-factor=3",
  ])("is left to an operator who starts Node.js with %s", (options) => {
    expect(stopsGrowth(16 * MIB, ["--max-old-space-size-percentage=60", options])).toBe(false);
  });
});

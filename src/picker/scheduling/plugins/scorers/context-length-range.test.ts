import { describe, expect, it } from "vitest";
import { endpointOf } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { ContextLengthRanges } from "./context-length-range.ts";

const labelled = (value: string) => endpointOf(0, { labels: { range: value } });

describe("ContextLengthRanges", () => {
  it("S-39: reads `min-max`, tells no label from one that is no range", () => {
    const ranges = new ContextLengthRanges("range");
    expect(ranges.of(labelled("10-20"))).toEqual({ min: 10, max: 20 });
    expect(ranges.of(labelled("20-10"))).toBeNull();
    expect(ranges.of(endpointOf(0))).toBeUndefined();
  });

  it("keeps at most 256 values, and reads the same ones again afterwards", () => {
    const ranges = new ContextLengthRanges("range");
    for (let max = 0; max < 1000; max++) {
      ranges.of(labelled(`0-${max}`));
      expect(ranges.size).toBeLessThanOrEqual(256);
    }
    expect(ranges.of(labelled("0-1"))).toEqual({ min: 0, max: 1 });
  });
});

import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, scoresOf } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { PREFIX_BLOCK_TOKENS, PREFIX_MATCHED_BLOCKS, PREFIX_TOTAL_BLOCKS } from "../../../../base/plugin/keys.ts";
import { prefixCacheScorer } from "./prefix-cache-scorer.ts";

const matches = (matched: number[], total: number, blockTokens = 64) =>
  columnsOf(
    matched.map((_, slot) => endpointOf(slot)),
    [
      [PREFIX_MATCHED_BLOCKS, matched],
      [PREFIX_TOTAL_BLOCKS, matched.map(() => total)],
      [PREFIX_BLOCK_TOKENS, matched.map(() => blockTokens)],
    ],
  );

describe("prefix-cache-scorer", () => {
  it("scores the matched share of the blocks; an empty prompt scores 0", () => {
    expect(scoresOf(prefixCacheScorer, matches([0, 4, 16], 16))).toEqual([0, 0.25, 1]);
    expect(scoresOf(prefixCacheScorer, matches([0, 0], 0))).toEqual([0, 0]);
  });

  it("S-58: matchLengthWeight 0.5, scale 1024, 8 of 16 blocks of 64 scores 0.375", () => {
    const parameters = { matchLengthWeight: 0.5, matchLengthScaleTokens: 1024 };
    expect(scoresOf(prefixCacheScorer, matches([8], 16), parameters)).toEqual([0.375]);
    expect(scoresOf(prefixCacheScorer, matches([100], 100), parameters)).toEqual([1]);
  });

  it.each([
    { matchLengthWeight: 1.1 },
    { matchLengthWeight: -1 },
    { matchLengthScaleTokens: 0 },
    { hashBlockSize: 64 },
  ])("refuses %j", (parameters) => {
    expect(prefixCacheScorer.parameters.safeParse(parameters).success).toBe(false);
  });
});

import { describe, expect, it } from "vitest";
import {
  columnsOf,
  decisionContextOf,
  endpointOf,
  instanceOf,
  keptBy,
  scoresOf,
} from "../../../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../../../base/clock/random.ts";
import {
  IN_FLIGHT_TOKENS,
  PREFIX_BLOCK_TOKENS,
  PREFIX_MATCHED_BLOCKS,
  PREFIX_TOTAL_BLOCKS,
} from "../../../../base/plugin/keys.ts";
import { prefixCacheAffinityFilter, prefixCacheScorer } from "./prefix-cache-affinity.ts";

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

/** Candidates that hold `matched` of ten blocks, or of `total`, and have `tokens` in flight. */
const pool = (matched: readonly number[], tokens: readonly number[] = [], total = 10) =>
  columnsOf(
    matched.map((_, slot) => endpointOf(slot)),
    [
      [PREFIX_MATCHED_BLOCKS, matched],
      [PREFIX_TOTAL_BLOCKS, matched.map(() => total)],
      [IN_FLIGHT_TOKENS, matched.map((_, i) => tokens[i] ?? 0)],
    ],
  );

const kept = (candidates: ReturnType<typeof pool>, parameters: object = {}) =>
  keptBy(prefixCacheAffinityFilter, candidates, parameters);

describe("prefix-cache-affinity-filter (scheduling 3.13)", () => {
  it("keeps those that hold at least the share of the prompt that it is told, 0.8 by default", () => {
    expect(kept(pool([8, 7, 10, 0]))).toEqual([0, 2]);
    expect(kept(pool([8, 7, 10, 0]), { affinityThreshold: 0.7 })).toEqual([0, 1, 2]);
    expect(kept(pool([8, 7, 10, 0]), { affinityThreshold: 1 })).toEqual([2]);
  });

  it("keeps all if no endpoint holds the prompt, without a prompt, with one candidate, and with threshold 0", () => {
    expect(kept(pool([7, 7, 0]))).toEqual([0, 1, 2]);
    expect(kept(pool([0, 0], [], 0))).toEqual([0, 1]);
    expect(kept(pool([10, 10]))).toEqual([0, 1]);
    expect(kept(pool([0]))).toEqual([0]);
    expect(kept(pool([10, 0]), { affinityThreshold: 0 })).toEqual([0, 1]);
  });

  it("lets go once the best endpoint with the prompt would answer later than the best other one, by more than allowed", () => {
    // 18 s at 15,928 tokens a second are 286,704 tokens.
    expect(kept(pool([10, 0], [286_704, 0]))).toEqual([0]);
    expect(kept(pool([10, 0], [286_705, 0]))).toEqual([0, 1]);
    expect(kept(pool([10, 0], [286_805, 100]))).toEqual([0, 1]);
    expect(kept(pool([10, 0, 0], [286_755, 900_000, 100]))).toEqual([0]);
    expect(kept(pool([10, 10, 0, 0], [900_000, 5, 0, 400_000]))).toEqual([0, 1]);
  });

  it("goes by the penalty and the throughput that it is told; penalty 0 sticks at any price", () => {
    const busy = pool([10, 0], [5001, 0]);
    expect(kept(busy, { maxTTFTPenaltyMs: 5000, peakPrefillThroughput: 1000 })).toEqual([0, 1]);
    expect(kept(busy, { maxTTFTPenaltyMs: 5002, peakPrefillThroughput: 1000 })).toEqual([0]);
    expect(kept(pool([10, 0], [1e15, 0]), { maxTTFTPenaltyMs: 0, peakPrefillThroughput: 0 })).toEqual([0]);
  });

  it("keeps all with the probability of an exploration, and draws nothing without one", () => {
    const filter = instanceOf(prefixCacheAffinityFilter, { explorationProbability: 0.25 });
    const random = new SeededRandom(3);
    const candidates = pool([10, 0]);
    let all = 0;
    for (let i = 0; i < 20_000; i++) {
      const keep = new Uint8Array(candidates.room).fill(1, 0, 2);
      filter.filter({ ...decisionContextOf(candidates), keep, random });
      all += keep[1]!;
    }
    // Three standard deviations are 0.92 %.
    expect(Math.abs(all / 20_000 - 0.25)).toBeLessThan(0.0092);
    const unused = new SeededRandom(3);
    const { state } = unused;
    keptBy(prefixCacheAffinityFilter, candidates, {}, undefined, unused);
    expect(unused.state).toBe(state);
  });

  it.each([
    [{ ttftSource: "latencyPredictor" }, "latencyPredictor is not supported yet: needs the latency predictor"],
    [{ ttftSource: "guess" }, "prefillThroughput"],
    [{ affinityThreshold: 1.1 }, "<=1"],
    [{ explorationProbability: -0.1 }, ">=0"],
    [{ maxTTFTPenaltyMs: -1 }, ">=0"],
    [{ peakPrefillThroughput: 0 }, "must be greater than 0 unless maxTTFTPenaltyMs is 0"],
    [{ threshold: 0.8 }, "threshold"],
  ])("refuses %j", (parameters, message) => {
    const { error } = prefixCacheAffinityFilter.parameters.safeParse(parameters);
    expect(error?.issues.map((issue) => issue.message).join()).toContain(message);
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, scoresOf } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { IN_FLIGHT_TOKENS, UNCACHED_TOKENS } from "../../../../base/plugin/keys.ts";
import { tokenLoadScorer } from "./token-load-scorer.ts";

const tokens = (inFlight: number[], uncached: number[]) =>
  columnsOf(
    inFlight.map((_, slot) => endpointOf(slot)),
    [
      [IN_FLIGHT_TOKENS, inFlight],
      [UNCACHED_TOKENS, uncached],
    ],
  );

describe("token-load-scorer", () => {
  it("S-38: 2097152 of 4194304 scores 0.5; nothing scores 1, the threshold and more 0", () => {
    expect(scoresOf(tokenLoadScorer, tokens([2_097_152, 0, 4_194_304, 9e9], [0, 0, 0, 0]))).toEqual([0.5, 1, 0, 0]);
    expect(scoresOf(tokenLoadScorer, tokens([0], [0]))).toEqual([1]);
  });

  it("counts what the request adds: of two equally busy endpoints the one that holds the prompt scores more", () => {
    const settings = { queueThresholdTokens: 1000 };
    expect(scoresOf(tokenLoadScorer, tokens([300, 300], [200, 0]), settings)).toEqual([0.5, 0.7]);
  });

  it("S-38: a threshold of 0 or less counts as the default", () => {
    for (const queueThresholdTokens of [0, -1])
      expect(scoresOf(tokenLoadScorer, tokens([1_048_576], [1_048_576]), { queueThresholdTokens })).toEqual([0.5]);
  });

  it("only the sum counts, and more is never better", () => {
    const amount = fc.integer({ min: 0, max: 2_000_000 });
    fc.assert(
      fc.property(amount, amount, amount, (a, b, more) => {
        const [one, other, busier] = scoresOf(tokenLoadScorer, tokens([a, b, a + more], [b, a, b]));
        expect(one).toBe(other);
        expect(busier).toBeLessThanOrEqual(one!);
        expect(busier).toBeGreaterThanOrEqual(0);
      }),
    );
  });
});

import { describe, expect, it } from "vitest";
import {
  columnsOf,
  endpointOf,
  requestOf,
  scoresOf,
  unscraped,
} from "../../../../test/support/scheduling/fakes.cases.ts";
import { loraAffinityScorer } from "./lora-affinity-scorer.ts";

const adapters = (running: string[], waiting: string[], maxLora: number, scrapedAt = 0) => ({
  metrics: { loraRunning: new Set(running), loraWaiting: new Set(waiting), maxLora, scrapedAt },
});
const request = requestOf("prompt", { model: "alias", targetModel: "mine" });
const score = (...pool: ReturnType<typeof endpointOf>[]) => scoresOf(loraAffinityScorer, columnsOf(pool), {}, request);

describe("lora-affinity-scorer", () => {
  it("S-35: active 1, room 0.8, waiting and full 0.6, other 0; waiting with room 0.8", () => {
    expect(
      score(
        endpointOf(0, adapters(["mine", "b"], [], 2)),
        endpointOf(1, adapters(["b"], [], 2)),
        endpointOf(2, adapters(["b"], ["mine"], 2)),
        endpointOf(3, adapters(["b", "c"], [], 2)),
        endpointOf(4, adapters(["b"], ["mine"], 3)),
      ),
    ).toEqual([1, 0.8, 0.6, 0, 0.8]);
  });

  it("scores 0 everywhere for a pool without adapters", () => {
    expect(score(endpointOf(0), endpointOf(1, adapters([], [], 0)))).toEqual([0, 0]);
  });

  it("gives endpoints with stale metrics the worst score of the others", () => {
    expect(
      score(
        endpointOf(0, adapters(["mine"], [], 2, -10_000)),
        endpointOf(1, adapters(["b"], [], 2)),
        endpointOf(2, adapters(["mine"], [], 2)),
        unscraped(3),
      ),
    ).toEqual([0.8, 0.8, 1, 0.8]);
    expect(score(endpointOf(0, adapters(["mine"], [], 2, -10_000)), unscraped(1))).toEqual([0, 0]);
  });
});

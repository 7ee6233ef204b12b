import { describe, expect, it } from "vitest";
import { mean, playNamed, quantile } from "../../../../test/support/simulator/workloads/workloads.cases.ts";

describe("the bursts workload", () => {
  it("sends 800 requests at once every 15 seconds, and none between", () => {
    const sent = playNamed("bursts", { rate: 800 });
    expect(sent).toHaveLength(3 * 800);
    for (const from of [0, 15_000, 30_000])
      expect(sent.filter(({ at }) => at >= from && at <= from + 250)).toHaveLength(800);
  });

  it("scales its waves with the rate, down to one request, and ends in time", () => {
    expect(playNamed("bursts", { rate: 50 })).toHaveLength(150);
    expect(playNamed("bursts", { rate: 0.1 })).toHaveLength(3);
    const cut = playNamed("bursts", { rate: 100, durationMs: 15_100 });
    expect(cut).toHaveLength(200);
    expect(cut.at(-1)!.at).toBeLessThanOrEqual(15_100);
  });

  it("has little in common and lengths from short to long", () => {
    const tokens = playNamed("bursts", { rate: 800 }).map(({ request }) => request.prompt.length / 4);
    expect(Math.abs(mean(tokens) / 564 - 1)).toBeLessThan(0.06);
    expect(quantile(tokens, 0.1)).toBeLessThan(200);
    expect(quantile(tokens, 0.9)).toBeGreaterThan(1000);
  });
});

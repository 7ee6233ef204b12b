import { describe, expect, it } from "vitest";
import { quantile } from "../../base/telemetry/quantile.ts";
import { PolicyFigures } from "./policy-figures.ts";
import { makeWorkload, PREFIX_TOKENS, PREFIXES } from "./traffic.ts";

describe("PolicyFigures", () => {
  it("counts failed and interrupted requests apart, and takes quantiles of requests with a first token", () => {
    const half = new PolicyFigures("x");
    for (let i = 1; i <= 10; i++) half.add({ kind: "completed", ttftMs: i * 10, outputTokens: 5, detail: "" });
    half.add({ kind: "failed", ttftMs: Number.NaN, outputTokens: 0, detail: "503 gone" });
    half.add({ kind: "interrupted", ttftMs: 5, outputTokens: 2, detail: "" });
    expect(half.summary(2, 0.51234, { p90: 3, max: 90 })).toEqual({
      name: "x",
      requests: 12,
      failed: 1,
      interrupted: 1,
      ttftMs: { p50: 50, p90: 90 },
      outputTokensPerSecond: 26,
      cacheHitRate: 0.512,
      lagMs: { p90: 3, max: 90 },
      tooBusy: false,
    });
    expect(half.problems).toEqual(["503 gone"]);
  });

  it("has a quantile for nothing and for one", () => {
    expect(quantile([], 0.9)).toBe(0);
    expect(quantile([7], 0.5)).toBe(7);
  });
});

describe("makeWorkload", () => {
  it("gives the same list for the same seed, and another for another", () => {
    const options = { seed: 1, durationMs: 5000, ratePerSecond: 10 };
    expect(makeWorkload(options)).toEqual(makeWorkload(options));
    expect(makeWorkload(options)).not.toEqual(makeWorkload({ ...options, seed: 2 }));
  });

  it("shares twelve prefixes of 2,048 words and stays within its time", () => {
    const list = makeWorkload({ seed: 3, durationMs: 60_000, ratePerSecond: 20 });
    expect(list.length).toBeGreaterThan(1000);
    expect(new Set(list.map((request) => request.system)).size).toBe(PREFIXES);
    expect(list[0]!.system.split(" ")).toHaveLength(PREFIX_TOKENS);
    expect(list.every((request, i) => request.at < 60_000 && (i === 0 || request.at >= list[i - 1]!.at))).toBe(true);
  });
});

import { describe, expect, it } from "vitest";
import { BatchProgress, grouped, timeText } from "./batch-progress.ts";

describe("BatchProgress", () => {
  it("tells share, errors, rate and the time that is left", () => {
    const figures = { total: 10_000, done: 0, failed: 0, underWay: 0 };
    const progress = new BatchProgress(figures);
    expect(progress.line(100)).toBe("0/10,000 (0 %), 0.0/s, 0 under way, ETA unknown");
    Object.assign(figures, { done: 1234, failed: 1, underWay: 1000 });
    expect(progress.line(110)).toBe("1,234/10,000 (12.3 %), 1 error, 123/s, 1,000 under way, ETA 1m 11s");
    Object.assign(figures, { done: 10_000, failed: 12, underWay: 0 });
    expect(progress.line(120)).toBe("10,000/10,000 (100 %), 12 errors, 500/s, 0 under way");
  });

  it("rounds the share down: all means all", () => {
    expect(new BatchProgress({ total: 3000, done: 2999, failed: 0, underWay: 1 }).line(0)).toContain("(99.9 %)");
    expect(new BatchProgress({ total: 0, done: 0, failed: 0, underWay: 0 }).line(0)).toContain("0/0 (100 %)");
  });

  it("counts the rate of this run and of the last minute only", () => {
    const figures = { total: 100_000, done: 50_000, failed: 0, underWay: 0 };
    const progress = new BatchProgress(figures);
    progress.line(0);
    for (let second = 1; second <= 600; second++) {
      figures.done += second <= 500 ? 50 : 1;
      progress.line(second);
    }
    expect(progress.line(600)).toContain(", 1.0/s,");
  });
});

describe("texts for people", () => {
  it("write times and counts", () => {
    expect([0, 59.4, 60, 3599, 3600, 86_399, 90_000, 1e6].map(timeText)).toEqual([
      ...["0s", "59s", "1m 0s", "59m 59s", "1h 0m", "23h 59m", "1d 1h", "11d 13h"],
    ]);
    expect([0, 999, 1000, 1_234_567].map(grouped)).toEqual(["0", "999", "1,000", "1,234,567"]);
  });
});

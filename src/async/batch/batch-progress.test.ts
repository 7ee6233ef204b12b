import { describe, expect, it } from "vitest";
import { grouped } from "../../base/document/words.ts";
import { BatchProgress, BatchWatch, durationText } from "./batch-progress.ts";

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
    expect([0, 59.4, 60, 3599, 3600, 86_399, 90_000, 1e6].map(durationText)).toEqual([
      ...["0s", "59s", "1m 0s", "59m 59s", "1h 0m", "23h 59m", "1d 1h", "11d 13h"],
    ]);
    expect([0, 999, 1000, 1_234_567].map((count) => grouped(count))).toEqual(["0", "999", "1,000", "1,234,567"]);
  });
});

describe("BatchWatch", () => {
  const backlog = { waiting: 0, claimed: 0, retries: 0, dead: 0, nextDeadline: Number.NaN };

  function watch() {
    const said: string[] = [];
    const figures = { ...backlog };
    const made = new BatchWatch(
      "q",
      async () => figures,
      (text) => said.push(text),
      0,
    );
    return { watch: made, figures, said };
  }

  it("says after some seconds that nobody takes anything, once a minute", async () => {
    const { watch: watched, figures, said } = watch();
    figures.waiting = 10;
    for (let now = 0; now <= 60; now++) await watched.look(now, 10);
    expect(said).toEqual([
      'no request has left queue "q" in the last 5s: does a dispatcher (sluice dispatch) serve this queue, and is its gate open (/debug/gates)?',
    ]);
    for (let now = 61; now <= 66; now++) await watched.look(now, 10);
    expect(said).toHaveLength(2);
  });

  it("is quiet while answers come, and while a dispatcher is at work", async () => {
    const { watch: watched, figures, said } = watch();
    figures.waiting = 10;
    for (let now = 0; now <= 100; now += 4) {
      await watched.look(now, 10);
      watched.progress(now);
    }
    figures.claimed = 2;
    for (let now = 101; now <= 200; now++) await watched.look(now, 10);
    expect(said).toEqual([]);
    for (let now = 201; now <= 230; now++) await watched.look(now, 10);
    expect(said).toEqual([
      expect.stringMatching(/^no answer in the last 2m [0-9]s: 2 requests of queue "q" are at a dispatcher/),
    ]);
  });

  it("tells retries and lost requests from those; what is not known is no reason", async () => {
    for (const [over, wanted] of [
      [{ retries: 7 }, /7 requests wait for a retry; does the gateway answer\?/],
      [{}, /^3 requests left their queue without a result/],
      [{ waiting: Number.NaN, claimed: Number.NaN, retries: Number.NaN }, undefined],
    ] as const) {
      const { watch: watched, figures, said } = watch();
      Object.assign(figures, over);
      await watched.look(6, 3);
      expect(said).toEqual(wanted === undefined ? [] : [expect.stringMatching(wanted)]);
    }
  });
});

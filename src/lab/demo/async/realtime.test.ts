import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { InFlightCourse } from "./backlog.ts";
import { RealtimeFigures, realtimeList, WAVE } from "./realtime.ts";

const OPTIONS = { seed: 1, lengthMs: 20_000, slots: 48 };

describe("realtimeList", () => {
  it("gives the same list for the same seed, with a wave in the middle", () => {
    const list = realtimeList(OPTIONS);
    expect(list).toEqual(realtimeList(OPTIONS));
    expect(list).not.toEqual(realtimeList({ ...OPTIONS, seed: 2 }));
    const within = (from: number, to: number): number =>
      list.filter(({ at }) => at >= from * 20_000 && at < to * 20_000).length / (to - from);
    expect(within(WAVE.from, WAVE.to)).toBeGreaterThan(2 * within(0, WAVE.from));
    expect(within(WAVE.from, WAVE.to)).toBeGreaterThan(2 * within(WAVE.to, 0.95));
    expect(list.at(-1)!.at).toBeLessThan(19_300);
  });
});

describe("RealtimeFigures", () => {
  it("has the p99 of what ended lately and of all", () => {
    const clock = new VirtualClock();
    const figures = new RealtimeFigures(clock);
    const end = (ttftMs: number): void => figures.ended({ kind: "completed", ttftMs, outputTokens: 20, detail: "" });
    for (let i = 0; i < 7; i++) figures.sent();
    end(900);
    clock.advance(3001);
    expect(figures.latelyP99).toBeUndefined();
    for (const ms of [30, 50, 40]) end(ms);
    figures.ended({ kind: "failed", ttftMs: Number.NaN, outputTokens: 0, detail: "503 gone" });
    figures.ended({ kind: "interrupted", ttftMs: 20, outputTokens: 2, detail: "" });
    expect(figures.latelyP99).toBe(50);
    expect(figures.inFlight).toBe(1);
    expect(figures.problems).toEqual(["503 gone"]);
    expect(figures.summary()).toEqual({ requests: 6, failed: 1, interrupted: 1, ttftMs: { p50: 40, p99: 900 } });
  });
});

describe("InFlightCourse", () => {
  it("takes the mean before, in and after the wave, and leaves the turns out", () => {
    const course = new InFlightCourse();
    for (let share = 0; share < 1; share += 0.01) {
      const inWave = share >= WAVE.from + 0.1 && share < WAVE.to;
      course.add(share, inWave ? 3 : share < WAVE.from || share > WAVE.to + 0.2 ? 21 : 50);
    }
    expect(course.summary()).toEqual({ before: 21, during: 3, after: 21, least: 3 });
  });
});

import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { progressText, SimulateProgress, timeText } from "./progress.ts";
import type { StudyProgress } from "./study.ts";

const now = (share: number): StudyProgress => ({
  ...{ done: Math.floor(share * 10), total: 10, running: "b2b-saas at 40, default, seed 2" },
  ...{ share, requestsPerSecond: 8200.4 },
});

/** What is written when the study tells how far it is every 20 ms for so long. */
function written(terminal: boolean, ms: number): string[] {
  const clock = new VirtualClock();
  const texts: string[] = [];
  const out = { isTTY: terminal, columns: 60, write: (text: string) => texts.push(text) };
  const progress = new SimulateProgress(out, clock);
  for (let at = 0; at < ms; at += 20) {
    progress.show(now(at / ms));
    clock.advance(20);
  }
  progress.end();
  return texts;
}

describe("SimulateProgress", () => {
  it("rewrites one line of a terminal at most ten times a second, from the first word on, and takes it off", () => {
    const texts = written(true, 1000);
    expect(texts).toHaveLength(11);
    expect(texts[0]).toBe("\r\u001b[2K0 %, run 1 of 10, 8,200 requests/s: b2b-saas at 40, default");
    expect(texts.slice(0, -1).every((text) => text.startsWith("\r\u001b[2K") && !text.includes("\n"))).toBe(true);
    expect(texts.at(-1)).toBe("\r\u001b[2K");
  });

  it("writes a line every five seconds elsewhere, and none for what is over sooner", () => {
    expect(written(false, 5000)).toEqual([]);
    expect(written(false, 20_000)).toEqual([
      "25 %, run 3 of 10, 8,200 requests/s, about 15 s left: b2b-saas at 40, default, seed 2\n",
      "50 %, run 6 of 10, 8,200 requests/s, about 10 s left: b2b-saas at 40, default, seed 2\n",
      "75 %, run 8 of 10, 8,200 requests/s, about 5 s left: b2b-saas at 40, default, seed 2\n",
    ]);
  });
});

it("counts what is read of recordings, as seldom", () => {
  const clock = new VirtualClock();
  const texts: string[] = [];
  const progress = new SimulateProgress({ write: (text) => texts.push(text) }, clock);
  for (let items = 1000; items <= 12_000; items += 1000) {
    clock.advance(1000);
    progress.showRead(items);
  }
  expect(texts).toEqual(["read 5,000 entries\n", "read 10,000 entries\n"]);
});

describe("progressText", () => {
  it("promises nothing before it can know, and says nothing of a speed that there is not", () => {
    expect(progressText({ ...now(0), requestsPerSecond: Number.NaN }, 5000)).toBe(
      "0 %, run 1 of 10: b2b-saas at 40, default, seed 2",
    );
    expect(progressText(now(0.5), 999)).not.toContain("left");
  });

  it("never names a run beyond the last, nor 100 % before the end", () => {
    expect(progressText(now(1), 2000)).toMatch(/^100 %, run 10 of 10/);
    expect(progressText(now(0.999), 2000)).toMatch(/^99 %/);
  });
});

it("prints times in seconds, then in minutes", () => {
  expect([0, 400, 89_400, 90_000, 3_600_000].map(timeText)).toEqual(["1 s", "1 s", "89 s", "2 min", "60 min"]);
});

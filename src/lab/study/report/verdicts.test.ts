import { describe, expect, it } from "vitest";
import {
  fullStudy,
  policy,
  quantiles,
  refused,
  runResult,
  studyOf,
} from "../../../../test/support/study/report/report.cases.ts";
import type { RunResult } from "../result.ts";
import { overall, subjectOf, verdicts } from "./verdicts.ts";

/** Runs of a policy with TTFT p90s in milliseconds, one per seed; NaN = that one refused everything. */
function runs(name: string, p90s: readonly number[], given: Partial<RunResult> = {}): RunResult[] {
  return p90s.map((p90, i) => {
    const key = { workload: "b2b-saas", rate: 60, policy: name, seed: i + 1, ...given };
    return Number.isNaN(p90) ? refused(key) : runResult({ ...key, ttft: quantiles(p90) });
  });
}

const verdictOf = (all: readonly RunResult[], policies: readonly string[]) => verdicts(studyOf(all, policies))[0]!;

describe("a verdict", () => {
  it("says how much better ours is, by which figures and in how many seeds", () => {
    const ours = runs("default", [600, 612, 640], { outputTokensPerSecond: 13_020 });
    const theirs = runs("round-robin", [85_000, 87_000, 91_000], { outputTokensPerSecond: 6200 });
    const { headline, comparisons, caution } = verdictOf([...theirs, ...ours], ["round-robin", "default"]);
    expect(caution).toMatch(
      /^At 60 requests\/s round-robin does not keep up: .* At this rate, a ratio to others says little\.$/,
    );
    expect(headline).toBe(
      "At 60 requests/s default has the best TTFT p90: 612 ms, 142x better than round-robin (87 s, better in 3 of 3 seeds).",
    );
    expect(comparisons).toEqual([
      "At 60 requests/s default's TTFT p90 is 142x better than round-robin's (612 ms against 87 s, better in 3 of 3 seeds)." +
        " default makes 2.1x more output tokens/s (13,020 against 6,200).",
    ]);
  });

  it("says so where ours loses, and that a seed disagrees", () => {
    const ours = runs("default", [2000, 2200, 2300]);
    const theirs = runs("least-active", [2010, 2000, 2000], { outputTokensPerSecond: 14_400 * 1.3 });
    const { headline, comparisons, caution } = verdictOf([...theirs, ...ours], ["least-active", "default"]);
    expect(caution).toBeUndefined();
    expect(headline).toBe(
      "At 60 requests/s least-active has the best TTFT p90: 2 s, 10 % better than default (2.2 s, better in 2 of 3 seeds).",
    );
    expect(comparisons).toEqual([
      "least-active is 10 % better here: at 60 requests/s its TTFT p90 is 2 s against default's 2.2 s (better in 2 of 3 seeds)." +
        " least-active makes 30 % more output tokens/s (18,720 against 14,400).",
    ]);
  });

  it("calls what differs by less than 5 % equal, in either direction", () => {
    for (const [ours, theirs] of [
      [1000, 1049],
      [1049, 1000],
      [1000, 1000],
    ] as const) {
      const { headline, comparisons } = verdictOf(
        [...runs("least-active", [theirs]), ...runs("default", [ours])],
        ["least-active", "default"],
      );
      expect(headline).toContain("within 5 % of it");
      expect(comparisons[0]).toMatch(
        /^At 60 requests\/s default and least-active are within 5 % of each other: TTFT p90/,
      );
      expect(comparisons[0]).toContain("Output tokens/s are the same within 5 %");
    }
  });

  it("does not compare with a policy that refused everything, and counts a refusal in one seed as a loss", () => {
    const none = Number.NaN;
    const all = [
      ...runs("round-robin", [none, none, none]),
      ...runs("least-active", [900, none, 800]),
      ...runs("default", [1000, 1000, 1000]),
    ];
    const { headline, comparisons } = verdictOf(all, ["round-robin", "least-active", "default"]);
    expect(headline).toMatch(/^At 60 requests\/s least-active has the best TTFT p90: 900 ms, 11 % better than default/);
    expect(comparisons[0]).toBe("round-robin rejected every request at 60 requests/s: nothing to compare.");
    expect(comparisons[1]).toContain("(better in 2 of 3 seeds)");
  });

  it("says which seeds are the reason where the median itself is no number", () => {
    const all = [...runs("least-active", [900, Number.NaN, Number.NaN]), ...runs("default", [1000, 1000, 1000])];
    const { headline, comparisons } = verdictOf(all, ["least-active", "default"]);
    expect(headline).toBe("At 60 requests/s TTFT p90 is 1 s under default.");
    expect(comparisons).toEqual([
      "least-active rejected every request at 60 requests/s with 2 of 3 seeds: nothing to compare.",
    ]);
  });

  it("says so where ours is the one without a figure", () => {
    const all = [...runs("least-active", [900]), ...runs("default", [Number.NaN])];
    const study = studyOf(all, ["least-active", "default"]);
    expect(verdicts(study)[0]!.comparisons).toEqual([
      "default rejected every request at 60 requests/s: nothing to compare.",
    ]);
    expect(overall(study)).toBe(
      "At the top rates default has the best TTFT p90, or is within 5 % of it, on 0 of 1 workload. " +
        "Where it is not: default has no TTFT p90 on b2b-saas, least-active has.",
    );
  });

  it("gives no verdict if no policy has a figure", () => {
    const all = [...runs("least-active", [Number.NaN]), ...runs("default", [Number.NaN])];
    const study = studyOf(all, ["least-active", "default"]);
    expect(verdicts(study)[0]!.headline).toBe("No policy has a TTFT p90 at 60 requests/s.");
    expect(overall(study)).toBeUndefined();
  });

  it("names rejections that buy short times, with the winner and in the comparison", () => {
    const ours = runs("default", [500], { rejected: 540, finished: 2160 });
    const { headline, comparisons } = verdictOf(
      [...runs("least-active", [5000]), ...ours],
      ["least-active", "default"],
    );
    expect(headline).toContain("10x better than least-active (5 s, one seed). It rejected 20 % of the requests.");
    expect(comparisons[0]).toContain("Rejected: 20 % of the requests under default, none under least-active.");
  });

  it("names whole answers that come later although first tokens come sooner", () => {
    const { comparisons } = verdictOf(
      [...runs("least-active", [800], { e2e: quantiles(5000) }), ...runs("default", [500], { e2e: quantiles(6000) })],
      ["least-active", "default"],
    );
    expect(comparisons[0]).toContain("But e2e p90 is 20 % better under least-active (5 s against 6 s).");
  });

  it("counts the rates of a ladder, and says where ours is furthest behind", () => {
    const at = (rate: number, ours: number, theirs: number) => [
      ...runs("least-active", [theirs], { rate }),
      ...runs("default", [ours], { rate }),
    ];
    const { ladder } = verdictOf(
      [...at(3, 114, 100), ...at(18, 108, 100), ...at(60, 500, 9000)],
      ["least-active", "default"],
    );
    expect(ladder).toBe(
      "default has the best TTFT p90, or is within 5 % of it, at 1 of 3 rates. " +
        "Furthest behind: least-active is 14 % better at 3 requests/s.",
    );
    expect(verdictOf(at(3, 100, 100), ["least-active", "default"]).ladder).toBeUndefined();
  });

  it("speaks of the highest rate that every policy has been through", () => {
    const all = [
      ...runs("least-active", [700], { rate: 18 }),
      ...runs("default", [350], { rate: 18 }),
      ...runs("least-active", [9000], { rate: 60 }),
    ];
    const { headline, ladder } = verdictOf(all, ["least-active", "default"]);
    expect(headline).toBe(
      "At 18 requests/s default has the best TTFT p90: 350 ms, 2.0x better than least-active (700 ms, one seed).",
    );
    expect(ladder).toContain("at 1 of 1 rates.");
  });

  it("is about default, else about the last policy", () => {
    expect(subjectOf(studyOf([], ["round-robin", "default", "mine.yaml"]))).toBe("default");
    expect(subjectOf(studyOf([], ["round-robin", "mine.yaml"]))).toBe("mine.yaml");
  });

  it("survives a study of nothing", () => {
    const study = { ...studyOf([], []), workloads: fullStudy().workloads };
    expect(verdicts(study).map(({ headline }) => headline)).toEqual(study.workloads.map(() => "Nothing was run."));
    expect(overall(study)).toBeUndefined();
    expect(overall({ ...fullStudy(), policies: [policy("default")] })).toBeUndefined();
  });
});

describe("the verdict on a whole study", () => {
  it("names the workloads on which ours is behind, and by how much", () => {
    const study = fullStudy();
    expect(overall(study)).toMatch(
      /^At the top rates default .*, on 2 of 3 workloads\. Where it is not: least-active is \d+ % better on low-prefix-share\.$/,
    );
  });
});

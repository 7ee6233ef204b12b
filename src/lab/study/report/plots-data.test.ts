import { describe, expect, it } from "vitest";
import { fullStudy, runResult, studyOf } from "../../../../test/support/study/report/report.cases.ts";
import type { LoadSample } from "../result.ts";
import { loadPlots, rangePlots } from "./plots-data.ts";
import { StudyIndex } from "./study-index.ts";

const study = fullStudy();
const index = new StudyIndex(study);

describe("plots over rates", () => {
  it("draw the median of each policy between the least and the most of the seeds, times in seconds", () => {
    const plots = rangePlots(index, study.workloads[0]!);
    expect(plots.map(({ title, form, log }) => [title, form, log])).toEqual([
      ["TTFT p90 over rate", "lines", true],
      ["Output tokens/s over rate", "lines", false],
      ["Cache hit rate over rate", "lines", false],
      ["Load spread over rate", "lines", false],
    ]);
    const [ttft] = plots;
    expect(ttft!.x).toEqual([3, 10, 18, 25, 32, 40, 50, 60]);
    expect(ttft!.series.map(({ name }) => name)).toEqual(study.policies.map(({ name }) => name));
    const seeds = study.runs
      .filter(({ workload, rate, policy }) => workload === "b2b-saas" && rate === 60 && policy === "default")
      .map((run) => run.ttft.p90 / 1000)
      .sort((a, b) => a - b);
    const last = ttft!.series[3]!;
    for (const [i, drawn] of [last.min.at(-1), last.median.at(-1), last.max.at(-1)].entries())
      expect(drawn! / seeds[i]!).toBeCloseTo(1, 3);
  });

  it("become bars where there is one rate, and leave out what is no number", () => {
    const [ttft, tokens] = rangePlots(index, study.workloads[2]!);
    expect(tokens!.form).toBe("bars");
    expect(ttft!.title).toBe("TTFT p90 at 90 requests/s");
    expect(ttft!.x).toEqual([1, 2, 3, 4]);
    const [roundRobin, leastActive, , ours] = ttft!.series;
    expect(roundRobin!.median).toEqual([null, null, null, null]);
    expect(leastActive!.median.map((value) => value !== null)).toEqual([false, true, false, false]);
    expect(leastActive!.max).toEqual([null, null, null, null]);
    expect(ours!.median.map((value) => value !== null)).toEqual([false, false, false, true]);
  });
});

describe("plots of loads", () => {
  it("show each policy's servers at the highest rate with samples, on one scale", () => {
    const { title, plots } = loadPlots(index, study.workloads[0]!);
    expect(title).toBe("Load per server at 60 requests/s");
    expect(plots.map((plot) => plot.title)).toEqual(study.policies.map(({ name }) => `${name}, seed 1`));
    expect(new Set(plots.map(({ top }) => top)).size).toBe(1);
    expect(plots[0]!.top).toBe(Math.max(...plots.flatMap(({ servers }) => servers.flat())));
    const run = study.runs.find(({ rate, policy }) => rate === 60 && policy === "default")!;
    expect(plots[3]!.servers[2]).toEqual(run.samples.map(({ loads }) => loads[2]));
  });

  it("are not there without samples", () => {
    expect(loadPlots(index, study.workloads[2]!).plots).toEqual([]);
  });

  it("are thinned to means of at most 120 stretches", () => {
    const samples = Array.from({ length: 600 }, (_, at): LoadSample => ({ at, loads: [at, 1] }));
    const of = studyOf([runResult({ workload: "b2b-saas", rate: 60, policy: "a", seed: 1, samples })], ["a"]);
    const [plot] = loadPlots(new StudyIndex(of), of.workloads[0]!).plots;
    expect(plot!.x.length).toBe(120);
    expect(plot!.x.slice(0, 3)).toEqual([0, 5, 10]);
    expect(plot!.servers[0]!.slice(0, 3)).toEqual([2, 7, 12]);
    expect(new Set(plot!.servers[1])).toEqual(new Set([1]));
  });
});

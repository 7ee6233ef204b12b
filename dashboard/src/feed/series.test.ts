import { describe, expect, it } from "vitest";
import { SECONDS, Series } from "./series.ts";

describe("the figures of the last 15 minutes", () => {
  it("go on from an answer, once for each second, with nulls for what was missed", () => {
    const series = new Series();
    series.fill({ from: 100, count: 3, figures: { started: [1, 2, 3] } });
    series.add({ second: 102, figures: { started: 99 } });
    series.add({ second: 105, figures: { started: 4, cpu: 0.5 } });
    expect(series.seconds).toEqual([100, 101, 102, 103, 104, 105]);
    expect(series.values("started")).toEqual([1, 2, 3, null, null, 4]);
    expect(series.values("cpu")).toEqual([null, null, null, null, null, 0.5]);
    expect([series.latest("started"), series.latest("lag"), series.values("lag")]).toEqual([4, null, undefined]);
  });

  it("are bounded, also after a pause of hours", () => {
    const series = new Series();
    for (let second = 0; second < SECONDS + 50; second++) series.add({ second, figures: { started: second } });
    expect([series.seconds.length, series.seconds[0], series.values("started")!.length]).toEqual([
      SECONDS,
      50,
      SECONDS,
    ]);
    series.add({ second: 100_000, figures: { started: 1 } });
    expect([series.seconds, series.values("started")]).toEqual([[100_000], [1]]);
    series.fill({ from: 0, count: 2000, figures: { started: Array.from({ length: 2000 }, (_, at) => at) } });
    expect([series.seconds[0], series.values("started")![0], series.seconds.length]).toEqual([1100, 1100, SECONDS]);
  });
});

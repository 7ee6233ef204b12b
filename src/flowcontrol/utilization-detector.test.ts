import { describe, expect, it } from "vitest";
import { endpointOf, instanceOf, unscraped } from "../scheduling/fakes.cases.ts";
import { utilizationDetector } from "./utilization-detector.ts";

const load = (slot: number, waiting: number, kvUsage: number, scrapedAt = 0) =>
  endpointOf(slot, { metrics: { waiting, kvUsage, scrapedAt } });

describe("utilization-detector", () => {
  it("S-70: means the worse ratio of each endpoint; stale counts 1, an empty set is 1", () => {
    const detector = instanceOf(utilizationDetector);
    expect(detector.saturation([load(0, 5, 0), load(1, 0, 0.4)], 0)).toBeCloseTo(0.75, 12);
    expect(detector.saturation([load(0, 5, 0, -5000), load(1, 0, 0.4)], 0)).toBeCloseTo(0.75, 12);
    expect(detector.saturation([load(0, 0, 0, -5000), load(1, 0, 0.4)], 0)).toBeCloseTo(0.75, 12);
    expect(detector).toMatchObject({ staleEndpoints: 1 });
    expect(detector.saturation([unscraped(0), unscraped(1)], 0)).toBe(1);
    expect(detector.saturation([], 0)).toBe(1);
    expect(detector).toMatchObject({ staleEndpoints: 0 });
  });

  it("is not clamped above: one hot endpoint of ten is seen", () => {
    const pool = [load(0, 50, 0), ...Array.from({ length: 9 }, (_, i) => load(i + 1, 0, 0))];
    expect(instanceOf(utilizationDetector).saturation(pool, 0)).toBeCloseTo(1, 12);
  });

  it("an idle endpoint that is scraped rarely is not stale; the threshold may be configured", () => {
    const idle = endpointOf(0, { scrapeInterval: 1000 });
    expect(instanceOf(utilizationDetector).saturation([idle], 2500)).toBe(0);
    expect(instanceOf(utilizationDetector).saturation([endpointOf(0)], 201)).toBe(1);
    for (const metricsStalenessThreshold of ["1s", "0.5s500ms", "1000ms"])
      expect(instanceOf(utilizationDetector, { metricsStalenessThreshold }).saturation([endpointOf(0)], 1000)).toBe(0);
  });

  it("lets the value that is there decide where the other is missing", () => {
    const detector = instanceOf(utilizationDetector);
    expect(detector.saturation([load(0, 2, Number.NaN)], 0)).toBeCloseTo(0.4, 12);
    expect(detector.saturation([load(0, Number.NaN, 0.4)], 0)).toBeCloseTo(0.5, 12);
    expect(detector.saturation([load(0, Number.NaN, Number.NaN)], 0)).toBe(1);
  });

  it("uses its thresholds", () => {
    const detector = instanceOf(utilizationDetector, {
      queueDepthThreshold: 10,
      kvCacheUtilThreshold: 1,
      headroom: 0.2,
    });
    expect(detector.saturation([load(0, 5, 0.6)], 0)).toBeCloseTo(0.6, 12);
  });

  it("reports all violations together", () => {
    const result = utilizationDetector.parameters.safeParse({
      queueDepthThreshold: 0,
      kvCacheUtilThreshold: 1.2,
      metricsStalenessThreshold: "soon",
      headroom: -1,
    });
    expect(result.error?.issues.map(({ message }) => message)).toEqual([
      "queueDepthThreshold must be greater than 0",
      "kvCacheUtilThreshold must be greater than 0 and at most 1",
      'expected a duration with a unit such as "50ms", "5s" or "1m30s", got "soon"',
      "headroom must not be negative",
    ]);
    for (const metricsStalenessThreshold of ["0s", "-1s", "5", 0, -1, true, "1s x", Number.POSITIVE_INFINITY])
      expect(utilizationDetector.parameters.safeParse({ metricsStalenessThreshold }).success).toBe(false);
  });
});

import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, instanceOf, keptBy, unscraped } from "../../../test/support/scheduling/fakes.cases.ts";
import { type LogFields, type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { utilizationDetector } from "./saturation-detectors.ts";

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

  it("counts the stale endpoints of its last look, and warns of them every 30 s at most", () => {
    const warned: LogFields[] = [];
    const log: Logger = { ...silentLogger, warn: (fields) => void warned.push(fields) };
    const detector = instanceOf(utilizationDetector, {}, { log });
    const pool = [load(0, 0, 0), unscraped(1), unscraped(2)];
    detector.saturation([load(0, 0, 0)], 0);
    expect(warned).toEqual([]);
    for (const now of [100, 29_000, 30_099]) detector.saturation(pool, now);
    expect(detector.staleEndpoints).toBe(3);
    expect(warned).toEqual([{ stale: 2, endpoints: 3 }]);
    detector.saturation(pool, 30_100);
    expect(warned).toEqual([
      { stale: 2, endpoints: 3 },
      { stale: 3, endpoints: 3 },
    ]);
    detector.saturation([], 30_200);
    expect(detector.staleEndpoints).toBe(0);
    expect(detector).toMatchObject({ debugState: expect.any(Function) });
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

describe("utilization-detector in a profile (3.15)", () => {
  const kept = (endpoints: ReturnType<typeof load>[], parameters: object = {}, now = 0) =>
    keptBy(utilizationDetector.inProfile!, columnsOf(endpoints, [], now), parameters);

  it("S-41: keeps fresh endpoints under both thresholds", () => {
    expect(kept([load(0, 4, 0.79), load(1, 5, 0), load(2, 0, 0.8), load(3, 0, 0, -5000), unscraped(4)])).toEqual([0]);
    expect(kept([load(0, 4, 0.5), load(1, 3, 0.5)], { queueDepthThreshold: 4, kvCacheUtilThreshold: 0.6 })).toEqual([
      1,
    ]);
  });

  it("S-41: with none left it keeps all", () => {
    expect(kept([load(0, 9, 0), load(1, 0, 1), unscraped(2)])).toEqual([0, 1, 2]);
    expect(kept([load(0, 9, 0)])).toEqual([0]);
  });

  it("S-41: headroom is tolerated above the thresholds", () => {
    expect(kept([load(0, 5, 0.9), load(1, 6, 0)], { headroom: 0.2 })).toEqual([0]);
  });

  it("judges by the value that is there, and an age by its own threshold", () => {
    expect(kept([load(0, Number.NaN, 0.9), load(1, Number.NaN, 0.1), load(2, 1, Number.NaN)])).toEqual([1, 2]);
    expect(kept([load(0, 0, 0, 0), load(1, 0, 0, 800)], {}, 900)).toEqual([1]);
    expect(kept([load(0, 0, 0, 0), load(1, 0, 0, 800)], { metricsStalenessThreshold: "1s" }, 900)).toEqual([0, 1]);
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  columnsOf,
  endpointOf,
  instanceOf,
  keptBy,
  requestOf,
  unscraped,
} from "../../../test/support/scheduling/fakes.cases.ts";
import { NO_LEAN } from "../../base/inference/endpoint.ts";
import { IN_FLIGHT_REQUESTS, IN_FLIGHT_TOKENS } from "../../base/plugin/keys.ts";
import { type LogFields, type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { LegacyAdmission } from "./legacy-admission.ts";
import { concurrencyDetector, noCapacityDetector, utilizationDetector } from "./saturation-detectors.ts";

describe("utilization detector", () => {
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

    it("says the saturation of one endpoint alone, and counts that as no look at the pool", () => {
      const warned: LogFields[] = [];
      const log: Logger = { ...silentLogger, warn: (fields) => void warned.push(fields) };
      const detector = instanceOf(utilizationDetector, {}, { log });
      const pool = [load(0, 5, 0), load(1, 0, 0.4), unscraped(2), load(3, 5, 0, -5000)];
      const alone = () => pool.map((endpoint) => detector.saturationOf!(endpoint, 0));
      expect(alone()).toEqual([1, 0.5, 1, 1]);
      expect([detector.staleEndpoints, warned]).toEqual([0, []]);
      detector.saturation(pool, 0);
      alone();
      expect(detector.staleEndpoints).toBe(2);
      expect(detector).toSatisfy(({ debugState }) => debugState.call(detector).staleEndpoints === 2);
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
        expect(instanceOf(utilizationDetector, { metricsStalenessThreshold }).saturation([endpointOf(0)], 1000)).toBe(
          0,
        );
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

  describe("utilization-detector in a profile (scheduling 3.15)", () => {
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
});

/** What other replicas have in flight, and have probably sent since they said so. */
const peersOf = (requests: number, tokens: number) => ({
  ...{ key: "", requests: 0, tokens: 0, lean: NO_LEAN, ageMs: () => 0 },
  unseen: (now: number) => (now === 0 ? { requests, tokens } : { requests: 0, tokens: 0 }),
});

describe("what other replicas have probably sent", () => {
  it("counts beside what is known, for as long as it is expected", () => {
    const busy = [endpointOf(0, { inFlight: { requests: 50, tokens: 500_000 }, peers: peersOf(30, 200_000) })];
    const detector = instanceOf(concurrencyDetector);
    expect([detector.saturation(busy, 0), detector.saturation(busy, 100)]).toEqual([0.8, 0.5]);
    expect(detector.expected!(busy, 0, 8)).toBeCloseTo(0.88, 12);
    const tokens = instanceOf(concurrencyDetector, { concurrencyMode: "tokens" });
    expect([tokens.saturation(busy, 0), tokens.saturation(busy, 100)]).toEqual([0.7, 0.5]);
  });

  it("counts as waiting at an engine that has no room", () => {
    const metrics = { waiting: 1, kvUsage: 0.08, blocks: 100, blockSize: 16 };
    const detector = instanceOf(utilizationDetector);
    const pool = [endpointOf(0, { metrics, peers: peersOf(3, 640) })];
    expect(detector.expected!(pool, 0, 0)).toBeCloseTo(0.8, 12);
    expect(detector.expected!(pool, 100, 0)).toBeCloseTo(0.2, 12);
    const roomy = [
      endpointOf(0, { metrics, peers: peersOf(3, 640), unscraped: { requests: 0, tokens: 0, capacity: 8 } }),
    ];
    expect(detector.expected!(roomy, 0, 0)).toBeCloseTo(0.6, 12);
  });
});

describe("concurrency detector", () => {
  const busy = (...loads: [requests: number, tokens: number][]) =>
    loads.map(([requests, tokens], slot) => endpointOf(slot, { inFlight: { requests, tokens } }));
  const saturation = (endpoints: ReturnType<typeof busy>, parameters: object = {}) =>
    instanceOf(concurrencyDetector, parameters).saturation(endpoints, 0);
  const kept = (parameters: object, ...loads: [requests: number, tokens: number][]) =>
    keptBy(
      concurrencyDetector.inProfile!,
      columnsOf(busy(...loads), [
        [IN_FLIGHT_REQUESTS, loads.map(([requests]) => requests)],
        [IN_FLIGHT_TOKENS, loads.map(([, tokens]) => tokens)],
      ]),
      parameters,
    );

  describe("concurrency-detector", () => {
    it("S-71: 150 requests in flight on one endpoint are 1.5", () => {
      expect(saturation(busy([150, 0]))).toBe(1.5);
      expect(saturation(busy([150, 0], [0, 9e9], [0, 0]))).toBeCloseTo(0.5, 12);
      expect(saturation(busy([32, 0]), { maxConcurrency: 64 })).toBe(0.5);
    });

    it("S-71: tokens count in their mode, and hybrid takes the larger ratio of each endpoint", () => {
      const pool = busy([50, 0], [0, 1_500_000]);
      expect(saturation(pool, { concurrencyMode: "tokens" })).toBeCloseTo(0.75, 12);
      expect(saturation(pool, { concurrencyMode: "requests" })).toBeCloseTo(0.25, 12);
      expect(saturation(pool, { concurrencyMode: "hybrid" })).toBeCloseTo(1, 12);
    });

    it("an empty set is saturated in every mode", () => {
      for (const concurrencyMode of ["requests", "tokens", "hybrid"])
        expect(saturation([], { concurrencyMode })).toBe(1);
    });

    it("hybrid is never below either of the others, nor above both together", () => {
      const load = fc.tuple(fc.nat({ max: 500 }), fc.nat({ max: 5_000_000 }));
      fc.assert(
        fc.property(fc.array(load, { minLength: 1, maxLength: 10 }), (loads) => {
          const [requests, tokens, hybrid] = ["requests", "tokens", "hybrid"].map((concurrencyMode) =>
            saturation(busy(...loads), { concurrencyMode }),
          ) as [number, number, number];
          expect(hybrid).toBeGreaterThanOrEqual(Math.max(requests, tokens) - 1e-9);
          expect(hybrid).toBeLessThanOrEqual(requests + tokens + 1e-9);
        }),
      );
    });

    it("reports all violations together (scheduling 5.3)", () => {
      const result = concurrencyDetector.parameters.safeParse({
        maxConcurrency: 0,
        maxTokenConcurrency: -1,
        concurrencyMode: "both",
        headroom: -1,
      });
      expect(result.error?.issues.map(({ message }) => message)).toEqual([
        "maxConcurrency must be greater than 0",
        "maxTokenConcurrency must be greater than 0",
        "concurrencyMode must be requests, tokens or hybrid",
        "headroom must not be negative",
      ]);
    });
  });

  describe("concurrency-detector in a profile (scheduling 3.15)", () => {
    it("S-41: keeps endpoints under their limit, and with none left nobody", () => {
      expect(kept({}, [99, 0], [100, 0], [0, 9e9])).toEqual([0, 2]);
      expect(kept({}, [100, 0], [101, 0])).toEqual([]);
      expect(kept({ concurrencyMode: "tokens" }, [500, 999_999], [0, 1_000_000])).toEqual([0]);
      expect(kept({ concurrencyMode: "hybrid" }, [99, 999_999], [0, 1_000_000], [100, 0])).toEqual([0]);
    });

    it.each([
      [{ headroom: 0.15 }, 115],
      [{ headroom: 0.29 }, 129],
      [{ maxConcurrency: 10, headroom: 0.19 }, 11],
      [{ maxConcurrency: 1, headroom: 0.9 }, 1],
      [{ maxConcurrency: 3, headroom: 2 }, 9],
    ])("S-41: with %j an endpoint is full at %d", (parameters, full) => {
      expect(kept(parameters, [full - 1, 0], [full, 0])).toEqual([0]);
    });
  });
});

describe("no-capacity-detector (scheduling 5.2)", () => {
  const load = (slot: number, waiting: number, kvUsage: number, scrapedAt = 0) =>
    endpointOf(slot, { metrics: { waiting, kvUsage, scrapedAt } });

  const detector = instanceOf(noCapacityDetector);

  it("is saturated when no endpoint is good, and with none at all; one good endpoint is enough", () => {
    const busy = [load(0, 6, 0), load(1, 0, 0.81), load(2, 0, 0, -5000), unscraped(3)];
    expect(detector.saturation(busy, 0)).toBe(1);
    expect(detector.saturation([], 0)).toBe(1);
    expect(detector.saturation([...busy, load(4, 5, 0.8)], 0)).toBe(0);
  });

  it("judges by the value that is there, and by its own thresholds", () => {
    expect(detector.saturation([load(0, 5, Number.NaN)], 0)).toBe(0);
    expect(detector.saturation([load(0, Number.NaN, 0.9)], 0)).toBe(1);
    const strict = instanceOf(noCapacityDetector, {
      queueDepthThreshold: 1,
      kvCacheUtilThreshold: 0.1,
      metricsStalenessThreshold: "1s",
    });
    expect(strict.saturation([load(0, 1, 0.1)], 1000)).toBe(0);
    expect([strict.saturation([load(0, 2, 0)], 0), strict.saturation([load(0, 0, 0.2)], 0)]).toEqual([1, 1]);
    expect(strict.saturation([load(0, 0, 0)], 1001)).toBe(1);
  });

  it("S-72: under v1.0's rule a sheddable request is served as long as one pod is good", () => {
    const admission = new LegacyAdmission(detector);
    const sheddable = requestOf("p", { priority: -1 });
    expect(admission.admit(sheddable, [load(0, 500, 1), load(1, 5, 0.8)], 0)).toBeUndefined();
    expect(admission.admit(sheddable, [load(0, 500, 1), load(1, 6, 0.8)], 0)).toMatchObject({ status: 429 });
    expect(admission.admit(requestOf("p", { priority: 0 }), [load(0, 500, 1)], 0)).toBeUndefined();
  });

  it("refuses parameters that cannot be, all together", () => {
    const wrong = { queueDepthThreshold: -1, kvCacheUtilThreshold: 80, metricsStalenessThreshold: "0s" };
    expect(noCapacityDetector.parameters.safeParse(wrong).error?.issues).toHaveLength(3);
    expect(noCapacityDetector.parameters.safeParse({ headroom: 0.1 }).success).toBe(false);
  });
});

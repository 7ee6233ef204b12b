import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, scoresOf, unscraped } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { IN_FLIGHT_REQUESTS, IN_FLIGHT_TOKENS, UNCACHED_TOKENS } from "../../../../base/plugin/keys.ts";
import {
  activeRequestScorer,
  kvCacheUtilizationScorer,
  loadAwareScorer,
  queueScorer,
  runningRequestsSizeScorer,
  tokenLoadScorer,
} from "./load-scorers.ts";

const waiting = (...counts: number[]) =>
  columnsOf(counts.map((count, slot) => endpointOf(slot, { metrics: { waiting: count } })));

describe("queue-scorer", () => {
  it("S-34: {0, 5, 10} scores 1, 0.5, 0; all equal scores 1", () => {
    expect(scoresOf(queueScorer, waiting(0, 5, 10))).toEqual([1, 0.5, 0]);
    expect(scoresOf(queueScorer, waiting(7, 7))).toEqual([1, 1]);
    expect(scoresOf(queueScorer, waiting(3))).toEqual([1]);
  });

  it("never takes an endpoint without metrics for an idle one", () => {
    const pool = [endpointOf(0, { metrics: { waiting: 4 } }), unscraped(1), endpointOf(2, { metrics: { waiting: 9 } })];
    expect(scoresOf(queueScorer, columnsOf(pool))).toEqual([1, 0, 0]);
    expect(scoresOf(queueScorer, columnsOf([unscraped(0), unscraped(1)]))).toEqual([1, 1]);
  });
});

describe("running-requests-size-scorer", () => {
  it("scores by running requests, whatever waits", () => {
    const pool = [8, 0, 2].map((running, slot) => endpointOf(slot, { metrics: { running, waiting: slot * 10 } }));
    expect(scoresOf(runningRequestsSizeScorer, columnsOf(pool))).toEqual([0, 1, 0.75]);
  });
});

describe("kv-cache-utilization-scorer", () => {
  it("scores the free share; an unknown one counts as the fullest known", () => {
    const pool = [
      endpointOf(0, { metrics: { kvUsage: 0.25 } }),
      endpointOf(1, { metrics: { kvUsage: 0.9 } }),
      endpointOf(2, { metrics: { kvUsage: Number.NaN } }),
    ];
    expect(scoresOf(kvCacheUtilizationScorer, columnsOf(pool))).toEqual([0.75, 0.1, 0.1]);
    expect(scoresOf(kvCacheUtilizationScorer, columnsOf([unscraped(0), unscraped(1)]))).toEqual([1, 1]);
  });
});

const queues = (...waiting: number[]) =>
  columnsOf(waiting.map((w, slot) => endpointOf(slot, { metrics: { waiting: w } })));

describe("load-aware-scorer", () => {
  it("S-36: no waiting requests score 0.5, 64 of 128 score 0.25, 128 and more score 0", () => {
    expect(scoresOf(loadAwareScorer, queues(0, 64, 128, 129))).toEqual([0.5, 0.25, 0, 0]);
    expect(scoresOf(loadAwareScorer, queues(0))).toEqual([0.5]);
    expect(scoresOf(loadAwareScorer, queues(8, 8))).toEqual([0.46875, 0.46875]);
  });

  it("S-36: the threshold can be set; 0 and less count as 128", () => {
    expect(scoresOf(loadAwareScorer, queues(5, 20), { threshold: 10 })).toEqual([0.25, 0]);
    for (const threshold of [0, -3]) expect(scoresOf(loadAwareScorer, queues(64), { threshold })).toEqual([0.25]);
  });

  it("takes a queue nobody knows for empty, and one that only others know for the longest", () => {
    expect(scoresOf(loadAwareScorer, columnsOf([unscraped(0), unscraped(1)]))).toEqual([0.5, 0.5]);
    const known = endpointOf(1, { metrics: { waiting: 64 } });
    expect(scoresOf(loadAwareScorer, columnsOf([unscraped(0), known, endpointOf(2)]))).toEqual([0.25, 0.25, 0.5]);
  });

  it("stays between 0 and 0.5 and never prefers the longer queue", () => {
    const queue = fc.integer({ min: 0, max: 400 });
    fc.assert(
      fc.property(
        fc.array(queue, { minLength: 1, maxLength: 20 }),
        fc.integer({ min: -5, max: 300 }),
        (waiting, threshold) => {
          const scores = scoresOf(loadAwareScorer, queues(...waiting), { threshold });
          for (let i = 0; i < waiting.length; i++) {
            expect(scores[i]).toBeGreaterThanOrEqual(0);
            expect(scores[i]).toBeLessThanOrEqual(0.5);
            for (let j = 0; j < i; j++)
              if (waiting[i]! <= waiting[j]!) expect(scores[i]).toBeGreaterThanOrEqual(scores[j]!);
          }
        },
      ),
    );
  });
});

const inFlight = (...counts: number[]) =>
  columnsOf(
    counts.map((_, slot) => endpointOf(slot)),
    [[IN_FLIGHT_REQUESTS, counts]],
  );

describe("active-request-scorer", () => {
  it("S-37: {0, 2, 4} scores 1, 0.5, 0; with idleThreshold 2 and maxBusyScore 0.5 it scores 1, 1, 0", () => {
    expect(scoresOf(activeRequestScorer, inFlight(0, 2, 4))).toEqual([1, 0.5, 0]);
    expect(scoresOf(activeRequestScorer, inFlight(0, 2, 4), { idleThreshold: 2, maxBusyScore: 0.5 })).toEqual([
      1, 1, 0,
    ]);
    expect(scoresOf(activeRequestScorer, inFlight(3, 4), { idleThreshold: 2, maxBusyScore: 0.5 })).toEqual([0.125, 0]);
    expect(scoresOf(activeRequestScorer, inFlight(0, 0))).toEqual([1, 1]);
  });

  it("corrects parameters out of range and ignores requestTimeout", () => {
    const parameters = { idleThreshold: -5, maxBusyScore: 7, requestTimeout: "2m", inFlightLoadProducerName: "" };
    expect(scoresOf(activeRequestScorer, inFlight(0, 2, 4), parameters)).toEqual([1, 0.5, 0]);
    expect(activeRequestScorer.parameters.safeParse({ idle: 1 }).success).toBe(false);
  });
});

const tokens = (inFlight: number[], uncached: number[]) =>
  columnsOf(
    inFlight.map((_, slot) => endpointOf(slot)),
    [
      [IN_FLIGHT_TOKENS, inFlight],
      [UNCACHED_TOKENS, uncached],
    ],
  );

describe("token-load-scorer", () => {
  it("S-38: 2097152 of 4194304 scores 0.5; nothing scores 1, the threshold and more 0", () => {
    expect(scoresOf(tokenLoadScorer, tokens([2_097_152, 0, 4_194_304, 9e9], [0, 0, 0, 0]))).toEqual([0.5, 1, 0, 0]);
    expect(scoresOf(tokenLoadScorer, tokens([0], [0]))).toEqual([1]);
  });

  it("counts what the request adds: of two equally busy endpoints the one that holds the prompt scores more", () => {
    const settings = { queueThresholdTokens: 1000 };
    expect(scoresOf(tokenLoadScorer, tokens([300, 300], [200, 0]), settings)).toEqual([0.5, 0.7]);
  });

  it("S-38: a threshold of 0 or less counts as the default", () => {
    for (const queueThresholdTokens of [0, -1])
      expect(scoresOf(tokenLoadScorer, tokens([1_048_576], [1_048_576]), { queueThresholdTokens })).toEqual([0.5]);
  });

  it("only the sum counts, and more is never better", () => {
    const amount = fc.integer({ min: 0, max: 2_000_000 });
    fc.assert(
      fc.property(amount, amount, amount, (a, b, more) => {
        const [one, other, busier] = scoresOf(tokenLoadScorer, tokens([a, b, a + more], [b, a, b]));
        expect(one).toBe(other);
        expect(busier).toBeLessThanOrEqual(one!);
        expect(busier).toBeGreaterThanOrEqual(0);
      }),
    );
  });
});

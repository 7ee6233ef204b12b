import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, scoresOf, unscraped } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { loadAwareScorer } from "./load-aware-scorer.ts";

const queues = (...waiting: number[]) =>
  columnsOf(waiting.map((w, slot) => endpointOf(slot, { metrics: { waiting: w } })));

describe("load-aware-scorer", () => {
  it("S-36: nobody waiting scores 0.5, 64 of 128 scores 0.25, 128 and more score 0", () => {
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

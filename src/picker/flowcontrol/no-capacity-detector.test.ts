import { describe, expect, it } from "vitest";
import { endpointOf, instanceOf, requestOf, unscraped } from "../../../test/support/scheduling/fakes.cases.ts";
import { LegacyAdmission } from "./legacy-admission.ts";
import { noCapacityDetector } from "./saturation-detectors.ts";

const load = (slot: number, waiting: number, kvUsage: number, scrapedAt = 0) =>
  endpointOf(slot, { metrics: { waiting, kvUsage, scrapedAt } });

describe("no-capacity-detector (scheduling 5.2)", () => {
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

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, instanceOf, keptBy } from "../../../test/support/scheduling/fakes.cases.ts";
import { IN_FLIGHT_REQUESTS, IN_FLIGHT_TOKENS } from "../../base/plugin/keys.ts";
import { concurrencyDetector } from "./saturation-detectors.ts";

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
    for (const concurrencyMode of ["requests", "tokens", "hybrid"]) expect(saturation([], { concurrencyMode })).toBe(1);
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

  it("reports all violations together (5.3)", () => {
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

describe("concurrency-detector in a profile (3.15)", () => {
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

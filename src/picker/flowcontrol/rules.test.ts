import { describe, expect, it } from "vitest";
import { endpointOf } from "../../../test/support/scheduling/fakes.cases.ts";
import { FLOW_RULES } from "./rules.ts";

const { "": ours, "v1.5": v15 } = FLOW_RULES;

describe("the rules of a release in flow control (scheduling 6.10)", () => {
  const pool = [
    endpointOf(0, { labels: { "llm-d.ai/role": "prefill" } }),
    endpointOf(1, { labels: { "llm-d.ai/role": "decode" } }),
  ];

  it("split the pool into stages, in v1.5 not", () => {
    expect(ours.stages(pool)).toEqual({ prefill: [pool[0]], decode: [pool[1]] });
    expect(v15.stages(pool)).toEqual({ prefill: [], decode: [] });
  });

  it("have a time for the pool without endpoints, which begins when it becomes empty; v1.5 has one time from the arrival on", () => {
    const parts = { enqueuedAt: 100, ttl: 10, noEndpointTtl: 1000, poolSince: 150 };
    const at = (poolEmpty: boolean): number[] => [ours, v15].map((rules) => rules.deadline({ ...parts, poolEmpty }));
    expect(at(false)).toEqual([160, 110]);
    expect(at(true)).toEqual([1150, 110]);
    expect(v15.deadline({ ...parts, poolEmpty: true, ttl: Number.POSITIVE_INFINITY })).toBe(Number.POSITIVE_INFINITY);
  });

  it("tell an empty pool from a full one, in v1.5 not", () => {
    for (const [rules, full, expired] of [
      [ours, ["RejectedCapacity", "RejectedNoEndpoints"], ["EvictedTTL", "EvictedNoEndpoints"]],
      [v15, ["RejectedCapacity", "RejectedCapacity"], ["EvictedTTL", "EvictedTTL"]],
    ] as const) {
      expect([false, true].map((empty) => rules.full(empty))).toEqual(full);
      expect([false, true].map((empty) => rules.expired(empty))).toEqual(expired);
    }
  });

  it("answer a wait that is over with 429, in v1.5 with 503", () => {
    expect(ours.rejection("EvictedTTL", 7)).toMatchObject({ status: 429, reason: "ttl_expired", retryAfter: 7 });
    const late = v15.rejection("EvictedTTL", 7);
    expect(late).toMatchObject({ status: 503, code: "ServiceUnavailable", retryAfter: 7 });
    expect(late.text).toBe(
      "inference error: ServiceUnavailable - request timed out in queue: request evicted from queue: request TTL expired",
    );
    for (const outcome of ["RejectedCapacity", "RejectedOther", "EvictedContextCancelled", "EvictedOther"] as const)
      expect(v15.rejection(outcome)).toEqual(ours.rejection(outcome));
  });

  it("make bands on demand, and refuse each newcomer of a full queue, in v1.5 only", () => {
    expect([ours, v15].map(({ bandsOnDemand, displaces }) => [bandsOnDemand, displaces])).toEqual([
      [false, true],
      [true, false],
    ]);
  });
});

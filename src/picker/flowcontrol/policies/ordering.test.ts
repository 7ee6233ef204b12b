import { describe, expect, it } from "vitest";
import { instanceOf, requestOf } from "../../../../test/support/scheduling/fakes.cases.ts";
import { HeaderList } from "../../../base/inference/headers.ts";
import type { QueuedRequest } from "../../../base/plugin/flow-kinds.ts";
import { edfOrderingPolicy, fcfsOrderingPolicy, sloDeadlineOrderingPolicy } from "./ordering.ts";

const NEVER = Number.POSITIVE_INFINITY;

function queued(fake: Partial<QueuedRequest>, headers: readonly (readonly [string, string])[] = []): QueuedRequest {
  const request = requestOf("p", { headers: HeaderList.of(headers) });
  return { request, receivedAt: 0, enqueuedAt: 0, ttl: NEVER, bytes: 1, tokens: 1, ...fake };
}

it("fcfs-ordering-policy leaves the order to the arrival", () => {
  const policy = instanceOf(fcfsOrderingPolicy);
  const late = queued({ enqueuedAt: 9, ttl: 1 }, [["x-slo-ttft-ms", "1"]]);
  expect(policy.rank(late)).toBe(policy.rank(queued({ enqueuedAt: 5 })));
});

it("S-76: edf-ordering-policy ranks by the time at which a request expires; none without a time to live", () => {
  const policy = instanceOf(edfOrderingPolicy);
  const rank = (enqueuedAt: number, ttl: number) => policy.rank(queued({ enqueuedAt, ttl }));
  expect([rank(100, 50), rank(0, 200), rank(100, NEVER)]).toEqual([150, 200, NEVER]);
});

describe("slo-deadline-ordering-policy", () => {
  const policy = instanceOf(sloDeadlineOrderingPolicy);
  const rank = (headers: readonly (readonly [string, string])[]) =>
    policy.rank(queued({ receivedAt: 1000, enqueuedAt: 7, ttl: 3 }, headers));
  const goal = (value: string) => rank([["x-llm-d-slo-ttft-ms", value]]);

  it("S-76: ranks by the arrival and the goal in the header", () => {
    expect([goal("250"), goal("0"), goal("+5"), goal(" 5\t")]).toEqual([1250, 1000, 1005, 1005]);
  });

  it.each(["", " ", "-1", "1.5", "1e3", "0x10", "soon", "5ms", "99999999999999999999", "Infinity", "NaN"])(
    "S-76: is never due with the goal %j",
    (value) => {
      expect(goal(value)).toBe(NEVER);
    },
  );

  it("takes the older name of the header, but the present one first", () => {
    expect(rank([["x-slo-ttft-ms", "20"]])).toBe(1020);
    expect(
      rank([
        ["x-slo-ttft-ms", "20"],
        ["x-llm-d-slo-ttft-ms", "30"],
      ]),
    ).toBe(1030);
    expect(rank([])).toBe(NEVER);
    expect(sloDeadlineOrderingPolicy.headers?.({})).toEqual(["x-llm-d-slo-ttft-ms", "x-slo-ttft-ms"]);
  });

  it("takes goals up to the longest time of the reference", () => {
    expect(goal("9223372036854")).toBe(1000 + 9223372036854);
    expect(goal("9223372036855")).toBe(NEVER);
  });
});

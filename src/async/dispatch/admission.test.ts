import { describe, expect, it } from "vitest";
import { queueOf } from "../../../test/support/brokers/broker.cases.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { CapacityReading } from "../../base/plugin/gate.ts";
import { readEntry } from "../brokers/intake.ts";
import { SharedCapacity } from "../gates/budget/capacity.ts";
import { RequestCosts } from "../gates/budget/cost.ts";
import { Admission } from "./admission.ts";
import { Delivery } from "./delivery.ts";

const Q = queueOf("q");

function delivery(): Delivery {
  const message = readEntry('{"request_kind":"redis","data":{"id":"a","deadline":9e9,"payload":{}}}', Q);
  const claim = { id: "c", queue: Q, message, cancelled: false, publishedAt: Number.NaN, lost: false };
  const { signal } = new AbortController();
  return new Delivery(claim, { now: 0, leaseUntil: 1, signal, onReleaseFailed: () => {} });
}

/** A capacity that lets so many requests run. */
function capacityOf(requests: number, clock: VirtualClock): SharedCapacity {
  const reading: CapacityReading = {
    ...{ readable: true, problem: "", budget: 1, baseline: 0, maxSys: requests, unit: "requests", kind: "occupancy" },
    ...{ sampleTime: clock.wall(), value: 1, threshold: 0 },
  };
  return new SharedCapacity({ key: String(requests), read: async () => reading }, clock, 1, () => {});
}

describe("Admission", () => {
  it.each([
    [1, 3],
    [3, 1],
  ])("takes room in every capacity or in none: %i and %i", async (first, second) => {
    const clock = new VirtualClock();
    const capacities = [capacityOf(first, clock), capacityOf(second, clock)];
    const admission = new Admission(capacities, { queueName: "q", workers: 64, share: 1 }, new RequestCosts());
    await admission.refresh(false);
    const taken = delivery();
    expect(admission.take(taken)).toBe(true);
    expect(admission.take(delivery())).toBe(false);
    expect(capacities.map(({ own }) => own)).toEqual([1, 1]);
    taken.release();
    expect(capacities.map(({ own }) => own)).toEqual([0, 0]);
    expect(admission.take(delivery())).toBe(true);
  });
});

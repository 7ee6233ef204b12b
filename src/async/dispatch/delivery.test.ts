import { describe, expect, it } from "vitest";
import { queueOf } from "../../../test/support/brokers/broker.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { createDispatchMetrics } from "../../base/telemetry/dispatch-metrics.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import type { Settlement } from "../brokers/broker.ts";
import { readEntry } from "../brokers/intake.ts";
import { errorResult } from "../brokers/messages/result.ts";
import { BrokerTime } from "./broker-time.ts";
import { Delivery } from "./delivery.ts";
import { type MessageOutcome, Outcomes } from "./outcomes.ts";
import { QueueSeries } from "./series.ts";
import { SettlementWriter } from "./settlement-writer.ts";

const Q = queueOf("q");

function delivery() {
  const failures: unknown[] = [];
  const message = readEntry('{"request_kind":"redis","data":{"id":"a","deadline":9e9,"payload":{}}}', Q);
  const claim = { id: "c", queue: Q, message, cancelled: false, publishedAt: Number.NaN, lost: false };
  const signal = new AbortController().signal;
  const it = new Delivery(claim, {
    now: 0,
    leaseUntil: 1,
    signal,
    onReleaseFailed: (problem, gate) => failures.push(`${gate}: ${String(problem)}`),
  });
  return { it, failures };
}

describe("Delivery", () => {
  it("gives reservations back once, the last first, and says whether it was sent", () => {
    for (const sent of [false, true]) {
      const { it } = delivery();
      const given: string[] = [];
      for (const name of ["a", "b"])
        it.reserve("the gate of queue q").reservations.add((unsent) =>
          given.push(`${name} ${unsent ? "unsent" : "sent"}`),
        );
      if (sent) it.started([]);
      it.release();
      it.release();
      expect(it.end()).toBe(true);
      expect(given).toEqual(sent ? ["b sent", "a sent"] : ["b unsent", "a unsent"]);
    }
  });

  it("undoes what one question has reserved, and nothing else", () => {
    const { it } = delivery();
    const given: string[] = [];
    it.reserve("the gate of queue q").reservations.add(() => given.push("first"));
    const { reservations, undo } = it.reserve("the gate of queue q");
    reservations.add(() => given.push("second"));
    undo();
    expect(given).toEqual(["second"]);
    // Too late: nobody wants it any more.
    reservations.add(() => given.push("third"));
    expect(given).toEqual(["second", "third"]);
    it.release();
    expect(given).toEqual(["second", "third", "first"]);
  });

  it("one gate that takes nothing back does not keep the others from it", async () => {
    const { it, failures } = delivery();
    const given: string[] = [];
    const { reservations } = it.reserve("the gate of queue q");
    reservations.add(() => given.push("a"));
    reservations.add(() => {
      throw new Error("thrown");
    });
    reservations.add((() => Promise.reject(new Error("rejected"))) as () => void);
    reservations.add(() => given.push("d"));
    it.release();
    expect(given).toEqual(["d", "a"]);
    await Promise.resolve().then(() => {});
    expect(failures).toEqual(["the gate of queue q: Error: thrown", "the gate of queue q: Error: rejected"]);
  });
});

describe("Outcomes", () => {
  it("a message leaves once, whichever way comes first, and is counted once", async () => {
    const clock = new VirtualClock(1_700_000_000_000);
    const metrics = createDispatchMetrics(new MetricsRegistry());
    const ways: readonly MessageOutcome[] = [
      { kind: "result", result: errorResult("a", "CANCELLED", "cancelled"), counts: "cancelled" },
      { kind: "expired" },
      { kind: "unusable", problem: "no deadline" },
      { kind: "retry", retryAfterMs: undefined, last: errorResult("a", "DEADLINE_EXCEEDED", ""), cause: "" },
      { kind: "later", seconds: 1 },
      { kind: "back" },
    ];
    for (const first of ways) {
      const written: Settlement[] = [];
      const writer = new SettlementWriter({
        broker: {
          settle: async (some) => {
            written.push(...some);
            return some.map(() => "settled" as const);
          },
        },
        clock,
        onSettled: () => {},
        onRetry: () => {},
      });
      const series = new QueueSeries(metrics, { queueId: "q", queueName: "q", poolName: "default" });
      const outcomes = new Outcomes({ writer, time: new BrokerTime(clock), random: new SeededRandom(1), series });
      const { it } = delivery();
      expect(outcomes.settle(it, first)).toBe(true);
      const { ended } = outcomes;
      for (const second of ways) expect(outcomes.settle(it, second)).toBe(false);
      await clock.advanceAsync(1000);
      expect(written).toHaveLength(1);
      expect(outcomes.ended).toBe(ended);
    }
  });
});

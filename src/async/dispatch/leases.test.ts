import { describe, expect, it } from "vitest";
import { queueOf } from "../../../test/support/brokers/broker.cases.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { Claim } from "../brokers/broker.ts";
import { readEntry } from "../brokers/intake.ts";
import type { Delivery } from "./delivery.ts";
import { Leases } from "./leases.ts";

const Q = queueOf("q");

function claimOf(id: string): Claim {
  const message = readEntry(`{"request_kind":"redis","data":{"id":"${id}","deadline":9,"payload":{}}}`, Q);
  return { id, queue: Q, message, cancelled: false, publishedAt: Number.NaN, lost: false };
}

/** Leases of 30 s, on a broker whose answers the test gives. */
function held(count: number, renew: (claims: readonly Claim[]) => Promise<readonly Claim[]>) {
  const clock = new VirtualClock(1_700_000_000_000);
  const lost: string[] = [];
  const leases = new Leases({
    broker: { renew, reclaim: async () => {} },
    clock,
    settings: { claimTtl: 30_000, reclaimInterval: 5000, maxAttempts: 0 },
    draining: new AbortController().signal,
    onLost: ({ id }) => lost.push(id),
    onReleaseFailed: () => {},
  });
  const deliveries: Delivery[] = Array.from({ length: count }, (_, i) => leases.hold(claimOf(`c${i}`), clock.now()));
  leases.start();
  return { clock, lost, leases, deliveries };
}

describe("Leases", () => {
  it("renews everything at a third of its life, and forgets what is settled", async () => {
    const renewed: number[] = [];
    const { clock, leases, deliveries } = held(3, async (claims) => {
      renewed.push(claims.length);
      return [];
    });
    await clock.advanceAsync(10_001);
    expect(renewed).toEqual([3]);
    expect(deliveries[0]!.leaseUntil).toBeGreaterThanOrEqual(40_000);
    leases.forget(deliveries[0]!.claim);
    await clock.advanceAsync(10_000);
    expect(renewed).toEqual([3, 2]);
    leases.stop();
    await clock.advanceAsync(60_000);
    expect(renewed).toHaveLength(2);
  });

  it("a batch that cannot be renewed takes no other along, and is tried again within a second", async () => {
    let failing = true;
    const { clock, deliveries } = held(1200, async (claims) => {
      if (failing && claims[0]!.id === "c500") throw new Error("no");
      return [];
    });
    await clock.advanceAsync(10_001);
    const until = deliveries.map(({ leaseUntil }) => leaseUntil);
    expect(until.filter((time) => time > 30_000)).toHaveLength(700);
    expect(until.slice(500, 1000).every((time) => time === 30_000)).toBe(true);
    failing = false;
    await clock.advanceAsync(1001);
    expect(deliveries.every(({ leaseUntil }) => leaseUntil > 30_000)).toBe(true);
  });

  it("renews everything at once when it is told to, and reports no failure of that", async () => {
    const renewed: number[] = [];
    const { leases, deliveries } = held(600, async (claims) => {
      // Resolves when the broker has answered: until then nothing may be claimed.
      await new Promise((resolve) => setImmediate(resolve));
      renewed.push(claims.length);
      if (claims.length < 500) throw new Error("away");
      return [];
    });
    await leases.renewNow();
    expect(renewed).toEqual([500, 100]);
    leases.forget(deliveries[0]!.claim);
    await leases.renewNow();
    expect(renewed).toEqual([500, 100, 500, 99]);
    leases.stop();
    await leases.renewNow();
    expect(renewed).toHaveLength(4);
  });

  it("tells nobody that a lease was lost whose message has left: its settlement tells", async () => {
    const { clock, lost, deliveries } = held(2, async (claims) => claims);
    deliveries[0]!.end();
    await clock.advanceAsync(10_001);
    expect(lost).toEqual(["c1"]);
  });

  it("tells of what is lost once, and does not renew it again", async () => {
    const asked: string[][] = [];
    const { clock, lost } = held(2, async (claims) => {
      asked.push(claims.map(({ id }) => id));
      const gone = claims.filter(({ id }) => id === "c1");
      for (const claim of gone) claim.lost = true;
      return gone;
    });
    await clock.advanceAsync(20_001);
    expect(asked).toEqual([["c0", "c1"], ["c0"]]);
    expect(lost).toEqual(["c1"]);
  });
});

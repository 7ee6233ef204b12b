import { describe, expect, it } from "vitest";
import { Harness } from "../../../test/support/dispatch/harness.cases.ts";
import { delay } from "../../base/clock/clock.ts";

const WORKERS = 32;

/** A backlog for a dispatcher whose broker takes some milliseconds to answer a claim. */
async function withSlowClaims(latency: number, messages: number, claim = 10) {
  const harness = new Harness({ workers: WORKERS });
  const claims = harness.broker.claim.bind(harness.broker);
  const seen = { claimed: 0, claims: 0 };
  harness.broker.claim = async (queue, wanted) => {
    seen.claims++;
    await delay(harness.clock, claim);
    const result = await claims(queue, wanted);
    seen.claimed = Math.max(seen.claimed, harness.store.leases.size);
    return result;
  };
  harness.gateway.latency = latency;
  await harness.submitMany(messages);
  harness.start();
  return { ...harness, harness, seen };
}

describe("WorkerPool", () => {
  it("workers whose answers come at one moment do not all wait for one claim", async () => {
    const rounds = 80;
    const { harness, gateway } = await withSlowClaims(200, WORKERS * rounds);
    await harness.run(rounds * 220);
    expect(gateway.requests).toHaveLength(WORKERS * rounds);
    const half = gateway.requests.slice((WORKERS * rounds) / 2);
    // A round takes 210 ms where each worker waits for its claim.
    expect((half.at(-1)!.at - half[0]!.at) / (rounds / 2)).toBeLessThan(201);
  });

  it("claims ahead what workers begin within milliseconds, and a quarter of the workers at most", async () => {
    const { harness, seen } = await withSlowClaims(1, 6000);
    await harness.run(1500);
    expect(seen.claimed).toBeGreaterThan(WORKERS);
    expect(seen.claimed).toBeLessThanOrEqual(WORKERS * 1.25);
  });

  it("claims many at a time, though workers end one by one", async () => {
    const { harness, gateway, seen } = await withSlowClaims(0, 4000, 1);
    let sent = 0;
    // Answers come at times of their own.
    Object.defineProperty(gateway, "latency", { get: () => 30 + (sent++ % 16) });
    await harness.run(6000);
    expect(gateway.requests).toHaveLength(4000);
    expect(4000 / seen.claims).toBeGreaterThan(3);
  });

  it("claims nothing ahead where answers take long: other dispatchers may have it", async () => {
    const { harness, seen } = await withSlowClaims(10_000, 1000);
    await harness.run(60_000);
    expect(seen.claimed).toBe(WORKERS);
    // Where a gateway has become slow, what was claimed ahead is used up first.
    expect(harness.store.leases.size).toBe(WORKERS);
  });
});

import { describe, expect, it } from "vitest";
import { quantile } from "../../src/base/telemetry/quantile.ts";
import { closedLoop } from "./closed-loop.ts";

const LOOP = { servers: 3, seed: 2, duration: 75_000, realtimeShare: 0.4 } as const;
/** Share of the slots kept free for realtime traffic whose load moves between half and one and a half of its mean. */
const RESERVE = 0.35;

describe("closed loop of realtime traffic and a backlog, in virtual time", () => {
  it("the gate keeps realtime traffic unharmed and gives the backlog what an oracle would", async () => {
    const alone = await closedLoop({ ...LOOP, gate: "none" });
    const open = await closedLoop({ ...LOOP, gate: "open" });
    const gated = await closedLoop({ ...LOOP, gate: "budget", baseline: RESERVE });
    const oracles = await Promise.all(
      [0.25, 0.3, RESERVE].map((baseline) => closedLoop({ ...LOOP, gate: "oracle", baseline })),
    );
    const p99 = ({ ttfts }: { ttfts: readonly number[] }): number => quantile(ttfts, 0.99);
    const bearable = 1.25 * p99(alone);
    // The test has teeth: without a gate the backlog ruins it.
    expect(p99(open)).toBeGreaterThan(3 * p99(alone));
    expect(p99(gated)).toBeLessThanOrEqual(bearable);
    const best = Math.max(...oracles.filter((run) => p99(run) <= bearable).map(({ finished }) => finished));
    expect(best).toBeGreaterThan(0);
    expect(gated.finished).toBeGreaterThanOrEqual(0.6 * best);
    expect(gated.ttfts.length).toBe(alone.ttfts.length);
  });

  it.each([1, 4])(
    "prometheus-saturation keeps its ceiling, whatever the workers are: %d for each slot",
    async (perSlot) => {
      const loop = { servers: 2, seed: 3, duration: 40_000, realtimeShare: 0 } as const;
      const { saturations, finished } = await closedLoop({
        ...{ ...loop, gate: "saturation", baseline: 0.2, workers: perSlot * 2 * 16 },
      });
      expect(Math.max(...saturations)).toBeLessThanOrEqual(0.8);
      // 25 of the 32 slots for 30 s, 2 s each.
      expect(finished).toBeGreaterThan(280);
    },
  );

  it("holdback in the picker keeps realtime unharmed without a gate; eviction ends backlog requests, which come back", async () => {
    const loop = { ...LOOP, duration: 40_000 } as const;
    const alone = await closedLoop({ ...loop, gate: "none" });
    const held = await closedLoop({ ...loop, gate: "open", flowControl: { eviction: false, ceiling: 1 - RESERVE } });
    const evicting = await closedLoop({ ...loop, gate: "open", flowControl: { eviction: true } });
    const p99 = ({ ttfts }: { ttfts: readonly number[] }): number => quantile(ttfts, 0.99);
    expect(p99(held)).toBeLessThanOrEqual(1.25 * p99(alone));
    expect(held.evicted).toBe(0);
    expect(held.finished).toBeGreaterThan(0);
    expect(evicting.evicted).toBeGreaterThan(0);
    expect(evicting.wasted).toBeGreaterThan(0);
    expect(evicting.finished).toBeGreaterThan(held.finished);
    for (const { ttfts } of [held, evicting]) expect(ttfts.length).toBeGreaterThan(0.9 * alone.ttfts.length);
  });

  it("a batch of the Batch API leaves the time to first token as it is, where flow control knows when servers are full", async () => {
    const loop = { ...LOOP, duration: 45_000 } as const;
    const alone = await closedLoop({ ...loop, gate: "none" });
    const beside = await closedLoop({ ...loop, gate: "batch", flowControl: { eviction: false } });
    const open = await closedLoop({ ...loop, gate: "open" });
    const p99 = ({ ttfts }: { ttfts: readonly number[] }): number => quantile(ttfts, 0.99);
    expect(p99(beside)).toBeLessThanOrEqual(1.1 * p99(alone));
    expect(beside.ttfts.length).toBe(alone.ttfts.length);
    // The batch gets much of what it gets when nothing holds it back: the gate keeps a fifth free, and live traffic goes first.
    expect(beside.finished).toBeGreaterThan(0.4 * open.finished);
  });

  it("never lets more run than max_SYS leaves above the reserve, although the metrics are a second old", async () => {
    const { peak } = await closedLoop({ ...LOOP, duration: 40_000, gate: "budget", baseline: 0.5 });
    expect(peak).toBeGreaterThan(0);
    expect(peak).toBeLessThanOrEqual(24);
  });
});

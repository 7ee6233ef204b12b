import { describe, expect, it } from "vitest";
import { EventIndex } from "../prefix/event-index.ts";
import { TokenChain } from "../prefix/token-chain.ts";
import { Announcements } from "./announcements.ts";
import type { BlocksStored } from "./event-batch.ts";
import { EventCounts } from "./event-counts.ts";
import { Tiers } from "./tiers.ts";

function driven() {
  const tiers = new Tiers([]);
  const index = new EventIndex({ weights: tiers.weights, maxPairs: 100_000, key: 7 });
  const counts = new EventCounts();
  let cleared = 0;
  const announcements = new Announcements({
    ...{ index, tiers, counts },
    chain: new TokenChain(1, 2, ""),
    onCleared: () => {
      cleared++;
    },
  });
  return { index, counts, announcements, cleared: () => cleared };
}

/** A block of one token of a group with full attention. */
const stored = (group: number): BlocksStored => ({
  ...{ type: "stored", low: Int32Array.of(1), high: Int32Array.of(1), count: 1 },
  ...{ hasParent: false, parentLow: 0, parentHigh: 0, tokens: Int32Array.of(1), tokenCount: 1, blockSize: 1 },
  ...{ tier: "gpu", adapter: "", extras: undefined, group, kind: group < 0 ? "" : "full_attention" },
});

const skipped = ({ skips }: { skips(): Iterable<{ reason: string; count: number }> }): [string, number][] =>
  [...skips()].map(({ reason, count }) => [reason, count]);

describe("Announcements", () => {
  it("one endpoint has 32 sources at most; others keep theirs", () => {
    const { index, counts, announcements } = driven();
    for (let rank = 0; rank < 1_000; rank++)
      for (let group = 0; group < 16; group++) announcements.take(stored(group), 0, rank, "m");
    expect(index.blocksOf(0)).toBe(32);
    expect(skipped({ skips: () => counts.skips() })).toEqual([["too_many_sources", 16_000 - 32]]);
    announcements.take(stored(-1), 1, 0, "m");
    expect(index.blocksOf(1)).toBe(1);
  });

  it("all endpoints have a few sources each on average, and each endpoint has one", () => {
    const { index, announcements } = driven();
    for (let slot = 0; slot < 100; slot++)
      for (let rank = 0; rank < 32; rank++) announcements.take(stored(-1), slot, rank, "m");
    expect(index.size).toBeLessThanOrEqual(4 * 100 + 64);
    for (let slot = 0; slot < 100; slot++) expect(index.blocksOf(slot)).toBeGreaterThan(0);
  });

  it("forgotten sources make room for others, and whoever frees the memory is told", () => {
    const { index, announcements, cleared } = driven();
    for (let life = 0; life < 1_000; life++) {
      announcements.take(stored(-1), 0, life, "m");
      expect(index.blocksOf(0)).toBe(1);
      announcements.take({ type: "cleared" }, 0, life, "m");
    }
    expect(cleared()).toBe(1_000);
    announcements.take(stored(-1), 0, 5, "m");
    announcements.clear(0);
    expect(cleared()).toBe(1_001);
    expect(index.blocksOf(0)).toBe(0);
  });
});

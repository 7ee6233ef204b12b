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

  it("believes no rank above 1,024, and 16 groups of one endpoint", () => {
    const { index, counts, announcements } = driven();
    for (const rank of [1_025, 2 ** 40, Number.MAX_SAFE_INTEGER]) announcements.take(stored(-1), 0, rank, "m");
    expect(skipped({ skips: () => counts.skips() })).toEqual([["too_many_sources", 3]]);
    const ofState = (group: number): BlocksStored => ({ ...stored(group), kind: "mamba" });
    for (let group = 0; group < 1_000; group++) announcements.take(ofState(group), 0, 0, "m");
    expect(skipped({ skips: () => counts.skips() })).toEqual([
      ["too_many_sources", 3],
      ["unsupported_cache_kind", 16],
      ["too_many_sources", 1_000 - 16],
    ]);
    expect(index.size).toBe(0);
  });

  it("hashes prompts for two block sizes of one endpoint, and for 16 of all; who has a known size is heard", () => {
    const { index, counts, announcements } = driven();
    const sized = (blockSize: number): BlocksStored => ({
      ...stored(-1),
      ...{ blockSize, tokens: new Int32Array(blockSize), tokenCount: blockSize },
    });
    for (let size = 1; size <= 10; size++) announcements.take(sized(size), 0, 0, "m");
    expect(announcements.blockSizes).toEqual([1, 2]);
    for (let slot = 1; slot < 100; slot++) announcements.take(sized(2 + slot), slot, 0, "m");
    expect(announcements.blockSizes).toHaveLength(16);
    announcements.take(sized(3), 100, 0, "m");
    expect(index.blocksOf(100)).toBe(1);
    announcements.take(sized(2 ** 16 + 1), 101, 0, "m");
    expect(skipped({ skips: () => counts.skips() })).toEqual([
      ["too_many_block_sizes", 8 + 99 - 14],
      ["invalid_block_size", 1],
    ]);
  });

  it("skips blocks with fewer tokens than they claim, and blocks that let an engine skip no beginning", () => {
    const { index, counts, announcements } = driven();
    const two = { low: Int32Array.of(1, 2), high: Int32Array.of(1, 2), count: 2 };
    announcements.take(
      { ...stored(-1), ...two, tokens: Int32Array.of(1, 2, 3), tokenCount: 3, blockSize: 2 },
      0,
      0,
      "m",
    );
    announcements.take({ ...stored(0), kind: "sliding_window" }, 0, 0, "m");
    // The group keeps its kind.
    announcements.take({ ...stored(0), kind: "" }, 0, 0, "m");
    expect(skipped({ skips: () => counts.skips() })).toEqual([
      ["non_dense_block_span", 1],
      ["unsupported_cache_kind", 2],
    ]);
    expect(index.size).toBe(0);
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

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BlockHashes } from "../../../prefix/block-hash.ts";
import { type Placed, type PlacementSettings, place } from "./placement.ts";

const USUAL: PlacementSettings = {
  maxPerReplica: Number.POSITIVE_INFINITY,
  minColocateBlocks: 0,
  balanceBy: "requests",
};

/** A request of one prompt; each letter stands for a block, whose hash depends on all letters before it. */
function asking(prompt: string): Placed {
  const hashes = new BlockHashes();
  hashes.reset(prompt.length, 1);
  let state = 7;
  for (let i = 0; i < prompt.length; i++) {
    state = (Math.imul(state, 31) + prompt.charCodeAt(i)) | 0;
    hashes.low[i] = state;
    hashes.high[i] = ~state;
  }
  hashes.count = prompt.length;
  hashes.ends[0] = prompt.length;
  hashes.prompts = 1;
  return { hashes, replica: undefined };
}

/** Where requests with these prompts go, in order, with as many replicas as `running` has figures. */
function placed(prompts: readonly string[], running: readonly number[], settings: Partial<PlacementSettings> = {}) {
  const requests = prompts.map(asking);
  const replicas = running.map((figure, i) => ({ name: `r${i}`, running: figure }));
  place(requests, replicas, { ...USUAL, ...settings });
  return requests.map(({ replica }) => replica);
}

/** Pairs of equal long prompts, and how often their blocks are read while they are placed. */
function reads(pairs: number, blocks: number, settings: Partial<PlacementSettings>): number {
  let count = 0;
  const requests = Array.from({ length: pairs }, (_, n): Placed => {
    const hashes = new BlockHashes();
    hashes.reset(blocks, 1);
    hashes.low.fill(n);
    for (let i = 0; i < blocks; i++) hashes.high[i] = i;
    hashes.count = blocks;
    hashes.ends[0] = blocks;
    hashes.prompts = 1;
    const low = new Proxy(hashes.low, {
      get(target, key) {
        count++;
        return Reflect.get(target, key);
      },
    });
    const { high, ends, prompts } = hashes;
    return { hashes: { low, high, ends, prompts, count: blocks } as BlockHashes, replica: undefined };
  });
  const all = requests.flatMap((request) => [request, { ...request }]);
  place(
    all,
    [
      { name: "a", running: 0 },
      { name: "b", running: 0 },
    ],
    { ...USUAL, ...settings },
  );
  return count;
}

describe("the placement of one window (scheduling 3.10.5)", () => {
  it("sends equal prompts to one replica, and different ones to different replicas", () => {
    expect(placed(["ab", "xy", "ab", "xy", "ab"], [0, 0])).toEqual([0, 1, 0, 1, 0]);
  });

  it("leaves alone what shares nothing, and prompts without a block", () => {
    expect(placed(["ab", "cd", ""], [0, 0])).toEqual([undefined, undefined, undefined]);
    expect(placed(["ab", "ab"], [])).toEqual([undefined, undefined]);
  });

  it("begins with the replica that runs least; an unknown figure counts as 0", () => {
    expect(placed(["ab", "ab"], [5, 3, 4])).toEqual([1, 1]);
    expect(placed(["ab", "ab"], [5, Number.NaN])).toEqual([1, 1]);
  });

  it("puts at most maxPerReplica of a group on a replica, and spreads what is left evenly", () => {
    const five = placed(Array(5).fill("ab"), [0, 0, 0], { maxPerReplica: 2 });
    expect([0, 1, 2].map((replica) => five.filter((one) => one === replica).length)).toEqual([2, 2, 1]);
    const seven = placed(Array(7).fill("ab"), [0, 0], { maxPerReplica: 2 });
    expect([0, 1].map((replica) => seven.filter((one) => one === replica).length).sort()).toEqual([3, 4]);
    // The second replica computes less, but has its two.
    const prompts = ["aaaaaaaa", "aaaaaaaa", "bb", "bb", "bb", "bb"];
    expect(placed(prompts, [0, 0], { maxPerReplica: 2, balanceBy: "tokens" })).toEqual([0, 0, 1, 1, 0, 0]);
  });

  it("places a single prompt beside another one that shares enough blocks, if asked to", () => {
    // Without minColocateBlocks only groups.
    expect(placed(["abcd", "abcd", "abxy"], [0, 0])).toEqual([0, 0, undefined]);
    // Of four placed requests each of two replicas may have two: the group fills its own.
    expect(placed(["abcd", "abcd", "abxy", "zz", "zz"], [0, 0], { minColocateBlocks: 2 })[2]).toBeDefined();
    expect(placed(["abcd", "abxy", "pq"], [0, 0], { minColocateBlocks: 2 })).toEqual([0, 1, undefined]);
    expect(placed(["abcd", "abxy"], [0], { minColocateBlocks: 3 })).toEqual([undefined, undefined]);
    expect(placed(["abcd", "abxy", "qrs", "qrt"], [0, 0], { minColocateBlocks: 2 })).toEqual([0, 0, 1, 1]);
  });

  it("prefers no replica for less than minColocateBlocks", () => {
    const prompts = ["abcd", "abcd", "axyz", "axyz", "zz", "zz", "zz", "zz"];
    expect(placed(prompts, [0, 0], { minColocateBlocks: 2 })).toEqual([0, 0, 1, 1, 0, 0, 0, 0]);
    expect(placed(prompts, [0, 0], { minColocateBlocks: 1 })).toEqual([0, 0, 0, 0, 1, 1, 1, 1]);
  });

  it("by tokens charges a replica with what it must compute, once", () => {
    const prompts = ["aaaaaaaa", "aaaaaaaa", "bb", "bb", "cc", "cc", "dd", "dd"];
    // Eight blocks against three times two.
    expect(placed(prompts, [0, 0], { balanceBy: "tokens" })).toEqual([0, 0, 1, 1, 1, 1, 1, 1]);
    const byRequests = placed(prompts, [0, 0]);
    expect(byRequests.filter((one) => one === 0)).toHaveLength(4);
  });

  it("always places whole groups within the limits (property)", () => {
    const prompt = fc.string({ unit: fc.constantFrom("a", "b", "c"), minLength: 0, maxLength: 4 });
    const settings = fc.record({
      maxPerReplica: fc.constantFrom(1, 2, Number.POSITIVE_INFINITY),
      minColocateBlocks: fc.constantFrom(0, 1, 2),
      balanceBy: fc.constantFrom("requests" as const, "tokens" as const),
    });
    fc.assert(
      fc.property(
        fc.array(prompt, { maxLength: 20 }),
        fc.integer({ min: 1, max: 4 }),
        settings,
        (prompts, n, given) => {
          const where = placed(prompts, Array(n).fill(0), given);
          for (const text of new Set(prompts)) {
            const own = where.filter((_, i) => prompts[i] === text);
            const company = prompts.filter(
              (other) => other.slice(0, given.minColocateBlocks) === text.slice(0, given.minColocateBlocks),
            ).length;
            const shares = given.minColocateBlocks > 0 && text.length >= given.minColocateBlocks && company > 1;
            if (text !== "" && (own.length > 1 || shares)) for (const replica of own) expect(replica).toBeLessThan(n);
            else expect(own.every((replica) => replica === undefined)).toBe(true);
            for (let replica = 0; replica < n; replica++) {
              const here = own.filter((one) => one === replica).length;
              expect(here).toBeLessThanOrEqual(
                Math.max(given.maxPerReplica, Math.ceil(own.length / n) + given.maxPerReplica),
              );
            }
            if (given.maxPerReplica === Number.POSITIVE_INFINITY) expect(new Set(own).size).toBe(1);
          }
        },
      ),
    );
  });

  it("reads no blocks that it does not need, and a bounded number of those that it needs", () => {
    expect(reads(100, 2_048, {})).toBeLessThan(1_000);
    expect(reads(100, 2_048, { minColocateBlocks: 1 })).toBeLessThan(2 ** 17 + 1_000);
    expect(reads(100, 2_048, { balanceBy: "tokens" })).toBeLessThan(2 ** 17 + 1_000);
  });
});

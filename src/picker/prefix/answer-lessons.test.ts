import { describe, expect, it } from "vitest";
import { AnswerLessons } from "./answer-lessons.ts";
import { BlockHashes } from "./block-hash.ts";
import { type PeerPlacement, PrefixIndex } from "./prefix-index.ts";

const CAPACITY = { blocks: 100_000, tokens: Number.POSITIVE_INFINITY };
const BLOCK = 64;

/** A chain of blocks that no other number has. */
function chain(number: number, blocks: number): BlockHashes {
  const hashes = new BlockHashes();
  hashes.reset(blocks, 1);
  for (let i = 0; i < blocks; i++) {
    hashes.low[i] = Math.imul(number * 1000 + i, 0x9e3779b1);
    hashes.high[i] = Math.imul(number * 1000 + i, 0x85ebca77);
  }
  hashes.count = blocks;
  hashes.ends[hashes.prompts++] = blocks;
  return hashes;
}

/** Blocks as a message has them. */
function packed({ low, high, count }: BlockHashes): PeerPlacement {
  return { low, high, from: 0, count };
}

/** An index with what learns from answers, and requests of ten blocks. */
function setUp() {
  const index = new PrefixIndex();
  const lessons = new AnswerLessons(index);
  const route = (number: number, { slot = 0, blocks = 10 } = {}) => {
    const hashes = chain(number, blocks);
    const before = new Int32Array(blocks);
    index.add(hashes, slot, BLOCK, CAPACITY, undefined, before);
    const turn = index.turnOf(slot);
    const tokens = blocks * BLOCK;
    const lesson = lessons.open({ slot, turn, before, blocks, tokens });
    return {
      ...lesson,
      /** The answer as a whole. @param cached share of the prompt */
      ends(cached: number | undefined, promptTokens = tokens): void {
        lesson.answered();
        lesson.ended(cached === undefined ? undefined : { promptTokens, cachedTokens: cached * promptTokens });
      },
    };
  };
  const held = (number: number, slot = 0): number => {
    const out = new Float64Array(1);
    index.match(chain(number, 10), [{ slot }], 1, out);
    return out[0]!;
  };
  /** Ten chains, each answered as it should be. */
  for (let number = 1; number <= 10; number++) route(number).ends(0);
  return { index, lessons, route, held };
}

describe("what an index learns from answers", () => {
  it("two answers in a row without what was expected: all that the endpoint used no later goes, and nothing later", () => {
    const { route, held, lessons } = setUp();
    route(4).ends(0);
    expect([held(1), held(3), lessons.corrections]).toEqual([10, 10, 0]);
    route(5).ends(0);
    // 1 to 4 are not later than 4, which was missing; 4 and 5 themselves are there again.
    expect([1, 2, 3, 4, 5, 6, 10].map((n) => held(n))).toEqual([0, 0, 0, 10, 10, 10, 10]);
    expect([lessons.corrections, lessons.dropped]).toEqual([1, 30]);
  });

  it("a part that is missing says as much as a whole: its first missing block counts", () => {
    const { route, held } = setUp();
    route(2).ends(0.3);
    route(3).ends(0.3);
    expect([held(1), held(2), held(4)]).toEqual([0, 10, 10]);
  });

  it("one answer changes nothing, and an endpoint that still has blocks of that age takes it back", () => {
    const { route, held, lessons } = setUp();
    route(5).ends(0);
    route(1).ends(0.98);
    route(6).ends(0);
    expect([held(2), lessons.corrections]).toEqual([10, 0]);
    // But blocks that were used later than the missing ones prove nothing.
    route(10).ends(0.98);
    route(7).ends(0);
    expect([held(2), held(3), held(4), held(8), lessons.corrections]).toEqual([0, 0, 0, 10, 1]);
  });

  it.each([
    ["says nothing", undefined],
    ["has what was expected", 0.95],
    ["has most of it", 0.7],
  ])("an answer that %s changes nothing", (_what, cached) => {
    const { route, held, lessons } = setUp();
    for (const number of [4, 5, 6]) route(number).ends(cached);
    expect([held(1), lessons.corrections]).toEqual([10, 0]);
  });

  it("a prompt whose tokens nobody could estimate teaches nothing: its places are unknown", () => {
    const { route, held } = setUp();
    for (const number of [4, 5, 6]) route(number).ends(0, 10 * BLOCK * 3);
    for (const number of [4, 5, 6]) route(number).ends(0, (10 * BLOCK) / 3);
    expect(held(1)).toBe(10);
  });

  it("blocks of a request without its first byte yet may not be there: they prove nothing when they are missing", () => {
    const { route, held, lessons } = setUp();
    const long = route(20);
    // Both of them were expected because of requests that came after that one.
    route(21).ends(0);
    route(22).ends(0);
    route(21).ends(0);
    route(22).ends(0);
    expect([held(1), lessons.corrections]).toEqual([10, 0]);
    long.answered();
    route(21).ends(0);
    route(22).ends(0);
    expect(lessons.corrections).toBe(1);
  });

  it("an answer that ends late says nothing: the endpoint has used a quarter of its blocks since", () => {
    for (const [between, corrections] of [
      [[9], 1],
      [[8, 9], 0],
    ] as const) {
      const { route, lessons } = setUp();
      // Of 100 blocks, 20 or 30 are used after the first of these requests.
      const open = [route(4), route(5)];
      for (const number of between) route(number).ends(undefined);
      for (const one of open) one.ends(0);
      expect(lessons.corrections).toBe(corrections);
    }
  });

  it("blocks that only another replica placed may not be there yet: they prove nothing when they are missing", () => {
    const { route, lessons, index } = setUp();
    for (const number of [14, 15]) index.addOfPeer(packed(chain(number, 10)), 0, BLOCK, CAPACITY);
    for (const number of [14, 15]) route(number).ends(0);
    expect(lessons.corrections).toBe(0);
    // What this process placed itself says as much as ever, also when a peer has used it since.
    for (const number of [4, 5]) index.addOfPeer(packed(chain(number, 10)), 0, BLOCK, CAPACITY);
    for (const number of [4, 5]) route(number).ends(0);
    expect(lessons.corrections).toBe(1);
  });

  it("a request that failed holds nothing up", () => {
    const { route, lessons } = setUp();
    route(20).ended(undefined);
    for (const number of [21, 22, 21, 22]) route(number).ends(0);
    expect(lessons.corrections).toBe(1);
  });

  it("one correction costs an endpoint half of its blocks, also after a restart, and other endpoints none", () => {
    const { route, held, index } = setUp();
    route(1, { slot: 1 }).ends(0);
    const before = index.blocksOf(0);
    route(10).ends(0);
    route(9).ends(0);
    expect(index.blocksOf(0)).toBe(before / 2);
    expect([held(1), held(5), held(6), held(1, 1)]).toEqual([0, 0, 10, 10]);
    // What is left of the time before goes with the next two.
    route(6).ends(0);
    route(7).ends(0);
    expect([held(6), held(7), held(8)]).toEqual([10, 10, 10]);
  });

  it("an answer to what an endpoint was before it left the pool says nothing of the next one in its slot", () => {
    const { route, lessons, index, held } = setUp();
    const late = [route(4), route(5)];
    lessons.forget(0);
    index.remove(0);
    for (let number = 1; number <= 3; number++) route(number).ends(0);
    for (const lesson of late) lesson.ends(0);
    expect([held(1), lessons.corrections]).toEqual([10, 0]);
  });

  it("keeps no more than 1,024 unanswered requests of an endpoint", () => {
    const { route, lessons } = setUp();
    route(29);
    for (let number = 0; number < 1024; number++) route(30, { blocks: 1 });
    route(29).ends(0);
    route(4).ends(0);
    expect(lessons.corrections).toBe(1);
  });

  it("keeps a chain in 16 parts: what lies behind them teaches nothing", () => {
    const { route, lessons } = setUp();
    // Each request is a block shorter than the one before, so each block of the longest one has a turn of its own.
    for (const number of [50, 51]) for (let blocks = 20; blocks > 0; blocks--) route(number, { blocks }).ends(1);
    for (const number of [50, 51]) route(number, { blocks: 20 }).ends(0.6);
    expect(lessons.corrections).toBe(0);
  });
});

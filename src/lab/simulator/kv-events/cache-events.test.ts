import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../../base/clock/random.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { SimEngine } from "../engine.ts";
import { type CacheEvent, CacheEvents } from "./cache-events.ts";

/** An engine with a small cache, and the events that it has published, those of one moment together. */
function setUp(kvCacheSize = 6) {
  const clock = new VirtualClock();
  const engine = new SimEngine({ config: { kvCacheSize, blockSize: 4 }, clock, random: new SeededRandom(1) });
  const batches: (readonly CacheEvent[])[] = [];
  engine.kv.listener = new CacheEvents(clock, 4, (events) => batches.push(events));
  const run = (prompt: number[], adapter?: string): number => {
    const spec = { prompt: Uint32Array.from(prompt), outputTokens: 1, adapter };
    const { cachedTokens } = engine.submit(spec, {});
    clock.run();
    return cachedTokens;
  };
  return { engine, batches, run };
}

const tokens = (count: number, from = 0): number[] => Array.from({ length: count }, (_, i) => from + i);

describe("the KV-cache events of a simulated engine", () => {
  it("name the full blocks that came, with their tokens, behind the block before them", () => {
    const { batches, run } = setUp();
    run(tokens(9));
    run([...tokens(8), 90, 91, 92, 93]);
    const [[first], [second]] = batches as [[CacheEvent], [CacheEvent]];
    const hashes = first[1] as bigint[];
    expect(hashes).toHaveLength(2);
    expect(first).toEqual(["BlockStored", hashes, null, tokens(8), 4, null, "GPU", null]);
    expect(second).toEqual(["BlockStored", [expect.any(BigInt)], hashes[1], [90, 91, 92, 93], 4, null, "GPU", null]);
  });

  it("name an adapter, and nothing for a prompt that is all there", () => {
    const { batches, run } = setUp();
    run(tokens(8), "tuned");
    run(tokens(8), "tuned");
    expect(batches).toHaveLength(1);
    expect(batches[0]![0]!.at(-1)).toBe("tuned");
  });

  it("name blocks that had to go before those that took their room, and the end of all", () => {
    const { batches, run, engine } = setUp(4);
    run(tokens(12));
    run(tokens(12, 100));
    const [, second] = batches;
    expect(second!.map(([type]) => type)).toEqual(["BlockRemoved", "BlockStored"]);
    // The tail of a prompt goes first.
    const stored = batches[0]![0]![1] as bigint[];
    expect(second![0]).toEqual(["BlockRemoved", [stored[2], stored[1]], "GPU"]);
    engine.reset();
    run(tokens(4, 200));
    expect(batches.at(-1)!.map(([type]) => type)).toEqual(["AllBlocksCleared", "BlockStored"]);
  });

  it("tell the truth: whoever follows them knows how much of a prompt the engine has", () => {
    const { batches, run, engine } = setUp(40);
    const random = new SeededRandom(7);
    const held = new Map<bigint, string>();
    const apply = ([type, hashes, parent, ids]: CacheEvent): void => {
      if (type === "AllBlocksCleared") held.clear();
      else if (type === "BlockRemoved") for (const hash of hashes as bigint[]) held.delete(hash);
      else
        for (const [i, hash] of (hashes as bigint[]).entries()) {
          const before =
            i === 0 ? (parent === null ? "" : held.get(parent as bigint)!) : held.get((hashes as bigint[])[i - 1]!)!;
          held.set(hash, `${before} ${(ids as number[]).slice(4 * i, 4 * i + 4).join(" ")}`);
        }
    };
    for (let i = 0; i < 300; i++) {
      const prompt = [
        ...tokens(4 * (1 + random.below(6)), 1000 * random.below(3)),
        ...tokens(1 + random.below(40), random.below(9)),
      ];
      const known = new Set(held.values());
      let expected = 0;
      while (expected + 4 <= prompt.length && known.has(` ${prompt.slice(0, expected + 4).join(" ")}`)) expected += 4;
      expect(run(prompt)).toBe(expected);
      for (const event of batches.splice(0).flat()) apply(event);
      if (i % 100 !== 99) continue;
      engine.reset();
      // The event comes with those of the next prompt.
      held.clear();
    }
  });
});

import { describe, expect, it } from "vitest";
import { idsOf } from "../../../../test/support/simulator/workloads/workloads.cases.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { joined, randomText } from "./prompt-text.ts";

const BLOCK = 16;

describe("prompt text", () => {
  it("is words of three letters and a space, as many as asked for", () => {
    for (const tokens of [1, 2, 3, 4, 100]) {
      const text = randomText(new SeededRandom(1), tokens);
      expect(text).toHaveLength(tokens * 4);
      expect(new TextDecoder().decode(text)).toMatch(new RegExp(`^([a-z]{3} ){${tokens}}$`));
    }
    expect(randomText(new SeededRandom(1), 0)).toHaveLength(0);
  });

  it("is the same for the same chance, and goes on where another text from it ended", () => {
    const random = new SeededRandom(7);
    const first = randomText(random, 300);
    const second = randomText(random, 300);
    expect(randomText(new SeededRandom(7), 300)).toEqual(first);
    expect(second).not.toEqual(first);
  });

  it("begins alike at every length: with equal seeds, a longer text extends a shorter one", () => {
    const long = randomText(new SeededRandom(9), 1000);
    for (const tokens of [1, 2, 3, 17, 999])
      expect(randomText(new SeededRandom(9), tokens)).toEqual(long.subarray(0, tokens * 4));
  });

  it("uses all of its 1,024 words about equally often", () => {
    const counts = new Map<number, number>();
    for (const id of idsOf(randomText(new SeededRandom(3), 200_000))) counts.set(id, (counts.get(id) ?? 0) + 1);
    expect(counts.size).toBe(1024);
    expect(Math.max(...counts.values())).toBeLessThan((200_000 / 1024) * 1.4);
    expect(Math.min(...counts.values())).toBeGreaterThan((200_000 / 1024) * 0.6);
  });

  it("has no block in common with any other text, wherever in it", () => {
    const blocks = new Set<string>();
    const random = new SeededRandom(5);
    let count = 0;
    for (let text = 0; text < 100; text++) {
      const ids = idsOf(randomText(random, 512));
      for (let at = 0; at + BLOCK <= ids.length; at += 1, count++) blocks.add(ids.subarray(at, at + BLOCK).join());
    }
    expect(blocks.size).toBe(count);
  });

  it("is joined in memory that is aligned for its ids, whatever the parts", () => {
    const [a, b] = [randomText(new SeededRandom(1), 5), randomText(new SeededRandom(2), 7)];
    const whole = joined(a, b.subarray(4), new Uint8Array(0));
    expect(whole.byteOffset % 4).toBe(0);
    expect([...idsOf(whole)]).toEqual([...idsOf(a), ...idsOf(b).subarray(1)]);
    expect(joined()).toHaveLength(0);
  });
});

import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { orderedToken } from "./request-token.ts";

describe("orderedToken (async-processor 5.2.3)", () => {
  it("A-37 is 32 hex digits, never the same, and sorts by time, then by number", () => {
    const random = new SeededRandom(1);
    const wall = 1_800_000_000_000;
    const tokens: string[] = [];
    for (let ms = 0; ms < 50; ms++)
      for (let number = 0; number < 20; number++) tokens.push(orderedToken(wall + ms * 7, ms * 20 + number, random));
    expect(tokens.every((token) => /^[0-9a-f]{32}$/.test(token))).toBe(true);
    expect(new Set(tokens).size).toBe(tokens.length);
    expect([...tokens].sort()).toEqual(tokens);
  });

  it("two producers at the same moment do not make the same", () => {
    expect(orderedToken(1, 0, new SeededRandom(1))).not.toBe(orderedToken(1, 0, new SeededRandom(2)));
  });

  it("keeps its length when numbers grow beyond their digits", () => {
    expect(orderedToken(2 ** 52, 2 ** 40 + 3, new SeededRandom(1))).toMatch(/^[0-9a-f]{12}0003[0-9a-f]{16}$/);
  });
});

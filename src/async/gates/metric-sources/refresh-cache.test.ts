import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { messageOf } from "../../../base/inference/errors.ts";
import { RefreshCache, whileWanted } from "./refresh-cache.ts";

/** A cache over questions that the test answers by hand. */
function bench(ttl: number) {
  const clock = new VirtualClock();
  const asked: { answer(value: string): void; fail(error: Error): void; signal: AbortSignal }[] = [];
  const cache = new RefreshCache<string>({
    clock,
    ttl,
    limit: 5000,
    ask: (signal) => new Promise((answer, fail) => asked.push({ answer, fail, signal })),
    failed: (error) => `failed: ${messageOf(error)}`,
  });
  return { clock, asked, cache };
}

const many = (cache: RefreshCache<string>, count = 64) =>
  Promise.all(Array.from({ length: count }, () => cache.read(false)));

describe("cache of metric sources (A-17)", () => {
  it("asks once per TTL for 64 callers, counted from the start of the question", async () => {
    const { clock, asked, cache } = bench(5000);
    const first = many(cache);
    clock.advance(1000);
    asked[0]!.answer("a");
    expect(new Set(await first)).toEqual(new Set(["a"]));
    clock.advance(3999);
    expect(await many(cache)).toEqual(Array(64).fill("a"));
    expect(cache.kept).toBe("a");
    expect(asked).toHaveLength(1);
    clock.advance(1);
    expect(cache.kept).toBeUndefined();
    void many(cache);
    expect(asked).toHaveLength(2);
  });

  it("TTL 0 keeps nothing and still asks once at a time", async () => {
    const { asked, cache } = bench(0);
    const first = many(cache);
    expect(asked).toHaveLength(1);
    asked[0]!.answer("a");
    expect(new Set(await first)).toEqual(new Set(["a"]));
    expect(cache.kept).toBeUndefined();
    const second = many(cache);
    expect(asked).toHaveLength(2);
    asked[1]!.answer("b");
    expect(new Set(await second)).toEqual(new Set(["b"]));
  });

  it("gives the last value to those who come while one refresh runs", async () => {
    const { clock, asked, cache } = bench(5000);
    const first = cache.read(false);
    asked[0]!.answer("a");
    await first;
    clock.advance(5000);
    const refreshing = cache.read(false);
    expect(await many(cache)).toEqual(Array(64).fill("a"));
    asked[1]!.answer("b");
    expect(await refreshing).toBe("b");
    expect(await cache.read(false)).toBe("b");
    expect(asked).toHaveLength(2);
  });

  it("a value from long ago is not given any more", async () => {
    const { clock, asked, cache } = bench(5000);
    const first = cache.read(false);
    asked[0]!.answer("a");
    await first;
    clock.advance(600_000);
    const waiting = many(cache);
    asked[1]!.answer("b");
    expect(new Set(await waiting)).toEqual(new Set(["b"]));
  });

  it("keeps failures as long as answers", async () => {
    const { clock, asked, cache } = bench(5000);
    const first = cache.read(false);
    asked[0]!.fail(new Error("refused"));
    expect(await first).toBe("failed: refused");
    clock.advance(4999);
    expect(await cache.read(false)).toBe("failed: refused");
    expect(asked).toHaveLength(1);
  });

  it("a fresh read passes over what is kept and joins a question under way", async () => {
    const { asked, cache } = bench(5000);
    const first = cache.read(false);
    asked[0]!.answer("a");
    await first;
    const fresh = [cache.read(true), cache.read(true)];
    expect(asked).toHaveLength(2);
    expect(await cache.read(false)).toBe("a");
    asked[1]!.answer("b");
    expect(await Promise.all(fresh)).toEqual(["b", "b"]);
    expect(await cache.read(false)).toBe("b");
  });

  it("a question that hangs ends after its limit, is told to stop, and delays nobody else's", async () => {
    const { clock, asked, cache } = bench(5000);
    const other = bench(5000);
    const hung = cache.read(false);
    const quick = other.cache.read(false);
    other.asked[0]!.answer("b");
    expect(await quick).toBe("b");
    clock.advance(5000);
    expect(await hung).toBe("failed: no answer within 5000 ms");
    expect(asked[0]!.signal.aborted).toBe(true);
    const again = cache.read(false);
    asked[1]!.answer("a");
    expect(await again).toBe("a");
  });

  it("a caller's abort is its own", async () => {
    const { asked, cache } = bench(5000);
    const leaving = new AbortController();
    const left = whileWanted(cache.read(false), leaving.signal);
    const stays = whileWanted(cache.read(false), new AbortController().signal);
    leaving.abort(new Error("no longer wanted"));
    await expect(left).rejects.toThrow("no longer wanted");
    expect(asked[0]!.signal.aborted).toBe(false);
    asked[0]!.answer("a");
    expect(await stays).toBe("a");
    await expect(whileWanted(cache.read(false), leaving.signal)).rejects.toThrow("no longer wanted");
  });

  it("closing ends what is under way and keeps nothing", async () => {
    const { clock, asked, cache } = bench(5000);
    const first = cache.read(false);
    cache.close();
    expect(await first).toBe("failed: closed");
    expect(asked[0]!.signal.aborted).toBe(true);
    expect(await cache.read(false)).toBe("failed: closed");
    expect(clock.pending).toBe(0);
  });
});

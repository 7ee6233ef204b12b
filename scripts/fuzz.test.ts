import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SeededRandom } from "../src/base/clock/random.ts";
import { keep, readCorpus } from "./fuzz/corpus.ts";
import { Fuzzer, MAX_OUTCOMES, MAX_POOL } from "./fuzz/fuzzer.ts";
import { MAX_LONG_INPUT, Mutator } from "./fuzz/mutator.ts";
import { fuzz } from "./fuzz/run.ts";
import { SharedInput } from "./fuzz/shared-input.ts";
import type { FuzzTarget } from "./fuzz/target.ts";
import { TARGETS } from "./fuzz/targets/index.ts";

describe.each(TARGETS.map((target) => [target.name, target] as const))("fuzz target %s", (name, target) => {
  it.each(readCorpus(name).map(({ name: file, bytes }) => [file, bytes] as const))("holds for %s", (_file, bytes) => {
    target.run(bytes);
  });

  it("holds for what a fixed seed makes of the corpus", () => {
    const corpus = readCorpus(name).map(({ bytes }) => bytes);
    const fuzzer = new Fuzzer(target, corpus, 20261121);
    expect(fuzzer.first()).toBeUndefined();
    for (let i = 0; i < target.shortRuns; i++) {
      const failure = fuzzer.try(fuzzer.make());
      if (failure !== undefined) throw new Error(`${failure.message}\ninput: ${failure.input.toString("base64")}`);
    }
    // Most of what can happen is met on the way, or this proves little.
    expect(fuzzer.outcomes).toBeGreaterThan(corpus.length);
  });
});

/** Fails for what holds "bug" behind an even number of bytes; each first byte is a new outcome. */
const PLANTED: FuzzTarget = {
  name: "planted",
  tokens: ["b", "u", "g"],
  shortRuns: 0,
  run(input) {
    if (input.indexOf("bug") >= 0 && input.indexOf("bug") % 2 === 0) throw new Error("planted");
    return `${input.indexOf("b") >= 0} ${input.indexOf("bu") >= 0} ${input[0]}`;
  },
};

function findPlanted(seed: number): { readonly runs: number; readonly input: Buffer } {
  const fuzzer = new Fuzzer(PLANTED, [Buffer.from("some seed")], seed);
  for (let i = 0; i < 100_000; i++) {
    const failure = fuzzer.try(fuzzer.make());
    if (failure !== undefined) return { runs: fuzzer.runs, input: fuzzer.shrink(failure).input };
  }
  throw new Error("not found");
}

describe("the fuzzer", () => {
  it("finds a planted failure, makes it small, and does the same again for the same seed", () => {
    const found = findPlanted(1);
    expect(found.input.toString()).toBe("bug");
    expect(findPlanted(1)).toEqual(found);
  });

  it("bounds what it builds upon, whatever a target says", () => {
    let n = 0;
    const fuzzer = new Fuzzer({ ...PLANTED, run: () => `${n++}` }, [], 1);
    for (let i = 0; i < MAX_OUTCOMES + 1000; i++) fuzzer.try(Buffer.alloc(1));
    expect([fuzzer.pool, fuzzer.outcomes]).toEqual([MAX_POOL, MAX_OUTCOMES]);
  });

  it("makes inputs of all sizes up to the limit, and never changes those it builds upon", () => {
    const mutator = new Mutator(new SeededRandom(1), ["token"]);
    const pool = [Buffer.alloc(0), Buffer.from("abc"), Buffer.alloc(3000, "x")];
    const before = pool.map((input) => Buffer.from(input));
    const lengths = Array.from({ length: 20_000 }, () => mutator.next(pool).length);
    expect(pool).toEqual(before);
    expect(Math.min(...lengths)).toBe(0);
    expect(Math.max(...lengths)).toBeGreaterThan(64 * 1024);
    expect(Math.max(...lengths)).toBeLessThan(4 * MAX_LONG_INPUT);
  });

  it("keeps a failing input as a case of the corpus, once", () => {
    const root = mkdtempSync(join(tmpdir(), "sluice-corpus-"));
    try {
      for (const text of ["a", "b", "a"]) keep("some", Buffer.from(text), root);
      const kept = readCorpus("some", root);
      expect(kept.map(({ bytes }) => bytes.toString()).sort()).toEqual(["a", "b"]);
      for (const { name } of kept) expect(name).toMatch(/^found-[0-9a-f]{12}\.bin$/);
    } finally {
      rmSync(root, { recursive: true });
    }
  });

  it("shows the input that is being tried to another thread, cut where it is absurdly long", () => {
    const shared = new SharedInput();
    const other = new SharedInput(shared.memory);
    shared.show(Buffer.from("first"));
    shared.show(Buffer.from("2nd"));
    expect([other.shown, other.current.toString()]).toEqual([2, "2nd"]);
    shared.show(Buffer.alloc(shared.memory.byteLength + 1));
    expect(other.current.length).toBe(shared.memory.byteLength - 8);
  });

  it("runs in a thread of its own", async () => {
    const result = await fuzz("sse", { seed: 1, milliseconds: 100 }, () => {});
    expect(result.failure).toBeUndefined();
    expect(result.runs).toBeGreaterThan(readCorpus("sse").length);
  });
});

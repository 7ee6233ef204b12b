import { describe, expect, it } from "vitest";
import { blocksOf, setUp, tokens } from "../../../../test/support/simulator/batching/batching-engine.cases.ts";

describe("the prefix cache", () => {
  it("later sequences find full blocks in the cache", () => {
    const { clock, submit, engine } = setUp({ tokenBudget: 64 });
    const first = submit({ prompt: tokens(13) });
    clock.advance(1);
    const twin = submit({ prompt: tokens(13) });
    const other = submit({ prompt: Uint32Array.from([...tokens(9), 7, 7, 7]) });
    clock.run();
    expect([first.cachedTokens, twin.cachedTokens, other.cachedTokens]).toEqual([0, 12, 8]);
    expect(engine.counters).toMatchObject({ prefixQueries: 13 + 13 + 12, prefixHits: 20, promptTokens: 38 });
  });

  it("two prompts that start with one step share what the first of them fills, as in vLLM", () => {
    const { clock, engine, steps, submit } = setUp({ tokenBudget: 64 });
    submit({ prompt: 1 });
    submit({ prompt: tokens(12), outputTokens: 1 });
    submit({ prompt: Uint32Array.from([...tokens(8), 7, 7]), outputTokens: 1 });
    clock.run();
    expect(steps[1]).toMatchObject({ prefillTokens: 12 + 2, sequences: 3 });
    expect([engine.counters.prefixHits, ...blocksOf(engine)]).toEqual([8, 0, 3]);
  });

  it("what a chunk has not reached yet is not found with it", () => {
    const { clock, submit } = setUp({ tokenBudget: 10 });
    submit({ prompt: tokens(16), outputTokens: 1 });
    const twin = submit({ prompt: tokens(16), outputTokens: 1 });
    clock.run();
    // The first chunk leaves no room in its step; with the second one, two tokens behind two full blocks, there is.
    expect(twin.cachedTokens).toBe(12);
  });

  it("the last token of a prompt is computed although all of it is there: its whole last block", () => {
    const { clock, steps, submit } = setUp();
    submit({ prompt: tokens(8), outputTokens: 1 });
    clock.run();
    const again = submit({ prompt: tokens(8), outputTokens: 1 });
    clock.run();
    expect([again.cachedTokens, steps.at(-1)!.prefillTokens]).toEqual([4, 4]);
  });

  it("generated blocks are found again where the answer is known, and not beyond what is known of it", () => {
    const { clock, submit } = setUp();
    const next = tokens(24);
    submit({ prompt: tokens(6), outputTokens: 12, answer: tokens(9, 1, 6) });
    clock.run();
    const turn = submit({ prompt: next });
    clock.run();
    // 15 tokens known: three full blocks. Without an answer only the one that lies in the prompt.
    expect(turn.cachedTokens).toBe(12);
    const other = setUp();
    other.submit({ prompt: tokens(6), outputTokens: 12 });
    other.clock.run();
    const second = other.submit({ prompt: next });
    other.clock.run();
    expect(second.cachedTokens).toBe(4);
  });

  it("the last token of an answer is never computed: it fills no block", () => {
    const { clock, submit } = setUp();
    submit({ prompt: tokens(6), outputTokens: 2, answer: tokens(2, 1, 6) });
    clock.run();
    expect(submit({ prompt: tokens(12) }).cachedTokens).toBe(4);
  });

  it("blocks are kept in order of release, the tail of a prompt is evicted first", () => {
    const { clock, engine, submit } = setUp({ kvBlocks: 6 });
    submit({ prompt: tokens(12, 1), outputTokens: 1 });
    clock.run();
    submit({ prompt: tokens(12, 2), outputTokens: 1 });
    clock.run();
    expect(blocksOf(engine)).toEqual([0, 6]);
    // A block more is needed: it comes from the end of the first prompt.
    submit({ prompt: 3, outputTokens: 1 });
    clock.run();
    expect(submit({ prompt: tokens(13, 1), outputTokens: 1 }).cachedTokens).toBe(8);
  });

  it("blocks without contents are taken in the same order as all others, as in vLLM", () => {
    const { clock, engine, submit } = setUp({ kvBlocks: 4 });
    submit({ prompt: tokens(8, 1), outputTokens: 1 });
    clock.run();
    submit({ prompt: 8, outputTokens: 1 });
    clock.run();
    expect(blocksOf(engine)).toEqual([0, 2]);
    submit({ prompt: 4, outputTokens: 1 });
    expect(blocksOf(engine)).toEqual([1, 1]);
  });

  it("prefixes are shared under equal keys only: an adapter has its own", () => {
    const { clock, submit } = setUp();
    const prompt = tokens(9);
    submit({ prompt });
    clock.run();
    const found = [
      submit({ prompt, adapter: "a" }),
      submit({ prompt, cacheKey: "tenant" }),
      submit({ prompt, adapter: "a", cacheKey: "" }),
    ];
    clock.run();
    expect(found.map(({ cachedTokens }) => cachedTokens)).toEqual([0, 0, 8]);
  });

  it("is not there when switched off, nor for a prompt of which only the length is known", () => {
    const { clock, engine, submit } = setUp({ prefixCache: false });
    for (let i = 0; i < 2; i++) {
      submit({ prompt: tokens(9) });
      clock.run();
    }
    const counted = setUp();
    for (let i = 0; i < 2; i++) {
      counted.submit({ prompt: 9 });
      counted.clock.run();
    }
    expect([engine.counters.prefixHits, counted.engine.counters.prefixHits]).toEqual([0, 0]);
    expect([blocksOf(engine), blocksOf(counted.engine)]).toEqual([
      [0, 0],
      [0, 0],
    ]);
  });
});

describe("too few blocks", () => {
  it("the sequence admitted last is preempted, waits at the head of the queue, and is computed again with its generated tokens", () => {
    const { clock, engine, log, steps, submit } = setUp({ kvBlocks: 4, maxModelLen: 16 });
    submit({ prompt: 7, outputTokens: 6 });
    submit({ prompt: 7, outputTokens: 6 });
    submit({ prompt: 1, outputTokens: 1 });
    clock.run();
    // 7 + 7 tokens fill 2 blocks each. The first one's token at position 8 needs a third: the second has to go.
    expect(log).toEqual([
      "0 start 1",
      "17 token 1 +1",
      "17 start 2",
      "34 token 1 +1",
      "34 token 2 +1",
      "44 token 1 +1",
      "54 token 1 +1",
      "64 token 1 +1",
      "74 token 1 +1",
      "74 finish 1 stop",
      "74 start 3",
      "93 token 2 +1",
      "93 token 3 +1",
      "93 finish 3 stop",
      "103 token 2 +1",
      "113 token 2 +1",
      "123 token 2 +1",
      "133 token 2 +1",
      "133 finish 2 stop",
    ]);
    expect(engine.counters).toMatchObject({ preemptions: 1, generationTokens: 13, promptTokens: 15, finished: 3 });
    expect(steps[6]).toMatchObject({ prefillTokens: 8 + 1, decoding: 0 });
  });

  it("one that gives way finds its own blocks again where they have not been taken", () => {
    const { clock, engine, steps, submit } = setUp({ kvBlocks: 4, maxModelLen: 16 });
    submit({ prompt: 7, outputTokens: 3 });
    const second = submit({ prompt: tokens(7), outputTokens: 6 });
    clock.run();
    expect([engine.counters.preemptions, second.cachedTokens]).toEqual([1, 0]);
    const again = steps.find(({ prefillTokens }, i) => i > 1 && prefillTokens > 0)!;
    expect(again.prefillTokens).toBe(4);
  });

  it("no sequence starts before the head of the queue fits", () => {
    const { clock, engine, log, submit } = setUp({ kvBlocks: 5, maxModelLen: 20 });
    submit({ prompt: 12, outputTokens: 2 });
    submit({ prompt: 12, outputTokens: 1 });
    submit({ prompt: 1, outputTokens: 1 });
    clock.advance(22);
    expect([engine.running, engine.waiting]).toEqual([1, 2]);
    clock.run();
    expect(log.filter((line) => line.includes("start"))).toEqual(["0 start 1", "32 start 2", "32 start 3"]);
  });

  it("a head of the queue that did not fit starts when its shared blocks are computed", () => {
    const { clock, log, submit } = setUp({ kvBlocks: 6, maxModelLen: 24, tokenBudget: 32 });
    submit({ prompt: tokens(16), outputTokens: 8 });
    clock.advance(1);
    submit({ prompt: tokens(18), outputTokens: 1 });
    clock.advance(30);
    expect(log).toEqual(["0 start 1", "26 token 1 +1", "26 start 2"]);
  });

  it("what can never fit is refused", () => {
    const { engine, log, submit } = setUp({ kvBlocks: 5, maxModelLen: 50 });
    submit({ prompt: 51, outputTokens: 1 });
    submit({ prompt: 21, outputTokens: 1 });
    submit({ prompt: 18, outputTokens: 3 });
    submit({ prompt: 18, outputTokens: undefined, maxTokens: 3 });
    submit({ prompt: 0 });
    expect(log).toEqual([1, 2, 3, 4, 5].map((id) => `0 reject ${id} context-length`));
    expect([engine.counters.rejected, engine.waiting, engine.running]).toEqual([5, 0, 0]);
    expect(submit({ prompt: 18, outputTokens: 2 }).state).toBe("running");
  });

  it("an answer without a maximum ends where the context does", () => {
    const { clock, submit } = setUp({ kvBlocks: 5 });
    const sequence = submit({ prompt: 12, outputTokens: undefined, ignoreEos: true });
    clock.run();
    expect([sequence.produced, sequence.finishReason]).toEqual([8, "length"]);
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { setUp, tokens } from "../../../../test/support/simulator/batching/batching-engine.cases.ts";
import type { Sequence } from "../sequence.ts";
import { presetNamed } from "./config.ts";

/** Only attention takes time, but for the least step. */
const ATTENTION = { base: 1, prefill: 0, attention: 0.25, context: 0, sequence: 0 };

/** Milliseconds until the first token of a prompt on an idle server. */
function firstToken({ clock, submit }: ReturnType<typeof setUp>, prompt: Uint32Array | number): number {
  const before = clock.now();
  const sequence = submit({ prompt, outputTokens: 1 });
  clock.advance(1e9);
  return sequence.firstTokenAt - before;
}

describe("the quadratic cost of attention", () => {
  it("is that of all pairs of a token and those before it, in chunks of any size", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 90 }), fc.integer({ min: 1, max: 100 }), (length, tokenBudget) => {
        const parts = setUp({ cost: ATTENTION, tokenBudget });
        // A token pairs with those before it and half with itself: together a half of the square.
        const steps = Math.ceil(length / tokenBudget);
        expect(firstToken(parts, length)).toBeCloseTo(
          steps * ATTENTION.base + ATTENTION.attention * (length ** 2 / 2),
          6,
        );
      }),
    );
  });

  it("does not count the pairs among the tokens that the cache holds", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 15 }), fc.integer({ min: 1, max: 30 }), (blocks, rest) => {
        const parts = setUp({ cost: ATTENTION, tokenBudget: 1000 });
        const cached = blocks * 4;
        firstToken(parts, tokens(cached));
        const prompt = Uint32Array.from([...tokens(cached), ...tokens(rest, 9)]);
        const pairs = ((cached + rest) ** 2 - cached ** 2) / 2;
        expect(firstToken(parts, prompt)).toBeCloseTo(ATTENTION.base + ATTENTION.attention * pairs, 6);
      }),
    );
  });

  it("makes the calibrated preset as fast as llm-d's measurement: 8,192 tokens at 15,928 a second", () => {
    const { config } = presetNamed("qwen3-32b-2xh100-calibrated")!;
    const parts = setUp(config);
    expect(8192 / (firstToken(parts, 8192) / 1000)).toBeCloseTo(15_928, 3);
    // A prompt of four times the length takes more than four times as long: 2e-6 ms for each further pair.
    const [short, long] = [8192, 32_768].map((length) => firstToken(parts, length)) as [number, number];
    const pairs = (32_768 ** 2 - 4 * 8192 ** 2) / 2;
    expect(long - 4 * short).toBeCloseTo(2e-6 * pairs, 6);
  });
});

describe("the API process", () => {
  it("delays requests one after the other, and changes nothing else", () => {
    const arrivals = fc.array(
      fc.record({
        gap: fc.integer({ min: 0, max: 60 }),
        prompt: fc.integer({ min: 1, max: 40 }),
        outputTokens: fc.integer({ min: 1, max: 5 }),
      }),
      { minLength: 1, maxLength: 12 },
    );
    fc.assert(
      fc.property(arrivals, fc.integer({ min: 1, max: 40 }), (requests, wholeMs) => {
        // Fractions, so that no arrival meets the end of a step: the order of the two is not the same for both engines.
        const apiMs = wholeMs + 0.37;
        const [delayed, plain] = [setUp({ apiMs }), setUp()];
        let [at, free] = [0, 0];
        const sent = { delayed: [] as Sequence[], plain: [] as Sequence[] };
        for (const { gap, ...spec } of requests) {
          at += gap + 0.013;
          free = Math.max(at, free) + apiMs;
          delayed.clock.after(at, () => sent.delayed.push(delayed.submit({ ...spec, seed: 1 })));
          // What one server at a time passes on is what an engine without an API process gets then.
          plain.clock.after(free, () => sent.plain.push(plain.submit({ ...spec, seed: 1 })));
        }
        for (const { clock } of [delayed, plain]) clock.advance(1e6);
        const times = (of: readonly Sequence[]) =>
          of.map(({ firstTokenAt, endedAt }) => [firstTokenAt.toFixed(6), endedAt.toFixed(6)]);
        expect(times(sent.delayed)).toEqual(times(sent.plain));
        expect(delayed.engine.waiting).toBe(0);
      }),
    );
  });

  it("counts among the waiting requests, but not in the metrics", () => {
    const { clock, engine, submit } = setUp({ apiMs: 5 });
    submit();
    submit();
    expect([engine.waiting, engine.running, engine.snapshotMetrics().waiting]).toEqual([2, 0, 0]);
    clock.advance(5);
    expect([engine.waiting, engine.running]).toEqual([1, 1]);
  });

  it("still takes its time for a request that ends there, which no engine sees", () => {
    const { clock, engine, log, submit } = setUp({ apiMs: 5 });
    const first = submit();
    submit();
    engine.abort(first);
    engine.abort(first);
    expect([engine.waiting, engine.counters.aborted]).toEqual([1, 1]);
    clock.advance(1000);
    expect(log.filter((line) => line.includes("start"))).toEqual(["10 start 2"]);
    expect(engine.counters).toMatchObject({ finished: 1, aborted: 1 });
  });

  it("has no more requests than the queue may", () => {
    const { clock, engine, submit } = setUp({ apiMs: 5, maxWaitingQueueLength: 2 });
    const states = () => [1, 2, 3, 4].map(() => submit().state);
    expect(states()).toEqual(["waiting", "waiting", "rejected", "rejected"]);
    clock.advance(1000);
    expect(engine.counters).toMatchObject({ finished: 2, rejected: 2 });
  });
});

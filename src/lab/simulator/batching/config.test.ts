import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../../base/clock/random.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import type { Sequence } from "../sequence.ts";
import { BatchingEngine } from "./batching-engine.ts";
import { PRESETS, presetNamed } from "./config.ts";

function setUp(name: string) {
  const clock = new VirtualClock();
  const steps: number[] = [];
  const { config } = presetNamed(name)!;
  const onStep = (_: unknown, duration: number): unknown => steps.push(duration);
  const engine = new BatchingEngine({ config, clock, random: new SeededRandom(1), onStep });
  const submit = (prompt: number, outputTokens: number): Sequence => engine.submit({ prompt, outputTokens }, {});
  return { clock, engine, steps, submit, config };
}

describe("Qwen3-32B on two H100", () => {
  it("a step of 8,192 prompt tokens takes 413.5 ms", () => {
    const { clock, steps, submit } = setUp("qwen3-32b-2xh100");
    submit(8192, 1);
    clock.run();
    expect(steps).toEqual([13.5 + 400 + 0.0044]);
  });

  it("7,200 prompt tokens take 365 ms, and another one its 10,080 in two steps", () => {
    const { clock, steps, submit } = setUp("qwen3-32b-2xh100");
    submit(7200, 1);
    clock.run();
    submit(10_080, 1);
    clock.run();
    expect(steps.map((ms) => Math.round(ms * 1000) / 1000)).toEqual([365.067, 413.504, 105.692]);
  });

  it("40 prompts of 200 tokens take 404.3 ms in one step, then a token for each of them 14.3 ms", () => {
    const { clock, steps, submit } = setUp("qwen3-32b-2xh100");
    // The first one keeps the engine busy until all others are there.
    submit(1, 1);
    for (let i = 0; i < 40; i++) submit(200, 2);
    clock.run();
    expect(steps[1]).toBeCloseTo(13.5 + 8000 / 20.48 + 40 * 0.0044, 9);
    expect(steps[2]).toBeCloseTo(13.5 + 40 * 201 * 0.000_076 + 40 * 0.0044, 9);
  });

  it("its cache holds 307,328 tokens: 42 prompts of 7,200 with nothing in common, and no 43rd", () => {
    const { clock, engine, submit } = setUp("qwen3-32b-2xh100");
    for (let i = 0; i < 60; i++) submit(7200, 10_000);
    // 37 steps: until then nobody has generated more than that many tokens.
    clock.advance(15_800);
    expect(engine.snapshotMetrics().blocks * 16).toBe(307_328);
    expect(engine.running).toBe(42);
  });
});

describe("Llama-3.1-8B on one H100", () => {
  it("a step of 8,192 prompt tokens takes 196.1 ms, a token for 99 sequences of 82 tokens 8.3 ms", () => {
    const { clock, steps, submit } = setUp("llama-3-8b-h100");
    submit(8192, 1);
    clock.run();
    for (let i = 0; i < 100; i++) submit(80, 3);
    clock.run();
    expect(steps[0]).toBeCloseTo(7.7 + 8192 * 0.023, 9);
    expect(steps.at(-1)).toBeCloseTo(7.7 + 99 * 82 * 0.000_076, 9);
  });
});

it("no preset lets a context be longer than its cache", () => {
  for (const { config } of PRESETS) expect(config.maxModelLen).toBeLessThan(config.kvBlocks * config.blockSize);
});

it("there is none without a name", () => {
  expect([presetNamed(""), presetNamed("qwen3-32b")]).toEqual([undefined, undefined]);
});

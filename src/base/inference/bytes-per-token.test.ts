import { describe, expect, it } from "vitest";
import { BytesPerToken, MAX_MODELS } from "./bytes-per-token.ts";

const MINUTE = 60_000;

/** A learner that has seen `answers` answers to prompts of `tokens` tokens. */
function taught(bytesPerToken: number, answers = 200, tokens = 4000): BytesPerToken {
  const learner = new BytesPerToken();
  for (let i = 0; i < answers; i++) learner.learn("m", tokens * bytesPerToken, tokens, i);
  return learner;
}

describe("bytes per token", () => {
  it("are 4 while nothing is known, for each model by itself", () => {
    const learner = taught(8);
    expect(new BytesPerToken().of("m")).toBe(4);
    expect(learner.of("other")).toBe(4);
    expect(new BytesPerToken().list()).toEqual([]);
  });

  it.each([1, 2, 3.3, 4, 5.7, 8, 12, 16])("come to %d, whatever the size of the prompts", (truth) => {
    for (const tokens of [1100, 7000, 60_000]) expect(taught(truth, 400, tokens).of("m")).toBeCloseTo(truth, 1);
  });

  it("are those of another replica until there is an own figure, which begins from there", () => {
    const learner = new BytesPerToken();
    learner.told("m", 8);
    expect([learner.of("m"), learner.list()]).toEqual([8, []]);
    learner.learn("m", 1024 * 8, 1024, 0);
    expect(learner.of("m")).toBeCloseTo(8, 9);
    learner.told("m", 2);
    expect(learner.of("m")).toBeCloseTo(8, 9);
  });

  it("of other replicas are kept for at most 256 models with names of bounded length, the newest", () => {
    const learner = new BytesPerToken();
    learner.told("x".repeat(257), 8);
    expect(learner.of("x".repeat(257))).toBe(4);
    for (let i = 0; i <= MAX_MODELS; i++) learner.told(`m${i}`, 8);
    expect(["m0", "m1", `m${MAX_MODELS}`].map((model) => learner.of(model))).toEqual([4, 8, 8]);
  });

  it("are nearly there after the first answers: one prompt of some thousand tokens outweighs the seed", () => {
    expect(taught(8, 1, 7200).of("m")).toBeCloseTo((1024 * 4 + 7200 * 8) / (1024 + 7200), 10);
    expect(taught(8, 5, 7200).of("m")).toBeGreaterThan(7.85);
  });

  it("are all bytes over all tokens: short prompts do not outvote long ones", () => {
    const learner = new BytesPerToken();
    for (let i = 0; i < 300; i++) {
      learner.learn("m", 2000, 1000, i);
      learner.learn("m", 64_000, 8000, i);
    }
    expect(learner.of("m")).toBeCloseTo(66_000 / 9000, 1);
  });

  it("follow a change: what is older than about 260,000 tokens counts less and less", () => {
    const learner = taught(8, 500, 8192);
    for (let i = 0; i < 64; i++) learner.learn("m", 8192 * 3, 8192, 1000 + i);
    expect(learner.of("m")).toBeLessThan(3 + 5 * 0.2);
    for (let i = 0; i < 200; i++) learner.learn("m", 8192 * 3, 8192, 2000 + i);
    expect(learner.of("m")).toBeCloseTo(3, 1);
  });

  it("are moved by one answer by no more than a 32nd of the way, however large it claims to be", () => {
    const learner = taught(4);
    const wrong: readonly (readonly [number, number])[] = [
      [1e6, 62_500],
      [1e6, 2e6],
      [1 << 20, 1 << 20],
    ];
    for (const [bytes, tokens] of wrong) {
      const before = learner.of("m");
      learner.learn("m", bytes, tokens, 300);
      expect(Math.abs(learner.of("m") - before)).toBeLessThanOrEqual(12 / 32);
    }
  });

  it("stay between 1 and 16 whatever servers claim, and take no notice of what is no claim about text", () => {
    const most = taught(20);
    const least = taught(0.6);
    expect([most.of("m"), least.of("m")].map((value) => value.toFixed(1))).toEqual(["16.0", "1.0"]);
    for (const learner of [most, least]) expect(learner.of("m") >= 1 && learner.of("m") <= 16).toBe(true);
    for (const learner of [most, least]) {
      const before = learner.of("m");
      for (const tokens of [Number.NaN, 0, -5, 1, 1e9, Number.POSITIVE_INFINITY]) learner.learn("m", 40_000, tokens, 9);
      expect(learner.of("m")).toBe(before);
    }
    const learner = new BytesPerToken();
    for (const bytes of [Number.NaN, 0, 1023, Number.POSITIVE_INFINITY]) learner.learn("m", bytes, 200, 0);
    expect(learner.list()).toEqual([]);
    learner.learn("m", 1024, 200, 0);
    expect(learner.list()).toEqual([{ model: "m", bytesPerToken: (1024 * 4 + 1024) / (1024 + 200), answers: 1 }]);
  });

  it("come out the same for the same answers in the same order", () => {
    expect(taught(5.5, 77, 1234).list()).toEqual(taught(5.5, 77, 1234).list());
  });
});

describe("the models that are known", () => {
  it("are at most 256, and made-up names displace each other, not a model that is in use (bound)", () => {
    const learner = taught(8);
    for (let i = 0; i < 5000; i++) {
      learner.learn(`made-up-${i}`, 4096, 500, i);
      if (i % 500 === 0) learner.learn("m", 32_000, 4000, i);
    }
    expect(learner.list()).toHaveLength(MAX_MODELS);
    expect(learner.of("m")).toBeGreaterThan(7.9);
    expect(learner.of("made-up-4999")).toBeGreaterThan(4);
  });

  it("make room after a long silence, however well they were known", () => {
    const learner = new BytesPerToken();
    for (let n = 0; n < MAX_MODELS; n++) for (let i = 0; i < 40; i++) learner.learn(`old-${n}`, 64_000, 8000, n);
    const later = 120 * MINUTE;
    learner.learn("new", 64_000, 8000, later);
    learner.learn("newer", 64_000, 8000, later + 1);
    expect([learner.of("new"), learner.of("newer")].every((value) => value > 7)).toBe(true);
    // The ones that have been silent longest went.
    expect([learner.of("old-0"), learner.of("old-1"), learner.of("old-2") > 7]).toEqual([4, 4, true]);
    expect(learner.list()).toHaveLength(MAX_MODELS);
  });

  it("have names of up to 256 characters", () => {
    const learner = new BytesPerToken();
    for (const length of [256, 257]) learner.learn("x".repeat(length), 64_000, 8000, 0);
    expect(learner.list().map(({ model }) => model.length)).toEqual([256]);
  });

  it("are listed by name", () => {
    const learner = new BytesPerToken();
    for (const model of ["b", "c", "a"]) learner.learn(model, 64_000, 8000, 0);
    expect(learner.list().map(({ model }) => model)).toEqual(["a", "b", "c"]);
  });
});

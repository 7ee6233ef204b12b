import { describe, expect, it } from "vitest";
import { LearnedSize } from "./learned-size.ts";

/** A size that has learned from these, with 64 workers and a ceiling of 0.8. */
function learned(...samples: readonly (readonly [taken: number, own: number])[]): LearnedSize {
  const size = new LearnedSize();
  for (const [taken, own] of samples) size.learn({ taken, own, ceiling: 0.8, workers: 64 });
  return size;
}

describe("LearnedSize", () => {
  it("is a quarter of the workers until something of ours runs", () => {
    expect(learned().of(64)).toBe(16);
    expect(learned([0, 0], [0.9, 0]).of(64)).toBe(16);
  });

  it("is what runs over the share that is taken, and never above the workers", () => {
    expect(learned([0.25, 12]).of(64)).toBe(48);
    expect(learned([0.25, 12]).of(40)).toBe(40);
    // Others came: it holds no less than before.
    expect(learned([0.25, 12], [0.5, 12]).of(64)).toBe(48);
  });

  it("shrinks above the ceiling to what the figure proves, unless others are the cause", () => {
    expect(learned([0.25, 15], [0.9, 18]).of(64)).toBe(20);
    expect(learned([0.25, 15], [0.9, 14]).of(64)).toBe(60);
    expect(learned([0.25, 15], [1, 30]).of(64)).toBe(30);
  });

  it("doubles while a figure does not show what runs, as one of waiting requests", () => {
    expect(learned([0, 16]).of(64)).toBe(32);
    expect(learned([0, 16], [0.01, 30]).of(64)).toBe(60);
  });

  it("grows slowly where the room that is left is less than one request of its size", () => {
    expect(learned([0.75, 2]).of(64)).toBe(20);
    expect(learned([0.7, 2]).of(64)).toBe(16);
    expect(learned([0.8, 2]).of(64)).toBe(20);
  });
});

import { describe, expect, it } from "vitest";
import { Backoff } from "./backoff.ts";

describe("Backoff", () => {
  it("waits a random part of a bound that doubles up to the longest, and begins anew after a reset", () => {
    let next = 1;
    const backoff = new Backoff({ next: () => next, below: () => 0 }, 250, 1500);
    expect([1, 2, 3, 4, 5].map(() => backoff.next())).toEqual([250, 500, 1000, 1500, 1500]);
    next = 0.5;
    expect(backoff.next()).toBe(750);
    backoff.reset();
    expect(backoff.next()).toBe(125);
  });
});

import { describe, expect, it } from "vitest";
import { bridged } from "./bridge.ts";

describe("a line over seconds without an observation", () => {
  it("goes on over short times, and breaks over long ones and at the ends", () => {
    const gap = (length: number) => new Array<null>(length).fill(null);
    expect(bridged([1, null, null, 2])).toEqual([1, undefined, undefined, 2]);
    expect(bridged([null, 1, null])).toEqual([null, 1, null]);
    expect(bridged([1, ...gap(5), 2])).toEqual([1, ...new Array(5).fill(undefined), 2]);
    expect(bridged([1, ...gap(6), 2])).toEqual([1, ...gap(6), 2]);
    expect(bridged([])).toEqual([]);
  });
});

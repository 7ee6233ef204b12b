import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { EventIndex } from "../prefix/event-index.ts";
import { Speculation } from "./speculation.ts";

const keys = (first: number, blocks: number): Int32Array =>
  Int32Array.from({ length: 2 * blocks }, (_, i) => first + i);

describe("Speculation", () => {
  it("expects an eighth of the index at most, so that announced blocks stay", () => {
    const index = new EventIndex({ weights: [1], maxPairs: 800, key: 7 });
    for (let n = 0; n < 700; n++) index.add(0, 1, 0, n, 9, n, 9);
    const speculation = new Speculation(index, new VirtualClock(), 0, 1_000);
    for (let request = 0; request < 50; request++) speculation.expect(1, keys(10_000 * request, 60));
    expect(speculation.blocks).toBeLessThanOrEqual(100);
    speculation.expect(1, keys(1_000_000, 5_000));
    expect(speculation.blocks).toBeLessThanOrEqual(100);
    expect(index.blocksOf(0)).toBe(700);
  });

  it("what did not come in time goes, and what the engine itself announced stays", () => {
    const clock = new VirtualClock();
    const index = new EventIndex({ weights: [1], maxPairs: 800, key: 7 });
    // The source of an engine that names neither rank nor group.
    index.add(0, 0, 0, 5, 6, 5, 6);
    const speculation = new Speculation(index, clock, 0, 1_000);
    speculation.expect(0, keys(5, 1));
    expect(index.blocksOf(0)).toBe(2);
    clock.advance(1_000);
    speculation.expire();
    expect(index.blocksOf(0)).toBe(1);
    // The engine takes its block back once.
    speculation.expect(0, keys(5, 1));
    expect(index.remove(0, 0, 0, 5, 6)).toBe("removed");
  });

  it("what an endpoint that left was expected to have goes, whoever has its slot; what others are stays", () => {
    const clock = new VirtualClock();
    const index = new EventIndex({ weights: [1], maxPairs: 800, key: 7 });
    const speculation = new Speculation(index, clock, 0, 1_000);
    speculation.expect(0, keys(100, 3));
    speculation.expect(1, keys(100, 2));
    // As the producer does when the endpoint leaves, and another one gets its slot.
    index.clear(0);
    speculation.forget(0);
    expect([speculation.requests, speculation.blocks]).toEqual([1, 2]);
    clock.advance(500);
    speculation.expect(0, keys(100, 3));
    clock.advance(500);
    speculation.expire();
    expect([index.blocksOf(0), index.blocksOf(1)]).toEqual([3, 0]);
  });
});

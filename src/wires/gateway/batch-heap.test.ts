import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { BatchHeap } from "./batch-heap.ts";

function rig(growth: number, young: readonly boolean[] = [true]) {
  const clock = new VirtualClock();
  const seen: number[] = [];
  let looks = 0;
  const limitYoung = () => young[looks++] ?? true;
  const heap = new BatchHeap({ growth, growBy: (percent) => void seen.push(percent), limitYoung }, clock);
  return { clock, heap, seen, looks: () => looks };
}

describe("the heaps of a gateway with batches", () => {
  it("grow less while lines come, and as ever 10 s later", async () => {
    const { clock, heap, seen } = rig(300);
    heap.look();
    expect(seen).toEqual([]);
    heap.line();
    heap.look();
    heap.look();
    expect(seen).toEqual([50]);
    await clock.advance(9_999);
    heap.look();
    expect(seen).toEqual([50]);
    await clock.advance(1);
    heap.look();
    heap.look();
    expect(seen).toEqual([50, 300]);
  });

  it("never grow more than the memory limit says", () => {
    const { heap, seen } = rig(40);
    heap.line();
    heap.look();
    expect(seen).toEqual([]);
  });

  it("have a young generation that is limited once", () => {
    const { heap, looks } = rig(300, [false, false, true]);
    for (let look = 0; look < 5; look++) heap.look();
    expect(looks()).toBe(3);
  });
});

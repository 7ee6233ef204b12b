import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { BatchHeap } from "./batch-heap.ts";

function rig(growth: number) {
  const clock = new VirtualClock();
  const seen: (number | "collection")[] = [];
  let looks = 0;
  const limitYoung = () => void looks++;
  const growBy = (percent: number) => void seen.push(percent);
  const heap = new BatchHeap({ growth, growBy, collect: () => void seen.push("collection"), limitYoung }, clock);
  return { clock, heap, seen, looks: () => looks };
}

describe("the heaps of a gateway with batches", () => {
  it("grow less while lines come, and as ever 10 s later", async () => {
    const { clock, heap, seen } = rig(300);
    heap.begin();
    seen.length = 0;
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

  it("are collected once, with a limit for the first batch", () => {
    const { heap, seen } = rig(300);
    heap.begin();
    heap.look();
    expect(seen).toEqual([50, "collection", 300]);
  });

  it("never grow more than the memory limit says", () => {
    const { heap, seen } = rig(40);
    heap.begin();
    heap.line();
    heap.look();
    expect(seen).toEqual([40, "collection", 40]);
  });

  it("are left alone during the start", () => {
    const { heap, seen, looks } = rig(300);
    heap.line();
    heap.look();
    expect([seen, looks()]).toEqual([[], 0]);
    heap.begin();
    heap.look();
    expect([seen, looks()]).toEqual([[50, "collection", 300, 50], 1]);
  });
});

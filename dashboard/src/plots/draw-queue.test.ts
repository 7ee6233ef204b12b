import { expect, it } from "vitest";
import { DrawQueue } from "./draw-queue.ts";

/** A queue whose frames the test begins. */
function setUp() {
  const frames: (() => void)[] = [];
  const drawn: string[] = [];
  const queue = new DrawQueue((frame) => frames.push(frame));
  const plots = ["a", "b", "c", "d", "e"].map((name) => () => void drawn.push(name));
  const frame = (): string[] => {
    drawn.length = 0;
    for (const begin of frames.splice(0)) begin();
    return [...drawn];
  };
  return { queue, plots, frame, frames };
}

it("draws two plots in a frame, each once, in the order in which they asked", () => {
  const { queue, plots, frame, frames } = setUp();
  for (const plot of [...plots, ...plots]) queue.add(plot);
  expect(frames).toHaveLength(1);
  expect([frame(), frame(), frame(), frame()]).toEqual([["a", "b"], ["c", "d"], ["e"], []]);
  expect(frames).toHaveLength(0);
  queue.add(plots[1]!);
  expect(frame()).toEqual(["b"]);
});

it("draws none that was removed, and the others when one fails", () => {
  const { queue, plots, frame } = setUp();
  queue.add(() => {
    throw new Error("no canvas");
  });
  for (const plot of plots) queue.add(plot);
  queue.remove(plots[1]!);
  expect(frame).toThrow("no canvas");
  expect([frame(), frame()]).toEqual([["c", "d"], ["e"]]);
});

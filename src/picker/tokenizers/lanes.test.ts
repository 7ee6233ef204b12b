import { describe, expect, it } from "vitest";
import { LARGE_BYTES, Lanes, MAX_LARGE, MAX_SMALL, MAX_WAITING_BYTES, OVERTAKERS } from "./lanes.ts";

const small = (name: number | string = 0) => ({ name, bytes: 10 });
const large = (name: number | string = 0, bytes = LARGE_BYTES + 1) => ({ name, bytes });

describe("the lanes of prompts that wait for a tokenizer", () => {
  it("let small ones go before large ones, each lane in its order", () => {
    const lanes = new Lanes<{ name: number | string; bytes: number }>();
    for (const item of [large("L1"), small("s1"), large("L2"), small("s2")]) expect(lanes.add(item)).toBe(true);
    const order = Array.from({ length: 5 }, () => lanes.take(0, 1)?.name);
    expect(order).toEqual(["s1", "s2", "L1", "L2", undefined]);
    expect(lanes.waiting).toEqual({ small: 0, large: 0, largeBytes: 0 });
  });

  it("let a large one go after enough small ones overtook it", () => {
    const lanes = new Lanes<{ name: number | string; bytes: number }>();
    lanes.add(large("L1"));
    lanes.add(large("L2"));
    for (let i = 0; i < 100; i++) lanes.add(small(i));
    const order = Array.from({ length: 2 * OVERTAKERS + 3 }, () => lanes.take(0, 1)!.name);
    expect(order[OVERTAKERS]).toBe("L1");
    expect(order[2 * OVERTAKERS + 1]).toBe("L2");
    expect(order.filter((name) => typeof name === "number")).toHaveLength(2 * OVERTAKERS + 1);
  });

  it("leave one of several workers to small ones", () => {
    const lanes = new Lanes<{ name: number | string; bytes: number }>();
    lanes.add(large("L1"));
    expect(lanes.take(1, 2)).toBeUndefined();
    expect(lanes.take(1, 1)).toBeUndefined();
    expect(lanes.take(1, 3)?.name).toBe("L1");
    lanes.add(large("L2"));
    expect(lanes.take(0, 1)?.name).toBe("L2");
  });

  it("have bounds of their own, so that large ones leave room for small ones and the other way round", () => {
    const lanes = new Lanes<{ name: number | string; bytes: number }>();
    for (let i = 0; i < MAX_LARGE; i++) expect(lanes.add(large(i))).toBe(true);
    expect(lanes.add(large())).toBe(false);
    for (let i = 0; i < MAX_SMALL; i++) expect(lanes.add(small(i))).toBe(true);
    expect(lanes.add(small())).toBe(false);
    const wide = new Lanes<{ name: number | string; bytes: number }>();
    expect(wide.add(large(1, MAX_WAITING_BYTES))).toBe(true);
    expect(wide.add(large(2))).toBe(false);
    expect(wide.add(small())).toBe(true);
  });

  it("give the room of removed ones back", () => {
    const lanes = new Lanes<{ name: number | string; bytes: number }>();
    const [one, other] = [large(1, MAX_WAITING_BYTES), small(2)];
    lanes.add(one);
    lanes.add(other);
    lanes.remove(one);
    lanes.remove(one);
    lanes.remove(other);
    expect(lanes.waiting).toEqual({ small: 0, large: 0, largeBytes: 0 });
    expect(lanes.add(large(3, MAX_WAITING_BYTES))).toBe(true);
  });
});

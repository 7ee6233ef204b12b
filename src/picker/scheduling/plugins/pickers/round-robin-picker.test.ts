import { describe, expect, it } from "vitest";
import { instanceOf, pickFrom } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../../../base/clock/random.ts";
import { roundRobinPicker } from "./round-robin-picker.ts";

describe("round-robin-picker", () => {
  it("takes the candidates in turn, whatever their totals, and the next ones behind", () => {
    const picker = instanceOf(roundRobinPicker);
    const random = new SeededRandom(1);
    const orders = Array.from({ length: 4 }, () => pickFrom(picker, [0, 9, 5], random));
    expect(orders.map(({ order }) => order)).toEqual([
      [0, 1, 2],
      [1, 2, 0],
      [2, 0, 1],
      [0, 1, 2],
    ]);
    expect(orders.map(({ tied }) => tied)).toEqual([1, 1, 1, 1]);
    expect(pickFrom(picker, [1], random).order).toEqual([0]);
  });

  it("goes on from the turn it is told, as a replay needs it", () => {
    const picker = instanceOf(roundRobinPicker);
    const random = new SeededRandom(1);
    pickFrom(picker, [0, 0, 0], random);
    const turn = picker.memory!;
    const next = pickFrom(picker, [0, 0, 0], random);
    const replayed = instanceOf(roundRobinPicker);
    replayed.memory = turn;
    expect(pickFrom(replayed, [0, 0, 0], random)).toEqual(next);
    expect(next.order).toEqual([1, 2, 0]);
  });
});

import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../clock/virtual.ts";
import { LONGEST_TURN, ROUND_WORK, TURN_WORK, Turns, type TurnTaker, turnWork } from "./turns.ts";

const taker = (turn: () => void = () => {}, address = "10.0.0.1"): TurnTaker => ({ address, turn });

/** Turns and a way to begin their next round. */
function setUp() {
  const clock = new VirtualClock();
  const turns = new Turns(clock);
  const nextRound = (): void => {
    const { round } = turns;
    turns.wait(taker(), false);
    clock.advance(0);
    expect(turns.round).toBe(round + 1);
  };
  return { clock, turns, nextRound };
}

describe("the length of a turn", () => {
  it.each([
    [1, 4 * TURN_WORK],
    [2, 2 * TURN_WORK],
    [3, Math.floor((4 * TURN_WORK) / 3)],
    [4, TURN_WORK],
    [5, TURN_WORK],
    [1000, TURN_WORK],
  ])("with %d busy connections is %d units", (busy, units) => {
    expect(turnWork(busy)).toBe(units);
  });

  it("counts the connections of the present round and those of the last one", () => {
    const { turns, nextRound } = setUp();
    expect([turns.join(), turns.join(), turns.join()]).toEqual([1, 2, 3].map(turnWork));
    nextRound();
    expect([turns.join(), turns.join()]).toEqual([3, 3].map(turnWork));
    nextRound();
    expect(turns.join()).toBe(turnWork(2));
    nextRound();
    expect(turns.join()).toBe(LONGEST_TURN);
    nextRound();
    expect(turns.join()).toBe(LONGEST_TURN);
  });

  it("counts the connections that wait, of one address or many", () => {
    const { clock, turns, nextRound } = setUp();
    nextRound();
    const units: number[] = [];
    const waiting = (busy: boolean, address: string): void =>
      turns.wait(
        taker(() => {
          units.push(turns.join());
        }, address),
        busy,
      );
    for (const address of ["10.0.0.1", "10.0.0.2", "10.0.0.1"]) waiting(true, address);
    waiting(false, "10.0.0.3");
    expect(turns.join()).toBe(TURN_WORK);
    clock.advance(0);
    // The quiet one takes its turn in the first round. One busy one takes its turn in each round.
    expect(units).toEqual([4, 3, 2, 1].map(turnWork));
  });
});

describe("a round", () => {
  it("is not crowded by the work of one connection", () => {
    const { turns, nextRound } = setUp();
    nextRound();
    turns.join();
    turns.spend(LONGEST_TURN);
    expect(turns.crowded).toBe(false);
    turns.join();
    expect(turns.crowded).toBe(true);
    nextRound();
    expect(turns.crowded).toBe(false);
  });

  it("is crowded by the work of two", () => {
    const { turns, nextRound } = setUp();
    nextRound();
    turns.join();
    turns.join();
    turns.spend(ROUND_WORK - 1);
    expect(turns.crowded).toBe(false);
    turns.spend(1);
    expect(turns.crowded).toBe(true);
  });

  it("lets a quiet connection follow a busy one, whatever the work of the busy one was", () => {
    const { clock, turns } = setUp();
    const order: string[] = [];
    const work = (name: string) => (): void => {
      order.push(`${name} ${turns.round}`);
      turns.join();
      turns.spend(LONGEST_TURN);
    };
    turns.wait(taker(work("busy")), true);
    turns.wait(taker(work("busy")), true);
    for (const name of ["first", "second"]) turns.wait(taker(work(name)), false);
    clock.advance(0);
    expect(order).toEqual(["busy 1", "first 1", "busy 2", "second 2"]);
  });
});

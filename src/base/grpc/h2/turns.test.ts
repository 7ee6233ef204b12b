import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../clock/virtual.ts";
import { LONGEST_TURN, ROUND_WORK, TURN_WORK, Turns, type TurnTaker } from "./turns.ts";

const taker = (turn: () => void = () => {}, address = "10.0.0.1"): TurnTaker => ({ address, turn });

function setUp() {
  const clock = new VirtualClock();
  const turns = new Turns(clock);
  return { clock, turns };
}

describe("the length of a turn", () => {
  it("is the longest for a connection without company, whether it has calls or not", () => {
    const { clock, turns } = setUp();
    const alone = taker();
    expect(turns.join(alone)).toBe(LONGEST_TURN);
    turns.calls(alone, true);
    clock.advance(0);
    expect(turns.join(alone)).toBe(LONGEST_TURN);
  });

  it("is the shortest while another connection has calls, whether the connection itself has calls or not", () => {
    const { turns } = setUp();
    const [one, other] = [taker(), taker()];
    turns.calls(other, true);
    expect(turns.join(one)).toBe(TURN_WORK);
    expect(turns.join(other)).toBe(LONGEST_TURN);
    turns.calls(one, true);
    expect([turns.join(one), turns.join(other)]).toEqual([TURN_WORK, TURN_WORK]);
    turns.calls(other, false);
    expect(turns.join(one)).toBe(LONGEST_TURN);
  });

  it.each([[true], [false]])("is the shortest while another connection waits for a turn (busy: %s)", (busy) => {
    const { clock, turns } = setUp();
    const units: number[] = [];
    const waiter = (address: string): TurnTaker => {
      const self = taker(() => {
        const share = turns.join(self);
        units.push(share);
        turns.spend(share);
      }, address);
      return self;
    };
    for (const address of ["10.0.0.1", "10.0.0.2", "10.0.0.1"]) turns.wait(waiter(address), busy);
    expect(turns.join(taker())).toBe(TURN_WORK);
    clock.advance(0);
    expect(units).toEqual([TURN_WORK, TURN_WORK, LONGEST_TURN]);
    expect(turns.join(taker())).toBe(LONGEST_TURN);
  });
});

describe("a round", () => {
  it("ends with the turn of the event loop, and only one in which a connection works is counted", () => {
    const { clock, turns } = setUp();
    clock.advance(0);
    expect(turns.round).toBe(0);
    turns.join(taker());
    clock.advance(0);
    expect(turns.round).toBe(1);
    clock.advance(0);
    expect(turns.round).toBe(1);
  });

  it("is not crowded by the work of one connection", () => {
    const { clock, turns } = setUp();
    turns.join(taker());
    turns.spend(LONGEST_TURN);
    expect(turns.crowded).toBe(false);
    turns.join(taker());
    expect(turns.crowded).toBe(true);
    clock.advance(0);
    expect(turns.crowded).toBe(false);
    turns.join(taker());
    turns.spend(LONGEST_TURN);
    expect(turns.crowded).toBe(false);
  });

  it("is crowded by the work of two", () => {
    const { turns } = setUp();
    turns.join(taker());
    turns.join(taker());
    turns.spend(ROUND_WORK - 1);
    expect(turns.crowded).toBe(false);
    turns.spend(1);
    expect(turns.crowded).toBe(true);
  });

  it("lets a quiet connection follow a busy one, whatever the work of the busy one was", () => {
    const { clock, turns } = setUp();
    const order: string[] = [];
    const wait = (name: string, busy: boolean): void => {
      const self = taker(() => {
        order.push(`${name} ${turns.round}`);
        turns.join(self);
        turns.spend(LONGEST_TURN);
      });
      turns.wait(self, busy);
    };
    wait("busy", true);
    wait("busy", true);
    wait("first", false);
    wait("second", false);
    clock.advance(0);
    expect(order).toEqual(["busy 1", "first 1", "busy 2", "second 2"]);
  });
});

import { describe, expect, it } from "vitest";
import { ConnectionLimits, type Guest, StreamLimits } from "./limits.ts";

/** Connections that note their end. */
function house(max: number) {
  const limits = new ConnectionLimits({ all: max });
  const ended: string[] = [];
  const guests = new Map<string, Guest>();
  const enter = (name: string, address = name): boolean => {
    const guest: Guest = { address, giveWay: () => void ended.push(name) };
    guests.set(name, guest);
    return limits.enter(guest);
  };
  const move = (name: string, stage: "idle" | "busy"): void => limits.move(guests.get(name)!, stage);
  return { limits, ended, enter, move, leave: (name: string) => limits.leave(guests.get(name)!) };
}

describe("ConnectionLimits", () => {
  it("closes the oldest of the new ones when more than a quarter of all places are taken by such", () => {
    const { limits, ended, enter } = house(12);
    for (const name of ["a", "b", "c", "d", "e"]) expect(enter(name)).toBe(true);
    expect(ended).toEqual(["a", "b"]);
    expect(limits.size).toBe(3);
    expect(limits.turnedAway).toBe(2);
  });

  it("keeps 100,000 that never finish their handshake from the places of others", () => {
    const { limits, ended, enter, move } = house(1000);
    for (let n = 0; n < 100_000; n++) {
      enter(`silent ${n}`, `10.0.${n % 7}.1`);
      if (n % 1000 !== 0) continue;
      enter(`honest ${n}`, "192.168.0.1");
      move(`honest ${n}`, "idle");
    }
    expect(limits.size).toBe(250 + 100);
    expect(ended.some((name) => name.startsWith("honest"))).toBe(false);
  });

  it("closes the one that was idle for the longest time when there is no room and none is new", () => {
    const { ended, enter, move } = house(8);
    for (const name of "abcdefgh") {
      enter(name);
      move(name, "busy");
    }
    move("c", "idle");
    move("b", "idle");
    move("c", "busy");
    move("c", "idle");
    expect(enter("i")).toBe(true);
    expect(ended).toEqual(["b"]);
    move("i", "busy");
    expect(enter("j")).toBe(true);
    expect(ended).toEqual(["b", "c"]);
  });

  it("refuses a connection when all others carry calls, and takes one when one is gone", () => {
    const { limits, ended, enter, move, leave } = house(4);
    for (const name of "abcd") {
      enter(name);
      move(name, "busy");
    }
    expect(enter("e")).toBe(false);
    expect(limits.turnedAway).toBe(1);
    expect(ended).toEqual([]);
    leave("a");
    leave("a");
    expect(limits.size).toBe(3);
    expect(enter("f")).toBe(true);
  });

  it("gives one address half of all places: its own idle ones give way, then it is refused", () => {
    const { limits, ended, enter, move } = house(8);
    enter("other", "10.0.0.9");
    move("other", "idle");
    for (const name of "abcd") {
      expect(enter(name, "10.0.0.1")).toBe(true);
      move(name, name === "b" ? "idle" : "busy");
    }
    expect(enter("e", "10.0.0.1")).toBe(true);
    expect(ended).toEqual(["b"]);
    move("e", "busy");
    expect(enter("f", "10.0.0.1")).toBe(false);
    for (const name of "wxyz") expect(enter(name, "10.0.0.2")).toBe(true);
    expect(limits.size).toBe(8 - 1);
  });

  it("does not count what has been refused, nor what moves after its end", () => {
    const { limits, enter, move } = house(4);
    for (const name of "abcd") {
      enter(name, "10.0.0.1");
      move(name, "busy");
    }
    expect(limits.size).toBe(2);
    move("c", "idle");
    enter("x", "10.0.0.2");
    move("x", "busy");
    enter("y", "10.0.0.3");
    move("y", "busy");
    expect(enter("z", "10.0.0.4")).toBe(false);
  });
});

/** Opens calls on one connection of a client until one is refused. @returns how many */
function fill(limits: StreamLimits, address: string, most = Number.POSITIVE_INFINITY): number {
  let calls = 0;
  while (calls < most && limits.hasRoom(address, calls)) {
    limits.enter(address);
    calls++;
  }
  return calls;
}

describe("StreamLimits", () => {
  it("gives no connection every place: above a sixteenth it leaves a sixteenth", () => {
    const limits = new StreamLimits(1600);
    for (let i = 0; i < 9; i++) for (let n = 0; n < 150; n++) limits.enter(`other ${i}`);
    expect(fill(limits, "a")).toBe(150);
    // A connection within its share has what is left.
    expect(fill(limits, "b", 100)).toBe(100);
    expect(limits.size).toBe(1600);
    expect(limits.hasRoom("c", 0)).toBe(false);
  });

  it("gives no address every place, over however many connections: above a quarter it leaves an eighth", () => {
    const limits = new StreamLimits(1600);
    let calls = 0;
    for (let connection = 0; connection < 100; connection++) calls += fill(limits, "a", 50);
    expect(calls).toBe(1400);
    expect(limits.hasRoom("a", 0)).toBe(false);
    for (let connection = 0; connection < 4; connection++) expect(fill(limits, `b${connection}`, 50)).toBe(50);
    expect(limits.size).toBe(1600);
  });

  it("has room again when calls end, and forgets addresses with their last call", () => {
    const limits = new StreamLimits(16);
    for (let i = 0; i < 16; i++) limits.enter(`a${i}`);
    expect([limits.hasRoom("b", 0), limits.addresses]).toEqual([false, 16]);
    limits.leave("a3");
    expect([limits.hasRoom("b", 0), limits.addresses, limits.size]).toEqual([true, 15, 15]);
    limits.enter("a4");
    limits.leave("a4");
    expect(limits.addresses).toBe(15);
  });
});

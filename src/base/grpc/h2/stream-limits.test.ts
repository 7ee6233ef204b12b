import { describe, expect, it } from "vitest";
import { StreamLimits } from "./stream-limits.ts";

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

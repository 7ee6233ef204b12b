import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { BrokerTime } from "./broker-time.ts";

const EPOCH = 1_700_000_000_000;

describe("BrokerTime", () => {
  it("is ours until the broker has said something, then its own (H-45)", () => {
    const clock = new VirtualClock(EPOCH);
    const time = new BrokerTime(clock);
    clock.advance(100);
    expect(time.now()).toBe(EPOCH + 100);
    time.heard(EPOCH + 3_600_000, clock.now());
    clock.advance(50);
    expect(time.now()).toBe(EPOCH + 3_600_050);
  });

  it("an answer that comes late turns no time back, and one that was quick sets it right", () => {
    const clock = new VirtualClock(EPOCH);
    const time = new BrokerTime(clock);
    time.heard(EPOCH + 500, clock.now());
    const askedAt = clock.now();
    clock.advance(9000);
    // Said when the question came, eight seconds ago.
    time.heard(EPOCH + 1500, askedAt);
    expect(time.now()).toBe(EPOCH + 9500);
    time.heard(EPOCH + 9400, clock.now());
    expect(time.now()).toBe(EPOCH + 9400);
  });

  it.each([-86_400_000, 86_400_000])("follows a broker's clock that jumps by %d ms", (jump) => {
    const clock = new VirtualClock(EPOCH);
    const time = new BrokerTime(clock);
    time.heard(EPOCH, clock.now());
    const askedAt = clock.now();
    clock.advance(10);
    time.heard(EPOCH + jump + 5, askedAt);
    expect(Math.abs(time.now() - (EPOCH + jump + 10))).toBeLessThanOrEqual(10);
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY])("keeps to what it knows when it hears %d", (nonsense) => {
    const clock = new VirtualClock(EPOCH);
    const time = new BrokerTime(clock);
    time.heard(nonsense, 0);
    expect(time.now()).toBe(EPOCH);
  });
});

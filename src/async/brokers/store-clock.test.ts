import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { jumpMessage, jumpOf, StoreClock } from "./store-clock.ts";

const EPOCH = 1_800_000_000_000;
const HOUR = 3_600_000;

describe("the clock of a store", () => {
  const made = (claimTtl = 60_000) => {
    const clock = new VirtualClock(EPOCH);
    const store = new StoreClock(clock, claimTtl);
    return { clock, store, jump: (time: number) => jumpOf(time, store.expected) };
  };

  it("was never set, as far as one reading tells", () => {
    const { jump } = made();
    expect([jump(EPOCH), jump(0), jump(EPOCH + 365 * 24 * HOUR)]).toEqual([0, 0, 0]);
  });

  it("was not set when it went on as ours did, give or take a quarter of a lease", () => {
    const { clock, store, jump } = made();
    store.heard(EPOCH, clock.now());
    clock.advance(10 * HOUR);
    expect([-15_000, 0, 15_000].map((ms) => jump(EPOCH + 10 * HOUR + ms))).toEqual([0, 0, 0]);
    expect([-15_001, 15_001].map((ms) => jump(EPOCH + 10 * HOUR + ms))).toEqual([-15_001, 15_001]);
  });

  it("allows for a second where leases are short", () => {
    const { clock, store, jump } = made(400);
    store.heard(EPOCH, clock.now());
    expect([-1000, 1000, 1001].map((ms) => jump(EPOCH + ms))).toEqual([0, 0, 1001]);
  });

  it("is compared with its last reading, and the first one does not replace it", () => {
    const { clock, store, jump } = made();
    store.heardFirst(EPOCH, clock.now());
    store.heardFirst(EPOCH + HOUR, clock.now());
    expect(jump(EPOCH + HOUR)).toBe(HOUR);
    store.heard(EPOCH + HOUR, clock.now());
    expect([jump(EPOCH + HOUR), jump(EPOCH)]).toEqual([0, -HOUR]);
  });

  it("is told of with direction and seconds", () => {
    expect(jumpMessage(HOUR)).toContain("was set forward by 3600 s");
    expect(jumpMessage(-HOUR)).toContain("was set back by 3600 s");
  });
});

import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { Publisher } from "./publisher.ts";

function setUp(heartbeat?: number): { clock: VirtualClock; publisher: Publisher; sent: [number, boolean][] } {
  const clock = new VirtualClock();
  const sent: [number, boolean][] = [];
  const send = (isHeartbeat: boolean): unknown => sent.push([clock.now(), isHeartbeat]);
  return { clock, publisher: new Publisher(clock, send, heartbeat), sent };
}

describe("Publisher", () => {
  it("sends at once, at most every 20 ms, and after a second without a change", () => {
    const { clock, publisher, sent } = setUp();
    publisher.changed();
    clock.advance(100);
    expect(sent).toEqual([]);
    publisher.start();
    clock.advance(5);
    for (let i = 0; i < 50; i++) publisher.changed();
    clock.advance(30);
    publisher.changed();
    clock.advance(2010);
    expect(sent).toEqual([
      [100, false],
      [120, false],
      [140, false],
      [1140, true],
      [2140, true],
    ]);
  });

  it("sends nothing within the call, so that a burst of changes is one message", () => {
    const { clock, publisher, sent } = setUp();
    publisher.start();
    expect(sent).toEqual([]);
    for (let at = 0; at < 1000; at++) {
      publisher.changed();
      clock.advance(1);
    }
    expect(sent).toHaveLength(51);
  });

  it("without a heartbeat is silent while nothing changes; closed it is silent for good", () => {
    const { clock, publisher, sent } = setUp(Number.POSITIVE_INFINITY);
    publisher.start();
    clock.advance(60_000);
    expect([sent.length, clock.pending]).toEqual([1, 0]);
    publisher.changed();
    publisher.close();
    publisher.changed();
    clock.advance(60_000);
    expect([sent.length, clock.pending]).toEqual([1, 0]);
  });
});

import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { CHANGES_ONLY, Publisher, type PublisherPauses, type SendReason } from "./publisher.ts";

function setUp(pauses?: PublisherPauses): {
  clock: VirtualClock;
  publisher: Publisher;
  sent: [number, SendReason][];
} {
  const clock = new VirtualClock();
  const sent: [number, SendReason][] = [];
  const send = (reason: SendReason): unknown => sent.push([clock.now(), reason]);
  return { clock, publisher: new Publisher(clock, send, pauses), sent };
}

describe("Publisher", () => {
  it("sends at once, at most every 20 ms, once more after the last change, and after a second without one", () => {
    const { clock, publisher, sent } = setUp();
    publisher.changed();
    clock.advance(100);
    expect(sent).toEqual([]);
    publisher.start();
    clock.advance(5);
    for (let i = 0; i < 50; i++) publisher.changed();
    clock.advance(30);
    publisher.changed();
    clock.advance(2030);
    expect(sent).toEqual([
      [100, "change"],
      [120, "change"],
      [140, "change"],
      [160, "repeat"],
      [1160, "heartbeat"],
      [2160, "heartbeat"],
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

  it("where the store keeps all, is silent while nothing changes; closed it is silent for good", () => {
    const { clock, publisher, sent } = setUp(CHANGES_ONLY);
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

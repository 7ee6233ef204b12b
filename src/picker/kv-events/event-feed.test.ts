import { encode } from "@msgpack/msgpack";
import { describe, expect, it } from "vitest";
import { endpointOf } from "../../../test/support/scheduling/fakes.cases.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { Announcements } from "./announcements.ts";
import { CENTRAL, EventFeed, type FeedSettings } from "./event-feed.ts";
import type { EventMessage, SubscriptionEvents } from "./sockets.ts";

const PER_ENDPOINT = { selects: () => true, port: 5557, replayPort: undefined };

/** A feed whose sockets and index are lists of texts. Each reading of the clock may cost time. */
function driven(settings: Partial<FeedSettings>, { costMs = 0, take = () => {} } = {}) {
  const done: string[] = [];
  const heard: SubscriptionEvents[] = [];
  const time = new VirtualClock();
  const clock = {
    now() {
      const now = time.now();
      if (costMs > 0) time.advance(costMs);
      return now;
    },
    wall: () => time.wall(),
    after: (ms: number, callback: () => void) => time.after(ms, callback),
    soon: (callback: () => void) => time.soon(callback),
  };
  const feed = new EventFeed({
    settings: { topicFilter: "", bind: undefined, perEndpoint: undefined, ...settings },
    clock,
    announcements: {
      take(event: { type: string }, slot: number) {
        take();
        done.push(`${event.type} ${slot}`);
      },
      clear: (slot: number) => done.push(`clear ${slot}`),
    } as unknown as Announcements,
    sockets: {
      subscribe(_address, _topic, _bind, events) {
        heard.push(events);
        return { close() {} };
      },
      replay: () => ({ close() {} }),
    },
    onFault: (source, fault) => done.push(`${fault} ${source}`),
  });
  return { feed, heard, time, done: () => done.splice(0) };
}

const REMOVED = Buffer.from(encode([1, [["BlockRemoved", [1, 2]]]]));
const message = (sequence: number, pod: string, payload = REMOVED): EventMessage => ({
  topic: `kv@${pod}@m`,
  sequence,
  payload,
});

describe("EventFeed", () => {
  it("an error of the index is a fault of the publisher, and the next message comes", () => {
    let calls = 0;
    const take = (): void => {
      if (calls++ === 0) throw new RangeError("Array buffer allocation failed");
    };
    const { feed, heard, done } = driven({ perEndpoint: PER_ENDPOINT }, { take });
    feed.add(endpointOf(3));
    for (const n of [0, 1]) heard[0]!.message(message(n, "pod-3"));
    expect(done()).toEqual(["malformed default/pod-3", "removed 3"]);
  });

  it("a rank means another endpoint of the address where all send, and none on a socket to one endpoint", () => {
    const { feed, heard, done } = driven({ bind: "tcp://127.0.0.1:5557", perEndpoint: PER_ENDPOINT });
    const at = (slot: number) =>
      endpointOf(slot, { address: "10.0.0.9", hostPort: `10.0.0.9:${8000 + slot}`, rank: slot });
    for (const slot of [0, 1]) feed.add(at(slot));
    const [central, own] = heard as [SubscriptionEvents, SubscriptionEvents];
    const ofRank = Buffer.from(encode([1, [["BlockRemoved", [1, 2]]], 1]));
    central.message(message(0, "10.0.0.9:8000", ofRank));
    expect(done()).toEqual(["removed 1"]);
    own.message(message(0, "10.0.0.9:8000", ofRank));
    expect(done()).toEqual(["removed 0"]);
  });

  it("what is dropped counts as work, so that a flood of it leaves time for decisions", () => {
    const { feed, heard } = driven({ bind: "tcp://127.0.0.1:5557" }, { costMs: 2 });
    feed.add(endpointOf(0));
    expect(heard[0]!.message(message(0, "nobody"))).toBeInstanceOf(Promise);
    const other = driven({ bind: "tcp://127.0.0.1:5557" }, { costMs: 2 });
    other.feed.add(endpointOf(0));
    expect(other.heard[0]!.fault("malformed", undefined)).toBeInstanceOf(Promise);
  });

  it("finds the endpoint of a topic by its names, then by its address with the lowest rank", () => {
    const { feed, heard, done } = driven({ bind: "tcp://127.0.0.1:5557" });
    const second = endpointOf(1, { address: "10.0.0.9", hostPort: "10.0.0.9:8001", rank: 1 });
    const first = endpointOf(2, { address: "10.0.0.9", hostPort: "10.0.0.9:8000", rank: 0 });
    for (const endpoint of [second, first]) feed.add(endpoint);
    const pods = ["10.0.0.9", "10.0.0.9:8001", "pod-1", "default/pod-2"];
    for (const [n, pod] of pods.entries()) heard[0]!.message(message(n, pod));
    expect(done().filter((text) => text.startsWith("removed"))).toEqual([
      "removed 2",
      "removed 1",
      "removed 1",
      "removed 2",
    ]);
    feed.remove(first);
    heard[0]!.message(message(9, "10.0.0.9"));
    expect(done()).toContain("removed 1");
    feed.remove(second);
    heard[0]!.message(message(9, "10.0.0.9"));
    expect(done()).toEqual(["clear 1", `unknown-pod ${CENTRAL}`]);
  });

  it("what anybody sends to the common address does not disturb the sequence of an endpoint's own socket", () => {
    const { feed, heard, done } = driven({ bind: "tcp://127.0.0.1:5557", perEndpoint: PER_ENDPOINT });
    feed.add(endpointOf(0));
    const [central, own] = heard;
    own!.message(message(7, "pod-0"));
    central!.message(message(900, "pod-0"));
    own!.message(message(8, "pod-0"));
    expect(done()).toEqual(["removed 0", "removed 0", "removed 0"]);
    expect(feed.states().map(({ pod, missed, restarts }) => [pod, missed, restarts])).toEqual([
      ["default/pod-0", 0, 0],
      [`${CENTRAL}/default/pod-0`, 0, 0],
      [CENTRAL, 0, 0],
    ]);
  });

  it("a message with many events is taken in slices, and its rest is dropped when the endpoint leaves", async () => {
    const { feed, heard, time, done } = driven({ perEndpoint: PER_ENDPOINT }, { costMs: 0.4 });
    const endpoint = endpointOf(0);
    feed.add(endpoint);
    const many = Buffer.from(encode([1, Array.from({ length: 20 }, (_, n) => ["BlockRemoved", [n]])]));
    const whole = heard[0]!.message(message(0, "pod-0", many));
    const first = done().length;
    expect(first).toBeLessThan(5);
    await time.advanceAsync(1_000);
    await whole;
    expect(first + done().length).toBe(20);
    const broken = heard[0]!.message(message(1, "pod-0", many));
    expect(done().length).toBeGreaterThan(0);
    feed.remove(endpoint);
    await time.advanceAsync(1_000);
    await broken;
    expect(done()).toEqual(["clear 0"]);
  });
});

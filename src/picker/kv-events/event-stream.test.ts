import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { EventStream, type StreamParts } from "./event-stream.ts";
import type { EventMessage, ReplayEvents } from "./sockets.ts";

const message = (sequence: number, life = 0): EventMessage => ({
  topic: "kv@a@m",
  sequence,
  payload: Buffer.from(`life ${life}, message ${sequence}`),
});

/**
 * A stream whose doings are texts.
 * @param fake instead of a replay that the test answers
 * @param unusable the sequence of a message that cannot be taken
 */
function driven(fake: Pick<StreamParts, "replay"> = {}, unusable?: number) {
  const clock = new VirtualClock();
  const done: string[] = [];
  const asked: { from: number; events: ReplayEvents }[] = [];
  const stream = new EventStream({
    clock,
    apply: ({ sequence }) => {
      if (sequence === unusable) throw new RangeError("Array buffer allocation failed");
      done.push(String(sequence));
      return undefined;
    },
    clear: () => done.push("clear"),
    fault: (fault) => done.push(fault),
    replay: (from, events) => {
      asked.push({ from, events });
      return { close() {} };
    },
    ...fake,
  });
  return { clock, stream, asked, done: () => done.splice(0) };
}

describe("EventStream", () => {
  it("passes messages in sequence, a copy once, and asks for what is missing", async () => {
    const { stream, asked, done } = driven();
    for (const n of [0, 1, 1, 2]) stream.message(message(n));
    expect(done()).toEqual(["0", "1", "2"]);
    stream.message(message(5));
    expect(asked.map(({ from }) => from)).toEqual([3]);
    stream.message(message(6));
    expect(done()).toEqual([]);
    for (const n of [3, 4, 5]) asked[0]!.events.message({ ...message(n), topic: "" });
    asked[0]!.events.done();
    await Promise.resolve();
    expect(done()).toEqual(["3", "4", "5", "6"]);
    expect(stream.state).toBe("live");
    expect(stream.gaps).toBe(2);
  });

  it("forgets all when the missing messages are gone for good", () => {
    const { stream, asked, done } = driven();
    stream.message(message(0));
    stream.message(message(9));
    asked[0]!.events.message(message(5));
    expect(done()).toEqual(["0", "replay-incomplete", "clear", "5"]);
  });

  it("goes on after two attempts without an answer, and asks again only after 30 s", () => {
    const { clock, stream, asked, done } = driven();
    stream.message(message(0));
    stream.message(message(2));
    clock.advance(5_000);
    expect(asked.map(({ from }) => from)).toEqual([1, 1]);
    clock.advance(5_000);
    expect(done()).toEqual(["0", "replay-no-progress", "2"]);
    stream.message(message(4));
    expect(done()).toEqual(["4"]);
    clock.advance(30_000);
    stream.message(message(6));
    expect(asked.map(({ from }) => from)).toEqual([1, 1, 5]);
  });

  it("a smaller sequence is a new start; without a replay socket the stream goes on", () => {
    const { stream, done } = driven({ replay: undefined });
    for (const n of [7, 8, 12, 0, 1]) stream.message(message(n));
    expect(done()).toEqual(["7", "8", "12", "clear", "0", "1"]);
    expect([stream.gaps, stream.restarts]).toEqual([3, 1]);
  });

  it("notices a new start that has come further than the life before, by the last message", () => {
    const { stream, asked, done } = driven();
    for (const n of [0, 1]) stream.message(message(n));
    stream.disconnected();
    stream.message(message(4, 1));
    // From the last known message on, to compare it.
    expect(asked.map(({ from }) => from)).toEqual([1]);
    asked[0]!.events.message(message(1, 1));
    expect(done()).toEqual(["0", "1", "clear"]);
    expect(asked.map(({ from }) => from)).toEqual([1, 0]);
    for (const n of [0, 1, 2, 3]) asked[1]!.events.message(message(n, 1));
    asked[1]!.events.done();
    expect(done()).toEqual(["0", "1", "2", "3", "4"]);
  });

  it("the same engine after a lost connection keeps what is known", () => {
    const { stream, asked, done } = driven();
    for (const n of [0, 1]) stream.message(message(n));
    stream.disconnected();
    stream.message(message(3));
    for (const n of [1, 2, 3]) asked[0]!.events.message(message(n));
    asked[0]!.events.done();
    expect(done()).toEqual(["0", "1", "2", "3"]);
  });

  it("a publisher whose sequence jumps to and fro gets a few replays, and then none for a while", () => {
    const { clock, stream, asked } = driven();
    for (let n = 0; n < 1_000; n++) stream.message(message(n % 2 === 0 ? 9 : 3, n));
    expect(asked).toHaveLength(8);
    expect(stream.held).toBe(0);
    expect(stream.state).toBe("live");
    clock.advance(8_000);
    stream.message(message(20));
    expect(asked).toHaveLength(9);
  });

  it("an answer within the call that asks, and a late one of an earlier request, do no harm", () => {
    let closed = 0;
    const late: ReplayEvents[] = [];
    const { stream, done } = driven({
      replay: (_, events) => {
        late.push(events);
        events.fault("replay-send", new RangeError("out of range"));
        return { close: () => closed++ };
      },
    });
    stream.message(message(5));
    expect(done()).toEqual(["replay-send", "5"]);
    expect(closed).toBe(1);
    late[0]!.message(message(7));
    late[0]!.done();
    expect(done()).toEqual([]);
  });

  it("a server that begins again with the sequence that was last has started again", () => {
    const { stream, done } = driven({ replay: undefined });
    stream.message(message(0));
    stream.disconnected();
    stream.message(message(0, 1));
    expect(done()).toEqual(["0", "clear", "0"]);
    expect(stream.restarts).toBe(1);
  });

  it.each([
    ["messages", 16, 4_096],
    ["bytes", 2 ** 20, 16],
  ])("keeps so many %s while a replay stalls, and counts what it lost", async (_, bytes, most) => {
    const { clock, stream, asked, done } = driven();
    stream.message(message(0));
    const payload = Buffer.alloc(bytes);
    for (let sequence = 2; sequence < most + 500; sequence++) stream.message({ topic: "kv@a@m", sequence, payload });
    expect(stream.held).toBe(most);
    asked[0]!.events.message(message(1));
    asked[0]!.events.done();
    await clock.advanceAsync(0);
    expect(stream.state).toBe("live");
    expect(done()).toHaveLength(most + 2);
    stream.message(message(most + 500));
    expect(asked.map(({ from }) => from)).toEqual([1, most + 2]);
    expect(stream.gaps).toBe(1 + 498);
  });

  it("an error of one message that was held costs no other one", async () => {
    const { clock, stream, asked, done } = driven({}, 5);
    for (const n of [5, 6]) stream.message(message(n));
    asked[0]!.events.done();
    await clock.advanceAsync(0);
    expect(done()).toEqual(["malformed", "6"]);
  });
});

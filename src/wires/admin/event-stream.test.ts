import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { EventStream } from "./event-stream.ts";

/** A stream whose pictures are numbered through, with the mark that each one began from. */
function numbered(): { clock: VirtualClock; events: EventStream<number>; made(): number } {
  const clock = new VirtualClock();
  let made = 0;
  const events = new EventStream<number>(clock, (since) => ({
    data: `${since ?? "first"} to ${++made}`,
    mark: made,
  }));
  return { clock, events, made: () => made };
}

/** Everything that is left in a stream that has ended. */
async function rest(stream: ReadableStream<Uint8Array>): Promise<string[]> {
  const chunks: string[] = [];
  for await (const chunk of stream) chunks.push(new TextDecoder().decode(chunk));
  return chunks;
}

describe("EventStream", () => {
  it("sends a picture at once and one each half second, each from the mark of the one before", async () => {
    const { clock, events } = numbered();
    const stream = events.open(() => {})!;
    clock.advance(499);
    clock.advance(1);
    clock.advance(500);
    events.close();
    expect(await rest(stream)).toEqual(["data: first to 1\n\n", "data: 1 to 2\n\n", "data: 2 to 3\n\n"]);
  });

  it("keeps a mark per reader: one that comes later gets a first picture of its own", async () => {
    const { clock, events } = numbered();
    const early = events.open(() => {})!;
    clock.advance(250);
    const late = events.open(() => {})!;
    clock.advance(250);
    events.close();
    expect(await rest(early)).toEqual(["data: first to 1\n\n", "data: 1 to 3\n\n"]);
    expect(await rest(late)).toEqual(["data: first to 2\n\n", "data: 2 to 4\n\n"]);
  });

  it("refuses the 33rd reader and takes one when another has left (bound)", async () => {
    const { clock, events } = numbered();
    const streams = Array.from({ length: 32 }, () => events.open(() => {}));
    expect(streams.every((stream) => stream !== undefined)).toBe(true);
    expect(events.open(() => {})).toBeUndefined();
    expect(events.readers).toBe(32);
    // However many read, one timer serves them.
    expect(clock.pending).toBe(1);
    await streams[5]!.cancel();
    expect(events.open(() => {})).toBeDefined();
    expect(events.open(() => {})).toBeUndefined();
  });

  it("drops a reader that leaves 64 pictures unread, and keeps those that read (bound)", async () => {
    const { clock, events } = numbered();
    let disconnected = 0;
    const stuck = events.open(() => {
      disconnected++;
    })!;
    const reading = events.open(() => expect.unreachable("it reads"))!.getReader();
    for (let tick = 0; tick < 63; tick++) {
      await reading.read();
      clock.advance(500);
    }
    expect(events.readers).toBe(2);
    await reading.read();
    clock.advance(500);
    expect([events.readers, disconnected]).toEqual([1, 1]);
    expect(await rest(stuck)).toHaveLength(64);
    clock.advance(500);
    for (let picture = 0; picture < 2; picture++) expect((await reading.read()).done).toBe(false);
  });

  it("makes no picture and arms no timer while nobody reads", async () => {
    const { clock, events, made } = numbered();
    clock.advance(10_000);
    expect([made(), clock.pending]).toEqual([0, 0]);
    const stream = events.open(() => {})!;
    expect(clock.pending).toBe(1);
    await stream.cancel();
    clock.advance(500);
    expect([made(), clock.pending, events.readers]).toEqual([1, 0, 0]);
    // The next reader starts it again.
    events.open(() => {});
    clock.advance(500);
    expect([made(), clock.pending]).toEqual([3, 1]);
  });

  it("stops the timer when the last reader was dropped for not reading", () => {
    const { clock, events, made } = numbered();
    events.open(() => {});
    clock.advance(64 * 500);
    expect([made(), clock.pending, events.readers]).toEqual([64, 0, 0]);
  });

  it("ends every reader and the timer on close", async () => {
    const { clock, events, made } = numbered();
    const streams = [events.open(() => {})!, events.open(() => {})!, events.open(() => {})!];
    events.close();
    expect([events.readers, clock.pending]).toEqual([0, 0]);
    for (const stream of streams) expect(await rest(stream)).toHaveLength(1);
    clock.advance(5000);
    expect(made()).toBe(3);
  });
});

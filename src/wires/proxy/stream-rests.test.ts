import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { type StreamRest, StreamRests } from "./stream-rests.ts";

const MS = 10;

/** Streams of one gateway, and what they were told. */
function world(streams: number, { ms = MS, from = 2 } = {}) {
  const clock = new VirtualClock();
  const rests = new StreamRests(clock, ms, from);
  const told: string[] = [];
  const opened: StreamRest[] = [];
  for (let i = 0; i < streams; i++) {
    opened.push(rests.open({ rest: () => told.push(`rest ${i}`), wake: () => told.push(`wake ${i}`) }));
  }
  const pass = (i: number): void => opened[i]!.passed(clock.now());
  return { clock, rests, told, opened, pass };
}

describe("a fast event stream of a busy gateway", () => {
  it("rests after its second chunk, not after the first one, and reads on after the rest", () => {
    const { clock, told, pass } = world(2);
    pass(0);
    clock.advance(1);
    expect(told).toEqual([]);
    pass(0);
    expect(told).toEqual(["rest 0"]);
    clock.advance(MS - 1);
    expect(told).toEqual(["rest 0"]);
    clock.advance(1);
    expect(told).toEqual(["rest 0", "wake 0"]);
  });

  it("rests once for all chunks of a piece, and again after the chunks that came meanwhile", () => {
    const { clock, told, pass } = world(2);
    for (let i = 0; i < 4; i++) pass(0);
    expect(told).toEqual(["rest 0"]);
    clock.advance(MS);
    for (let i = 0; i < 4; i++) pass(0);
    expect(told).toEqual(["rest 0", "wake 0", "rest 0"]);
  });

  it("goes on without rests once its chunks come late: the rest itself is not counted as waiting", () => {
    const { clock, told, pass } = world(2);
    pass(0);
    pass(0);
    clock.advance(MS + MS / 2 - 1);
    pass(0);
    expect(told).toEqual(["rest 0", "wake 0", "rest 0"]);
    clock.advance(MS + MS / 2);
    told.length = 0;
    pass(0);
    clock.advance(MS);
    pass(0);
    expect(told).toEqual([]);
  });

  it("of 67 chunks a second passes chunk by chunk, also after two that came together", () => {
    const { clock, told, pass } = world(2);
    pass(0);
    pass(0);
    for (let i = 0; i < 10; i++) {
      clock.advance(MS + MS / 2);
      pass(0);
    }
    expect(told).toEqual(["rest 0", "wake 0"]);
  });

  it("does not wait for the rests of others, each of which has its full length", () => {
    const { clock, told, pass } = world(3);
    for (const i of [0, 1, 2]) pass(i);
    pass(0);
    clock.advance(5);
    pass(1);
    clock.advance(4);
    pass(2);
    clock.advance(1);
    expect(told).toEqual(["rest 0", "rest 1", "rest 2", "wake 0"]);
    clock.advance(5);
    expect(told.at(-1)).toBe("wake 1");
    clock.advance(4);
    expect(told.at(-1)).toBe("wake 2");
    expect(clock.pending).toBe(0);
  });
});

describe("streams that wake together", () => {
  it("rest together, although one goes on after the other", () => {
    const clock = new VirtualClock();
    const rests = new StreamRests(clock, MS, 2);
    const woken: number[] = [];
    // What came during the rest passes while the stream wakes, and takes time.
    const streams: StreamRest[] = [0, 1].map((i) =>
      rests.open({
        rest: () => {},
        wake() {
          woken.push(clock.now());
          if (woken.length > 4) return;
          streams[i]!.passed(clock.now() + i / 2);
        },
      }),
    );
    for (const stream of [...streams, ...streams]) stream.passed(clock.now());
    clock.advance(3 * MS);
    expect(woken).toEqual([MS, MS, 2 * MS, 2 * MS, 3 * MS, 3 * MS]);
    expect(clock.pending).toBe(0);
  });

  it("go on in parts when there are many, and other work may begin between two parts", () => {
    const streams = 150;
    const { clock, told, pass } = world(streams);
    for (let i = 0; i < streams; i++) for (const _ of [1, 2]) pass(i);
    told.length = 0;
    const counts: number[] = [];
    const count = (): void => {
      counts.push(told.length);
      if (counts.length < 4) clock.soon(count);
    };
    clock.after(MS, count);
    clock.advance(MS);
    expect(counts).toEqual([64, 128, 150, 150]);
    expect(told).toEqual(Array.from({ length: streams }, (_, i) => `wake ${i}`));
  });
});

describe("no stream rests", () => {
  it("while few are under way", () => {
    const { told, opened, pass } = world(2);
    opened[1]!.end();
    pass(0);
    pass(0);
    expect(told).toEqual([]);
  });

  it("in a gateway without rests", () => {
    const { told, pass } = world(2, { ms: 0 });
    pass(0);
    pass(0);
    expect(told).toEqual([]);
  });
});

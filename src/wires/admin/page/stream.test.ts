import { expect, it } from "vitest";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { EventRing } from "../../../base/telemetry/event-ring.ts";
import type { DecisionRow } from "../feed/decisions.ts";
import type { EventKind } from "../feed/overview.ts";
import { helloOf } from "./routes.ts";
import type { FeedSource } from "./source.ts";
import { FeedStream } from "./stream.ts";

interface Seen {
  readonly event: string;
  readonly id: string | undefined;
  readonly data: Record<string, unknown>;
}

/** A process whose seconds are those of a virtual clock, and which counts what it computes. */
function setUp() {
  const clock = new VirtualClock();
  const events = new EventRing<EventKind>(() => clock.wall());
  const made = { ticks: 0, queues: 0 };
  let newest = 0;
  const ended = new Set<number>();
  const first = Math.floor(clock.wall() / 1000);
  const row = (sequence: number): DecisionRow =>
    ({ sequence, journey: { outcome: ended.has(sequence) ? "answered" : "running" } }) as DecisionRow;
  const source: FeedSource = {
    topics: ["overview", "events", "decisions", "queues"],
    instance: "7-1",
    events,
    hello: () => ({
      ...{ kind: "gateway", name: "g", version: "0", startedAt: 0, at: clock.wall(), phase: "serving", unready: null },
      rings: { seconds: 900, events: 512, decisions: 100, bytes: 0 },
    }),
    lastSecond: () => Math.floor(clock.wall() / 1000) - 1,
    oldestSecond: () => Math.max(first, Math.floor(clock.wall() / 1000) - 900),
    overview: () => {
      throw new Error("a stream needs no overview");
    },
    tick(second) {
      made.ticks++;
      return { second, figures: {}, totals: { requests: {}, tokens: { prompt: 0, output: 0, cached: 0 }, routed: 0 } };
    },
    queues() {
      made.queues++;
      return { kind: "off", at: 0, text: "" };
    },
    config: () => {
      throw new Error("a stream needs no configuration");
    },
    decisions: {
      newest: () => newest,
      oldest: () => Math.max(1, newest - 99),
      row,
      list: () => {
        throw new Error("a stream needs no list");
      },
      one: () => "none",
      after(_filter, sequence, limit) {
        const from = Math.max(sequence + 1, newest - 99);
        const all = Array.from({ length: Math.max(0, newest - from + 1) }, (_, n) => from + n);
        return { rows: all.slice(-limit).map(row), passed: all.length };
      },
    },
  };
  const stream = new FeedStream(clock, source, (readers) => helloOf(source, readers, false));
  return {
    ...{ clock, events, made, source, stream, ended },
    decide: (count: number) => {
      newest += count;
    },
  };
}

/** Reads that wait for their chunk: a later `drain` must not lose it. */
const waiting = new WeakMap<object, ReturnType<ReadableStreamDefaultReader<Uint8Array>["read"]>>();

/** Reads the chunks that are there, as events. */
async function drain(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<Seen[]> {
  const seen: Seen[] = [];
  for (;;) {
    const read = waiting.get(reader) ?? reader.read();
    waiting.set(reader, read);
    const none = new Promise<undefined>((done) => setImmediate(() => done(undefined)));
    const next = await Promise.race([read, none]);
    if (next === undefined) break;
    waiting.delete(reader);
    if (next.done) break;
    for (const block of new TextDecoder().decode(next.value).split("\n\n")) {
      const field = (name: string): string | undefined => new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1];
      const event = field("event");
      if (event !== undefined) seen.push({ event, id: field("id"), data: JSON.parse(field("data")!) });
    }
  }
  return seen;
}

it("greets, then sends each second once, and computes nothing while nobody reads", async () => {
  const { clock, made, stream } = setUp();
  await clock.advance(5000);
  expect(made).toEqual({ ticks: 0, queues: 0 });
  const body = stream.open(["overview", "queues"], {}, undefined)!;
  const other = stream.open(["overview"], {}, undefined)!;
  const reader = body.getReader();
  const first = await drain(reader);
  expect(first.map(({ event }) => event)).toEqual(["hello", "tick", "queues"]);
  expect(first[0]!.data).toMatchObject({ feed: 1, instance: "7-1", readers: { open: 1, most: 32 } });
  made.ticks = 0;
  await clock.advance(3000);
  const later = await drain(reader);
  const seconds = later.filter(({ event }) => event === "tick").map(({ data }) => data["second"] as number);
  expect(seconds).toHaveLength(3);
  expect(seconds[2]! - seconds[0]!).toBe(2);
  // Two readers share what is rendered.
  expect(made.ticks).toBe(3);
  await reader.cancel();
  await other.cancel();
  expect(stream.readers).toBe(0);
  await clock.advance(1000);
  made.ticks = 0;
  await clock.advance(10_000);
  expect(made.ticks).toBe(0);
});

it("continues behind the last event id, and tells what the rings no longer hold", async () => {
  const { clock, events, stream, source } = setUp();
  await clock.advance(2000);
  const position = stream.position();
  events.add("demo", "", "one");
  await clock.advance(4000);
  events.add("demo", "", "two");
  const reader = stream.open(["overview", "events"], {}, position)!.getReader();
  const seen = await drain(reader);
  expect(seen.filter(({ event }) => event === "event").map(({ data }) => data["text"])).toEqual(["one", "two"]);
  expect(seen.filter(({ event }) => event === "tick")).toHaveLength(4);
  expect(seen.some(({ event }) => event === "gap")).toBe(false);
  await clock.advance(2_000_000);
  const late = stream.open(["overview", "events"], {}, position)!.getReader();
  const gap = (await drain(late)).find(({ event }) => event === "gap");
  expect(gap?.data).toEqual({ topic: "overview", lost: source.oldestSecond() - Number(position.split(".")[1]) - 1 });
});

it("does not continue an id of another process", async () => {
  const { clock, events, stream } = setUp();
  events.add("demo", "", "old");
  await clock.advance(4000);
  for (const id of ["8-1.1.0.0", "garbage", "7-1.1.0", "7-1.1e3.0.0"]) {
    const seen = await drain(stream.open(["events"], {}, id)!.getReader());
    expect(seen.map(({ event }) => event)).toEqual(["hello"]);
  }
});

it("samples decisions, counts those left out, and sends the end of a decision again", async () => {
  const { clock, decide, ended, stream } = setUp();
  const reader = stream.open(["decisions"], {}, undefined)!.getReader();
  await drain(reader);
  decide(60);
  await clock.advance(250);
  const [batch] = await drain(reader);
  expect(batch!.data).toMatchObject({ leftOut: 35, passed: 60 });
  expect((batch!.data["rows"] as DecisionRow[]).map(({ sequence }) => sequence)).toEqual(
    Array.from({ length: 25 }, (_, n) => 36 + n),
  );
  ended.add(40);
  await clock.advance(250);
  const [update] = await drain(reader);
  expect(update!.data).toEqual({ rows: [{ sequence: 40, journey: { outcome: "answered" } }], leftOut: 0, passed: 0 });
});

it("drops a reader that does not read, with a reason, and takes 32 at most", async () => {
  const { clock, stream } = setUp();
  const slow = stream.open(["overview"], {}, undefined)!;
  for (let i = 1; i < 32; i++) stream.open(["events"], {}, undefined);
  expect(stream.open(["events"], {}, undefined)).toBeUndefined();
  await clock.advance(80_000);
  expect(stream.readers).toBe(31);
  const seen = await drain(slow.getReader());
  expect(seen.at(-1)).toMatchObject({ event: "bye", data: { reason: "slow" } });
  expect(stream.open(["events"], {}, undefined)).toBeDefined();
});

it("says good-bye when the process ends", async () => {
  const { stream } = setUp();
  const reader = stream.open(["events"], {}, undefined)!.getReader();
  stream.close();
  expect((await drain(reader)).at(-1)).toMatchObject({ event: "bye", data: { reason: "ended" } });
  expect(stream.readers).toBe(0);
});

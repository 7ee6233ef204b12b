import { type AddressInfo, connect } from "node:net";
import { Hono } from "hono";
import { expect, it } from "vitest";
import { poll } from "../../../../test/support/poll.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { EventRing } from "../../../base/telemetry/event-ring.ts";
import type { DecisionRow } from "../feed/decisions.ts";
import type { EventKind } from "../feed/overview.ts";
import { listen, shut } from "../listen.ts";
import { feedRoutes, helloOf } from "./routes.ts";
import { everySecond } from "./sampler.ts";
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
  const made = { ticks: 0, queues: 0, rows: 0 };
  const failures: unknown[] = [];
  const broken = { queues: false };
  let newest = 0;
  const ended = new Set<number>();
  const first = Math.floor(clock.wall() / 1000);
  const outcome = (sequence: number) => (ended.has(sequence) ? "answered" : "running");
  const row = (sequence: number): DecisionRow => {
    made.rows++;
    return { sequence, journey: { outcome: outcome(sequence) } } as DecisionRow;
  };
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
      if (broken.queues) throw new Error("no queues");
      return { kind: "off", at: 0, text: "" };
    },
    config: () => {
      throw new Error("a stream needs no configuration");
    },
    failed: (error) => failures.push(error),
    decisions: {
      newest: () => newest,
      oldest: () => Math.max(1, newest - 99),
      outcome: (sequence) => (sequence > newest - 100 ? outcome(sequence) : undefined),
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
  const stream = new FeedStream(clock, source, (readers) => helloOf(source, readers));
  return {
    ...{ clock, events, made, source, stream, ended, broken, failures },
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
  expect(made).toEqual({ ticks: 0, queues: 0, rows: 0 });
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

it("sends an event again that others have joined, to those who have it", async () => {
  const { clock, events, stream } = setUp();
  await clock.advance(2000);
  for (let i = 0; i < 65; i++) events.add("demo", "", `event ${i}`);
  const position = stream.position();
  const reader = stream.open(["events"], {}, undefined)!.getReader();
  await drain(reader);
  events.add("demo", "", "joined");
  const joined = [["event", 65, "joined", 2]];
  const seen = async (from: ReadableStreamDefaultReader<Uint8Array>) =>
    (await drain(from))
      .filter(({ event }) => event !== "hello")
      .map(({ event, data }) => [event, data["number"], data["text"], data["times"]]);
  await clock.advance(250);
  expect(await seen(reader)).toEqual(joined);
  await clock.advance(250);
  expect(await seen(reader)).toEqual([]);
  expect(await seen(stream.open(["events"], {}, position)!.getReader())).toEqual(joined);
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
  const { clock, decide, ended, made, stream } = setUp();
  const reader = stream.open(["decisions"], {}, undefined)!.getReader();
  await drain(reader);
  decide(60);
  await clock.advance(250);
  const [batch] = await drain(reader);
  expect(batch!.data).toMatchObject({ leftOut: 50, passed: 60 });
  expect((batch!.data["rows"] as DecisionRow[]).map(({ sequence }) => sequence)).toEqual(
    Array.from({ length: 10 }, (_, n) => 51 + n),
  );
  // A request that runs for long costs nothing meanwhile.
  made.rows = 0;
  await clock.advance(60_000);
  expect([made.rows, await drain(reader)]).toEqual([0, []]);
  ended.add(55);
  await clock.advance(250);
  expect(made.rows).toBe(1);
  const [update] = await drain(reader);
  expect(update!.data).toEqual({ rows: [{ sequence: 55, journey: { outcome: "answered" } }], leftOut: 0, passed: 0 });
});

it("drops a reader that does not read, with a reason, and takes 32 at most", async () => {
  const { clock, stream } = setUp();
  let disconnected = false;
  const slow = stream.open(["overview"], {}, undefined, () => {
    disconnected = true;
  })!;
  for (let i = 1; i < 32; i++) stream.open(["events"], {}, undefined);
  expect(stream.open(["events"], {}, undefined)).toBeUndefined();
  // It keeps its place, as it keeps what is unread, until its connection has ended.
  const slowAt = async (): Promise<boolean> => {
    await clock.advance(250);
    return disconnected;
  };
  await clock.advance(60_000);
  expect([stream.readers, disconnected]).toEqual([32, false]);
  for (let waited = 0; waited < 20_000 && !(await slowAt()); waited += 250) expect(stream.readers).toBe(32);
  expect([stream.readers, disconnected]).toEqual([31, true]);
  const seen = await drain(slow.getReader());
  expect(seen.at(-1)).toMatchObject({ event: "bye", data: { reason: "slow" } });
  expect(stream.open(["events"], {}, undefined)).toBeDefined();
});

it("leaves no timer behind for a slow reader that goes by itself, or at the end of the process", async () => {
  const { clock, stream } = setUp();
  const open = () => stream.open(["overview"], {}, undefined, () => expect.unreachable("the reader is gone"))!;
  const slow = [open(), open()];
  await clock.advance(64_500);
  expect(stream.readers).toBe(2);
  await slow[0]!.cancel();
  expect(stream.readers).toBe(1);
  stream.close();
  expect([stream.readers, clock.pending]).toEqual([0, 0]);
});

it("ends the connection of a client that never reads, so that nothing stays of it", async () => {
  const { clock, stream, source } = setUp();
  const text = "x".repeat(2 ** 20);
  source.tick = (second) => ({ second, text }) as unknown as ReturnType<FeedSource["tick"]>;
  const app = new Hono();
  feedRoutes(app, source, stream);
  const server = await listen(app, { host: "127.0.0.1", port: 0 }, "the page", source.failed);
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  try {
    socket.pause();
    socket.on("error", () => {});
    socket.write("GET /debug/feed/stream?topics=overview HTTP/1.1\r\nhost: localhost\r\n\r\n");
    await poll("the reader", () => stream.readers === 1);
    const connections = () => new Promise((resolve) => server.getConnections((_, count) => resolve(count)));
    expect(await connections()).toBe(1);
    await poll("the end of the connection", async () => {
      await clock.advance(250);
      return (await connections()) === 0;
    });
    expect([stream.readers, clock.pending]).toEqual([0, 0]);
  } finally {
    socket.destroy();
    await shut(server);
  }
});

it("ends a reader whose data fail, and says so once; the others and the process go on", async () => {
  const { clock, stream, broken, failures } = setUp();
  const other = stream.open(["overview"], {}, undefined)!.getReader();
  const reader = stream.open(["overview", "queues"], {}, undefined)!.getReader();
  await Promise.all([drain(reader), drain(other)]);
  broken.queues = true;
  await clock.advance(2000);
  expect((await drain(reader)).map(({ event, data }) => [event, data["reason"]])).toEqual([["bye", "ended"]]);
  expect((await drain(other)).map(({ event }) => event)).toEqual(["tick", "tick"]);
  expect([stream.readers, failures.length]).toEqual([1, 1]);
  expect(() => stream.open(["queues"], {}, undefined)).toThrow("no queues");
  expect(stream.readers).toBe(1);
});

it("measures the next second, too, when one fails", async () => {
  const clock = new VirtualClock();
  const failures: unknown[] = [];
  let ticks = 0;
  const stop = everySecond(
    clock,
    () => clock.wall(),
    () => {
      ticks++;
      throw new Error("no figures");
    },
    (error) => failures.push(error),
  );
  for (let second = 0; second < 3; second++) await clock.advance(1010);
  expect([ticks, failures.length]).toEqual([3, 3]);
  stop();
  expect(clock.pending).toBe(0);
});

it("says good-bye when the process ends", async () => {
  const { stream } = setUp();
  const reader = stream.open(["events"], {}, undefined)!.getReader();
  stream.close();
  expect((await drain(reader)).at(-1)).toMatchObject({ event: "bye", data: { reason: "ended" } });
  expect(stream.readers).toBe(0);
});

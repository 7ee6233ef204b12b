import { describe, expect, it } from "vitest";
import { CALL_BLOCK, field, frame, H2Peer, open, setting, u32 } from "../../../../test/support/h2-peer.ts";
import type { GrpcHandler, GrpcStream } from "../transport.ts";
import { CONNECTION_WINDOW, ERROR, FLAG, FRAME, PREFACE, SETTING, STREAM_WINDOW } from "./protocol.ts";

/** A handler that notes its calls and what they tell. */
function recorder(open?: (stream: GrpcStream) => void): {
  handler: GrpcHandler;
  calls: GrpcStream[];
  events: string[];
} {
  const calls: GrpcStream[] = [];
  const events: string[] = [];
  return {
    calls,
    events,
    handler: (stream) => {
      const number = calls.push(stream);
      open?.(stream);
      return {
        message: (bytes) => void events.push(`${number}: message ${bytes.length}`),
        halfClosed: () => void events.push(`${number}: half-closed`),
        closed: (cause) => void events.push(`${number}: ${cause}`),
      };
    },
  };
}

const data = (streamId: number, payload: Uint8Array, flags = 0): Buffer => frame(FRAME.data, flags, streamId, payload);
const message = (length: number): Buffer => Buffer.concat([Buffer.of(0), u32(length), Buffer.alloc(length, 1)]);
const NONE = Buffer.alloc(0);

function dataBytes(peer: H2Peer): number {
  return peer
    .frames()
    .filter(({ type }) => type === FRAME.data)
    .reduce((sum, { payload }) => sum + payload.length, 0);
}

describe("an HTTP/2 connection: what breaks the rules of RFC 9113", () => {
  const CASES: [string, Buffer[], string][] = [
    ["a frame above 16 KiB", [frame(FRAME.ping, 0, 0, Buffer.alloc(16_385))], `goaway ${ERROR.frameSize}`],
    ["an unknown frame above 16 KiB", [frame(0xee, 0, 0, Buffer.alloc(16_385))], `goaway ${ERROR.frameSize}`],
    ["DATA above 16 KiB", [open(1), data(1, Buffer.alloc(16_385))], `goaway ${ERROR.frameSize}`],
    ["DATA on stream 0", [data(0, message(1))], `goaway ${ERROR.protocol}`],
    ["DATA on an idle stream", [data(1, message(1))], `goaway ${ERROR.protocol}`],
    [
      "DATA behind END_STREAM",
      [open(1), data(1, NONE, FLAG.endStream), data(1, message(1))],
      `reset 1 ${ERROR.streamClosed}`,
    ],
    ["padding as long as its frame", [open(1), data(1, Buffer.of(3, 0, 0), FLAG.padded)], `goaway ${ERROR.protocol}`],
    ["a padded frame without a pad length", [open(1), data(1, NONE, FLAG.padded)], `goaway ${ERROR.frameSize}`],
    ["HEADERS on stream 0", [open(0)], `goaway ${ERROR.protocol}`],
    ["HEADERS on an even stream", [open(2)], `goaway ${ERROR.protocol}`],
    ["a stream id lower than one before", [open(5), open(3)], `goaway ${ERROR.protocol}`],
    ["HEADERS behind END_STREAM", [open(1, FLAG.endStream), open(1, FLAG.endStream)], `reset 1 ${ERROR.streamClosed}`],
    [
      "trailers without END_STREAM",
      [open(1), frame(FRAME.headers, FLAG.endHeaders, 1, field("x", "y"))],
      `reset 1 ${ERROR.protocol}`,
    ],
    ["trailers with pseudo fields", [open(1), open(1, FLAG.endStream)], `reset 1 ${ERROR.protocol}`],
    [
      "HEADERS with too much padding",
      [frame(FRAME.headers, FLAG.endHeaders | FLAG.padded, 1, Buffer.of(9, 0x83))],
      `goaway ${ERROR.protocol}`,
    ],
    [
      "HEADERS cut off within its priority",
      [frame(FRAME.headers, FLAG.endHeaders | FLAG.priority, 1, Buffer.of(0, 0))],
      `goaway ${ERROR.frameSize}`,
    ],
    [
      "a malformed header block",
      [frame(FRAME.headers, FLAG.endHeaders, 1, Buffer.of(0x80))],
      `goaway ${ERROR.compression}`,
    ],
    [
      "a request without a path",
      [frame(FRAME.headers, FLAG.endHeaders, 1, Buffer.of(0x83, 0x86))],
      `reset 1 ${ERROR.protocol}`,
    ],
    [
      "a method twice",
      [frame(FRAME.headers, FLAG.endHeaders, 1, Buffer.concat([Buffer.of(0x83), CALL_BLOCK]))],
      `reset 1 ${ERROR.protocol}`,
    ],
    [
      "a capital in a field name",
      [frame(FRAME.headers, FLAG.endHeaders, 1, Buffer.concat([CALL_BLOCK, field("X", "y")]))],
      `reset 1 ${ERROR.protocol}`,
    ],
    [
      "a connection field",
      [frame(FRAME.headers, FLAG.endHeaders, 1, Buffer.concat([CALL_BLOCK, field("connection", "close")]))],
      `reset 1 ${ERROR.protocol}`,
    ],
    [
      "a pseudo field behind others",
      [frame(FRAME.headers, FLAG.endHeaders, 1, Buffer.concat([CALL_BLOCK, field(":authority", "a")]))],
      `reset 1 ${ERROR.protocol}`,
    ],
    [
      "an unknown pseudo field",
      [frame(FRAME.headers, FLAG.endHeaders, 1, Buffer.concat([field(":x", "a"), CALL_BLOCK]))],
      `reset 1 ${ERROR.protocol}`,
    ],
    [
      "a line break in a value",
      [frame(FRAME.headers, FLAG.endHeaders, 1, Buffer.concat([CALL_BLOCK, field("x", "a\nb")]))],
      `reset 1 ${ERROR.protocol}`,
    ],
    [
      "a frame within a header block",
      [frame(FRAME.headers, 0, 1, CALL_BLOCK), frame(FRAME.ping, 0, 0, Buffer.alloc(8))],
      `goaway ${ERROR.protocol}`,
    ],
    [
      "DATA within a header block",
      [open(1), frame(FRAME.headers, 0, 3, CALL_BLOCK), data(1, message(1))],
      `goaway ${ERROR.protocol}`,
    ],
    [
      "CONTINUATION of another stream",
      [frame(FRAME.headers, 0, 1, CALL_BLOCK), frame(FRAME.continuation, FLAG.endHeaders, 3)],
      `goaway ${ERROR.protocol}`,
    ],
    ["CONTINUATION without HEADERS", [frame(FRAME.continuation, FLAG.endHeaders, 1)], `goaway ${ERROR.protocol}`],
    ["RST_STREAM on an idle stream", [frame(FRAME.rstStream, 0, 1, u32(8))], `goaway ${ERROR.protocol}`],
    ["RST_STREAM on stream 0", [frame(FRAME.rstStream, 0, 0, u32(8))], `goaway ${ERROR.protocol}`],
    [
      "RST_STREAM of a wrong size",
      [open(1), frame(FRAME.rstStream, 0, 1, Buffer.alloc(3))],
      `goaway ${ERROR.frameSize}`,
    ],
    ["PRIORITY of a wrong size", [frame(FRAME.priority, 0, 1, Buffer.alloc(4))], `goaway ${ERROR.frameSize}`],
    ["PRIORITY on stream 0", [frame(FRAME.priority, 0, 0, Buffer.alloc(5))], `goaway ${ERROR.protocol}`],
    ["PUSH_PROMISE", [frame(FRAME.pushPromise, 0, 1, Buffer.alloc(4))], `goaway ${ERROR.protocol}`],
    ["PING on a stream", [frame(FRAME.ping, 0, 1, Buffer.alloc(8))], `goaway ${ERROR.protocol}`],
    ["PING of a wrong size", [frame(FRAME.ping, 0, 0, Buffer.alloc(7))], `goaway ${ERROR.frameSize}`],
    ["GOAWAY on a stream", [frame(FRAME.goaway, 0, 1, Buffer.alloc(8))], `goaway ${ERROR.protocol}`],
    ["SETTINGS on a stream", [frame(FRAME.settings, 0, 1)], `goaway ${ERROR.protocol}`],
    ["SETTINGS of a wrong size", [frame(FRAME.settings, 0, 0, Buffer.alloc(5))], `goaway ${ERROR.frameSize}`],
    [
      "an acknowledgement with a payload",
      [frame(FRAME.settings, FLAG.ack, 0, Buffer.alloc(6))],
      `goaway ${ERROR.frameSize}`,
    ],
    ["ENABLE_PUSH of 2", [frame(FRAME.settings, 0, 0, setting(SETTING.enablePush, 2))], `goaway ${ERROR.protocol}`],
    [
      "an initial window of 2^31",
      [frame(FRAME.settings, 0, 0, setting(SETTING.initialWindowSize, 2 ** 31))],
      `goaway ${ERROR.flowControl}`,
    ],
    [
      "a maximum frame size of 16,383",
      [frame(FRAME.settings, 0, 0, setting(SETTING.maxFrameSize, 16_383))],
      `goaway ${ERROR.protocol}`,
    ],
    ["WINDOW_UPDATE by 0 for the connection", [frame(FRAME.windowUpdate, 0, 0, u32(0))], `goaway ${ERROR.protocol}`],
    [
      "WINDOW_UPDATE by 0 for a stream",
      [open(1), frame(FRAME.windowUpdate, 0, 1, u32(0))],
      `reset 1 ${ERROR.protocol}`,
    ],
    ["WINDOW_UPDATE on an idle stream", [frame(FRAME.windowUpdate, 0, 1, u32(1))], `goaway ${ERROR.protocol}`],
    ["WINDOW_UPDATE of a wrong size", [frame(FRAME.windowUpdate, 0, 0, Buffer.alloc(5))], `goaway ${ERROR.frameSize}`],
    [
      "a connection window beyond 2^31 - 1",
      [frame(FRAME.windowUpdate, 0, 0, u32(0x7fffffff))],
      `goaway ${ERROR.flowControl}`,
    ],
    [
      "a stream window beyond 2^31 - 1",
      [open(1), frame(FRAME.windowUpdate, 0, 1, u32(0x7fffffff))],
      `reset 1 ${ERROR.flowControl}`,
    ],
    [
      "an initial window that lifts a stream beyond 2^31 - 1",
      [
        open(1),
        frame(FRAME.windowUpdate, 0, 1, u32(0x7fffffff - 65_535)),
        frame(FRAME.settings, 0, 0, setting(SETTING.initialWindowSize, 65_536)),
      ],
      `goaway ${ERROR.flowControl}`,
    ],
  ];

  it.each(CASES)("answers %s", (_what, frames, verdict) => {
    const { handler, events } = recorder();
    const peer = new H2Peer(handler);
    peer.feed(...frames);
    expect(peer.verdict()).toBe(verdict);
    if (verdict.startsWith("goaway")) {
      expect(peer.socket.ended).toBe(true);
      expect(peer.streams).toBe(0);
      peer.feed(open(7));
      expect(peer.frames()).toEqual([]);
      peer.clock.advance(1000);
      expect(peer.socket.destroyed).toBe(true);
      expect(peer.connectionClosed).toBe(true);
    }
    expect(events.filter((event) => event.endsWith("ended"))).toEqual([]);
    expect(peer.errors).toEqual([]);
  });

  it.each(CASES)("answers %s just so when every byte comes alone", (_what, frames, verdict) => {
    const peer = new H2Peer(recorder().handler);
    for (const byte of Buffer.concat(frames)) peer.feed(Buffer.of(byte));
    expect(peer.verdict()).toBe(verdict);
  });

  it("ignores unknown frames, PRIORITY, GOAWAY, late frames for closed streams, and padding", () => {
    const { handler, events } = recorder();
    const peer = new H2Peer(handler);
    peer.feed(
      frame(0xaa, 0xff, 77, Buffer.from("anything")),
      frame(FRAME.priority, 0, 9, Buffer.alloc(5)),
      frame(
        FRAME.headers,
        FLAG.endHeaders | FLAG.padded | FLAG.priority,
        1,
        Buffer.concat([Buffer.of(2), Buffer.alloc(5), CALL_BLOCK, Buffer.alloc(2)]),
      ),
      data(1, Buffer.concat([Buffer.of(4), message(3), Buffer.alloc(4)]), FLAG.padded),
      frame(FRAME.rstStream, 0, 1, u32(2)),
      frame(FRAME.rstStream, 0, 1, u32(2)),
      frame(FRAME.windowUpdate, 0, 1, u32(5)),
      frame(FRAME.goaway, 0, 0, Buffer.alloc(8)),
    );
    expect(peer.verdict()).toBe("");
    expect(events).toEqual(["1: message 3", "1: cancelled"]);
    expect(peer.resets).toBe(1);
  });

  it("answers what does not begin with the preface with silence, and closes", () => {
    const peer = new H2Peer(recorder().handler, { greet: false });
    peer.frames();
    peer.feed(Buffer.from("GET / HTTP/1.1\r\n\r\n"));
    expect(peer.frames()).toEqual([]);
    expect(peer.socket.ended).toBe(true);
  });

  it("wants SETTINGS first", () => {
    const peer = new H2Peer(recorder().handler, { greet: false });
    peer.feed(PREFACE, frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
    expect(peer.verdict()).toBe(`goaway ${ERROR.protocol}`);
  });

  it.each([
    ["nothing", NONE],
    ["half a preface", PREFACE.subarray(0, 12)],
    ["a preface without SETTINGS", PREFACE],
  ])("drops a connection that brings %s for ten seconds, and no other", (_what, bytes) => {
    const peer = new H2Peer(recorder().handler, { greet: false });
    const other = new H2Peer(recorder().handler);
    peer.feed(bytes);
    peer.clock.advance(9999);
    expect(peer.socket.destroyed).toBe(false);
    peer.clock.advance(1);
    expect(peer.socket.destroyed).toBe(true);
    other.clock.advance(1e6);
    expect(other.socket.destroyed).toBe(false);
  });

  it("refuses calls beyond the limit, and only those", () => {
    const { handler, calls } = recorder();
    const peer = new H2Peer(handler, { maxStreams: 2 });
    peer.feed(open(1), open(3), open(5));
    expect(peer.verdict()).toBe(`reset 5 ${ERROR.refusedStream}`);
    peer.feed(frame(FRAME.rstStream, 0, 1, u32(0)), open(7));
    expect(peer.verdict()).toBe("");
    expect(calls).toHaveLength(3);
  });

  it("refuses calls for which other connections leave no room, and tells the two apart", () => {
    const { handler, calls } = recorder();
    const peer = new H2Peer(handler, { maxStreams: 2 });
    peer.feed(open(1));
    peer.room = false;
    peer.feed(open(3));
    expect([peer.verdict(), peer.refused]).toEqual([
      `reset 3 ${ERROR.refusedStream}`,
      { streams: 0, totalStreams: 1, flood: 0 },
    ]);
    peer.room = true;
    peer.feed(open(5), open(7));
    expect([peer.verdict(), peer.refused]).toEqual([
      `reset 7 ${ERROR.refusedStream}`,
      { streams: 1, totalStreams: 1, flood: 0 },
    ]);
    expect([calls.length, peer.streams]).toEqual([2, 2]);
  });
});

describe("an HTTP/2 connection: floods", () => {
  const many = (bytes: Buffer, count: number): Buffer => Buffer.concat(Array.from({ length: count }, () => bytes));

  it.each([
    ["SETTINGS", frame(FRAME.settings, 0, 0)],
    ["acknowledgements", frame(FRAME.settings, FLAG.ack, 0)],
    ["PING", frame(FRAME.ping, 0, 0, Buffer.alloc(8))],
    ["PRIORITY", frame(FRAME.priority, 0, 5, Buffer.alloc(5))],
    ["empty DATA", data(1, NONE)],
    ["DATA on a closed stream", data(3, Buffer.of(1))],
    ["unknown frames", frame(0xee, 0, 0)],
  ])("ends a flood of %s with ENHANCE_YOUR_CALM", (_what, bytes) => {
    const peer = new H2Peer(recorder().handler);
    peer.feed(open(1), open(3), frame(FRAME.rstStream, 0, 3, u32(0)));
    peer.frames();
    peer.feed(many(bytes, 9000));
    expect(peer.socket.ended).toBe(false);
    peer.feed(many(bytes, 12_000));
    expect(peer.verdict()).toContain(`goaway ${ERROR.enhanceYourCalm}`);
  });

  it("carries as many PINGs over a long time", () => {
    const peer = new H2Peer(recorder().handler);
    for (let i = 0; i < 30; i++) {
      peer.feed(many(frame(FRAME.ping, 0, 0, Buffer.alloc(8)), 1000));
      peer.clock.advance(2000);
    }
    expect(peer.socket.ended).toBe(false);
  });

  it("takes resets in any number (E-09, D-81)", () => {
    const peer = new H2Peer(recorder().handler);
    for (let id = 1; id < 60_000; id += 2) peer.feed(open(id), frame(FRAME.rstStream, 0, id, u32(2)));
    expect(peer.verdict()).toBe("");
    expect(peer.resets).toBe(30_000);
    expect(peer.streams).toBe(0);
  });

  it.each([
    ["many frames", 65, 10],
    ["many bytes", 5, 16_384],
  ])("ends a header block of %s with ENHANCE_YOUR_CALM", (_what, count, size) => {
    const peer = new H2Peer(recorder().handler);
    peer.feed(frame(FRAME.headers, 0, 1, CALL_BLOCK));
    for (let i = 0; i < count; i++) peer.feed(frame(FRAME.continuation, 0, 1, Buffer.alloc(size)));
    expect(peer.verdict()).toBe(`goaway ${ERROR.enhanceYourCalm}`);
  });

  it("puts a block of many frames together", () => {
    const { handler, calls } = recorder();
    const peer = new H2Peer(handler);
    peer.feed(frame(FRAME.headers, 0, 1));
    for (const byte of CALL_BLOCK.subarray(0, -1)) peer.feed(frame(FRAME.continuation, 0, 1, Buffer.of(byte)));
    peer.feed(frame(FRAME.continuation, FLAG.endHeaders, 1, CALL_BLOCK.subarray(-1)));
    expect(calls.map(({ path }) => path)).toEqual(["/p"]);
  });

  it("answers a header list above 64 KiB with 431, also one that is small on the wire", () => {
    const peer = new H2Peer(recorder().handler);
    const indexed = Buffer.concat([Buffer.of(0x40, 1), Buffer.from("x"), Buffer.of(126), Buffer.alloc(126, 0x61)]);
    const bomb = Buffer.concat([CALL_BLOCK, indexed, Buffer.alloc(500, 0xbe)]);
    peer.feed(frame(FRAME.headers, FLAG.endHeaders, 1, bomb));
    const [answer, reset] = peer.frames();
    expect(answer?.payload).toEqual(Buffer.from("\x08\x03431", "latin1"));
    expect(reset).toMatchObject({ type: FRAME.rstStream, streamId: 1 });
    peer.feed(open(3));
    expect(peer.streams).toBe(1);
  });

  it("drops a peer that lets its answers pile up", () => {
    const peer = new H2Peer(recorder().handler);
    peer.socket.full = true;
    for (let id = 1; !peer.socket.destroyed; id += 2) {
      peer.feed(
        ...Array.from({ length: 1000 }, (_, i) =>
          frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, id + 2 * i, Buffer.of(0x82, 0x86, 0x84)),
        ),
      );
      id += 2000;
      expect(id).toBeLessThan(1e7);
    }
    expect(peer.socket.writableLength).toBeLessThan(5 << 20);
  });
});

describe("an HTTP/2 connection: the windows it grants", () => {
  const PIECE = message(16_379);

  it("advertises 256 KiB per stream and 16 MiB per connection (D-27, docs/operate/bodies.md)", () => {
    const peer = new H2Peer(recorder().handler, { greet: false });
    const [settings, update] = peer.frames();
    expect(settings?.payload.subarray(0, 6)).toEqual(setting(SETTING.initialWindowSize, STREAM_WINDOW));
    expect(65_535 + update!.payload.readUInt32BE(0)).toBe(CONNECTION_WINDOW);
  });

  it("gives back what is read in steps of half a window, padding included", () => {
    const peer = new H2Peer(recorder().handler);
    peer.feed(open(1));
    let sent = 0;
    let granted = 0;
    for (let i = 0; i < 3000; i++) {
      const padded = Buffer.concat([Buffer.of(200), i % 100 === 0 ? message(10) : NONE, Buffer.alloc(200)]);
      peer.feed(data(1, i % 2 === 0 ? PIECE : padded, i % 2 === 0 ? 0 : FLAG.padded));
      sent += i % 2 === 0 ? PIECE.length : padded.length;
      for (const { type, streamId, payload } of peer.frames()) {
        expect(type).toBe(FRAME.windowUpdate);
        if (streamId === 1) granted += payload.readUInt32BE(0);
      }
      expect(sent - granted).toBeLessThan(STREAM_WINDOW / 2);
    }
  });

  it("gives nothing back for a stream that pauses, ends it beyond its window, and stalls no other (D-28)", () => {
    const { handler, calls, events } = recorder((stream) => stream.pause());
    const peer = new H2Peer(handler);
    for (let id = 1; id <= 161; id += 2) {
      peer.feed(open(id));
      for (let i = 0; i < 16; i++) peer.feed(data(id, PIECE));
    }
    const updates = peer.frames().filter(({ type }) => type === FRAME.windowUpdate);
    expect(updates.every(({ streamId }) => streamId === 0)).toBe(true);
    expect(updates.length).toBeGreaterThan(1);
    expect(events).toEqual([]);
    peer.feed(data(1, Buffer.of(0)));
    expect(peer.verdict()).toBe(`reset 1 ${ERROR.flowControl}`);
    calls[1]!.resume();
    peer.feed(frame(0xee, 0, 0));
    return new Promise<void>((resolve) => process.nextTick(resolve)).then(() => {
      peer.clock.advance(0);
      expect(events.filter((event) => event === "2: message 16379")).toHaveLength(16);
      const [update, ...more] = peer.frames();
      expect(update).toMatchObject({ type: FRAME.windowUpdate, streamId: 3 });
      expect(update!.payload.readUInt32BE(0)).toBeGreaterThan(STREAM_WINDOW / 2);
      expect(more).toEqual([]);
    });
  });

  it("keeps the bytes of a paused stream while chunks are overwritten", async () => {
    const got: string[] = [];
    let stream: GrpcStream | undefined;
    const peer = new H2Peer((opened) => {
      stream = opened;
      opened.pause();
      return { message: (bytes) => void got.push(Buffer.from(bytes).toString()), halfClosed() {}, closed() {} };
    });
    peer.feed(open(1));
    const texts = Array.from({ length: 200 }, (_, i) => `text ${i}`);
    const bytes = Buffer.concat(
      texts.map((text) => Buffer.concat([Buffer.of(0), u32(text.length), Buffer.from(text)])),
    );
    for (let at = 0; at < bytes.length; at += 7) peer.feed(data(1, bytes.subarray(at, at + 7)));
    stream!.resume();
    await new Promise<void>((resolve) => process.nextTick(resolve));
    peer.clock.advance(0);
    expect(got).toEqual(texts);
  });
});

describe("an HTTP/2 connection: the windows it respects", () => {
  const START = 65_535;

  function sender(): { peer: H2Peer; calls: GrpcStream[] } {
    const { handler, calls } = recorder();
    const peer = new H2Peer(handler);
    peer.feed(frame(FRAME.windowUpdate, 0, 0, u32(1 << 24)));
    return { peer, calls };
  }

  const dataOf = (peer: H2Peer): Buffer =>
    Buffer.concat(peer.frames().flatMap(({ type, payload }) => (type === FRAME.data ? [payload] : [])));

  it("sends no more than a stream's window, and the rest when it opens", () => {
    const { peer, calls } = sender();
    peer.feed(open(1));
    expect(calls[0]!.sendFramed(message(100_000))).toBe(true);
    expect(calls[0]!.sendFramed(message(100_000))).toBe(false);
    expect(dataBytes(peer)).toBe(START);
    peer.feed(frame(FRAME.windowUpdate, 0, 1, u32(10)));
    expect(dataBytes(peer)).toBe(10);
    calls[0]!.end(0);
    expect(peer.frames()).toEqual([]);
    peer.feed(frame(FRAME.windowUpdate, 0, 1, u32(1 << 20)));
    const rest = peer.frames();
    expect(rest.filter(({ type }) => type === FRAME.data).every(({ payload }) => payload.length <= 16_384)).toBe(true);
    expect(rest.reduce((sum, { type, payload }) => sum + (type === FRAME.data ? payload.length : 0), 0)).toBe(
      2 * 100_005 - START - 10,
    );
    expect(rest.at(-2)).toMatchObject({ type: FRAME.headers, flags: FLAG.endHeaders | FLAG.endStream });
    expect(rest.at(-1)).toMatchObject({ type: FRAME.rstStream, payload: u32(ERROR.none) });
  });

  it.each([0, 100, 8187, 8192, 8193])(
    "keeps bytes that a handler passes on from where they lie, while messages of %s bytes wait",
    (size) => {
      let passed = 0;
      const peer = new H2Peer((stream) => ({
        message: (bytes) => void stream.send(bytes),
        passing(bytes, from, to) {
          passed++;
          stream.sendFramed(Buffer.concat([Buffer.of(0), u32(to - from)]));
          stream.sendFramed(bytes, from, to);
          return true;
        },
        halfClosed() {},
        closed() {},
      }));
      peer.feed(frame(FRAME.settings, 0, 0, setting(SETTING.initialWindowSize, 0)), open(1));
      const messages = ["a", "b", "c"].map((text) =>
        Buffer.concat([Buffer.of(0), u32(size), Buffer.alloc(size, text)]),
      );
      for (const bytes of messages) peer.feed(data(1, bytes));
      expect(dataBytes(peer)).toBe(0);
      peer.feed(frame(FRAME.windowUpdate, 0, 1, u32(1 << 20)));
      expect(dataOf(peer).equals(Buffer.concat(messages))).toBe(true);
      expect(passed).toBe(size <= 8192 ? 3 : 0);
    },
  );

  it("gives a message that a handler does not pass on to it as its own bytes", () => {
    const kept: Uint8Array[] = [];
    const peer = new H2Peer(() => ({
      message: (bytes) => void kept.push(bytes),
      passing: (bytes, from) => bytes[from] === 0x62,
      halfClosed() {},
      closed() {},
    }));
    peer.feed(
      open(1),
      data(
        1,
        Buffer.concat([...["aa", "bb", "cc"].map((text) => Buffer.concat([Buffer.of(0), u32(2), Buffer.from(text)]))]),
      ),
    );
    expect(kept.map(String)).toEqual(["aa", "cc"]);
  });

  it("ends a call within a message that passes, and drops what follows", () => {
    const peer = new H2Peer((stream) => ({
      message() {},
      passing() {
        stream.end(0);
        return true;
      },
      halfClosed() {},
      closed() {},
    }));
    peer.feed(open(1), data(1, Buffer.concat([message(5), message(5)])));
    expect(peer.frames().at(-2)).toMatchObject({ type: FRAME.headers, flags: FLAG.endHeaders | FLAG.endStream });
    expect(peer.errors).toEqual([]);
  });

  it("stays within a window that was made smaller than what is under way", () => {
    const { peer, calls } = sender();
    peer.feed(open(1));
    calls[0]!.sendFramed(message(50_000));
    expect(dataBytes(peer)).toBe(50_005);
    peer.feed(frame(FRAME.settings, 0, 0, setting(SETTING.initialWindowSize, 1000)));
    calls[0]!.sendFramed(message(5000));
    expect(dataBytes(peer)).toBe(0);
    // 1000 - 50,005 + 49,105 = 100.
    peer.feed(frame(FRAME.windowUpdate, 0, 1, u32(49_105)));
    expect(dataBytes(peer)).toBe(100);
    peer.feed(frame(FRAME.settings, 0, 0, setting(SETTING.initialWindowSize, 3000)));
    expect(dataBytes(peer)).toBe(2000);
    peer.feed(open(3));
    calls[1]!.sendFramed(message(5000));
    expect(dataBytes(peer)).toBe(3000);
  });

  it("shares a connection's window among its streams", () => {
    const { handler, calls } = recorder();
    const peer = new H2Peer(handler);
    peer.feed(frame(FRAME.settings, 0, 0, setting(SETTING.initialWindowSize, 1 << 20)), open(1), open(3));
    for (const call of calls) call.sendFramed(message(400_000));
    expect(dataBytes(peer)).toBe(START);
    for (let i = 0; i < 4; i++) {
      peer.feed(frame(FRAME.windowUpdate, 0, 0, u32(65_536)));
      const ids = new Set(peer.frames().flatMap(({ type, streamId }) => (type === FRAME.data ? [streamId] : [])));
      expect([...ids]).toEqual([i % 2 === 0 ? 1 : 3]);
    }
    peer.feed(frame(FRAME.windowUpdate, 0, 0, u32(1 << 24)));
    expect(dataBytes(peer)).toBe(800_010 - START - 4 * 65_536);
  });

  it("uses larger frames when the peer takes them", () => {
    const { peer, calls } = sender();
    peer.feed(frame(FRAME.settings, 0, 0, setting(SETTING.maxFrameSize, 30_000)), open(1));
    calls[0]!.sendFramed(message(29_995));
    expect(
      peer
        .frames()
        .filter(({ type }) => type === FRAME.data)
        .map(({ payload }) => payload.length),
    ).toEqual([30_000]);
  });

  it("stops while the socket is full, in bounded memory, and goes on in turns when it has drained", () => {
    const { peer, calls } = sender();
    peer.feed(frame(FRAME.settings, 0, 0, setting(SETTING.initialWindowSize, 1 << 24)), open(1), open(3));
    peer.frames();
    peer.socket.full = true;
    let written = 0;
    const writable: string[] = [];
    for (const [index, call] of calls.entries()) {
      while (call.sendFramed(message(10_000))) written++;
      call.whenWritable(() => writable.push(`call ${index}`));
      written++;
    }
    peer.connection.endTurn();
    expect(peer.socket.writableLength).toBeLessThan(200_000);
    expect(writable).toEqual([]);
    peer.drainSocket();
    expect(writable).toEqual(["call 0", "call 1"]);
    expect(dataBytes(peer)).toBe(written * 10_005);
  });

  it.each([
    { size: 8192, copied: true },
    { size: 8193, copied: false },
  ])("sends ranges: of $size bytes that wait for the window, copied: $copied", ({ size, copied }) => {
    const { peer, calls } = sender();
    peer.feed(frame(FRAME.settings, 0, 0, setting(SETTING.initialWindowSize, 10)), open(1));
    const large = Buffer.alloc(100_000, "abcdefghijk");
    const expected = Buffer.from(large.subarray(7, 7 + 10 + size));
    calls[0]!.sendFramed(large, 7, 7 + 10 + size);
    expect(dataOf(peer)).toEqual(expected.subarray(0, 10));
    large.fill("-");
    peer.feed(frame(FRAME.windowUpdate, 0, 1, u32(1 << 20)));
    expect(dataOf(peer)).toEqual(copied ? expected.subarray(10) : Buffer.alloc(size, "-"));
    calls[0]!.sendFramed(large, 0, 0);
    calls[0]!.sendFramed(large, 99_990);
    expect(dataOf(peer)).toEqual(Buffer.alloc(10, "-"));
  });

  it("forgets what a stream had queued when it is reset", () => {
    const { peer, calls } = sender();
    peer.feed(open(1), open(3));
    calls[0]!.sendFramed(message(1_000_000));
    peer.frames();
    peer.feed(frame(FRAME.rstStream, 0, 1, u32(8)), frame(FRAME.windowUpdate, 0, 1, u32(1 << 20)));
    expect(peer.frames()).toEqual([]);
    calls[1]!.sendFramed(message(5));
    expect(dataBytes(peer)).toBe(10);
  });
});

describe("an HTTP/2 connection: turns", () => {
  it("answers everything that one chunk asks with one write", () => {
    const peer = new H2Peer((stream) => ({
      message: (bytes) => void stream.send(bytes),
      halfClosed: () => stream.end(0),
      closed() {},
    }));
    peer.socket.writes = 0;
    const parts: Buffer[] = [];
    for (let id = 1; id < 36; id += 2)
      parts.push(open(id), data(id, message(40)), data(id, message(50), FLAG.endStream));
    peer.feed(...parts);
    expect(peer.socket.writes).toBe(1);
    const frames = peer.frames();
    // Headers, both messages in one DATA frame, trailers.
    expect(frames).toHaveLength(54);
    expect(peer.streams).toBe(0);
  });

  it("drains: calls under way are served until the PING comes back, then new ones refused, then it closes", () => {
    const { handler, calls } = recorder();
    const peer = new H2Peer(handler);
    peer.feed(open(1));
    peer.connection.drain();
    const [goaway, ping] = peer.frames();
    expect(goaway).toMatchObject({ type: FRAME.goaway, payload: Buffer.concat([u32(0x7fffffff), u32(0)]) });
    peer.feed(open(3), frame(FRAME.ping, FLAG.ack, 0, ping!.payload), open(5));
    expect(peer.verdict()).toBe(`reset 5 ${ERROR.refusedStream}`);
    for (const call of calls) call.end(0);
    peer.connection.endTurn();
    const last = peer.frames().at(-1);
    expect(last).toMatchObject({ type: FRAME.goaway, payload: Buffer.concat([u32(5), u32(0)]) });
    expect(peer.socket.ended).toBe(true);
  });

  it("drains a peer that answers no PING", () => {
    const peer = new H2Peer(recorder().handler);
    peer.connection.drain();
    peer.clock.advance(1000);
    peer.connection.endTurn();
    expect(peer.socket.ended).toBe(true);
  });
});

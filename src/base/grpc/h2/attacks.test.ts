import { describe, expect, it, vi } from "vitest";
import { CALL_BLOCK, field, frame, H2Peer, open, setting, u32 } from "../../../../test/support/h2-peer.ts";
import type { GrpcHandler, GrpcStream } from "../transport.ts";
import { QUEUE_MARK } from "./outflow.ts";
import { ERROR, FLAG, FRAME, SETTING } from "./protocol.ts";
import { LONGEST_TURN, TURN_WORK } from "./turns.ts";

const NONE = Buffer.alloc(0);
const data = (streamId: number, payload: Uint8Array, flags = 0): Buffer => frame(FRAME.data, flags, streamId, payload);
const message = (length: number): Buffer => Buffer.concat([Buffer.of(0), u32(length), Buffer.alloc(length, 1)]);
const settings = (...values: readonly Buffer[]): Buffer => frame(FRAME.settings, 0, 0, Buffer.concat(values));
const window = (streamId: number, increment: number): Buffer => frame(FRAME.windowUpdate, 0, streamId, u32(increment));
const initialWindow = (size: number): Buffer => settings(setting(SETTING.initialWindowSize, size));
const reset = (streamId: number): Buffer => frame(FRAME.rstStream, 0, streamId, u32(ERROR.cancel));

const silent: GrpcHandler = () => ({ message() {}, halfClosed() {}, closed() {} });
const echo: GrpcHandler = (stream) => ({
  message: (bytes) => void stream.send(bytes),
  halfClosed: () => stream.end(0),
  closed() {},
});

/** Bytes that one read of a socket may bring. */
const READ = 256 * 1024;

/** `make(0)`, `make(1)` and so on, as many as fit one read. */
function fill(make: (n: number) => Buffer, bytes = READ): Buffer {
  const parts: Buffer[] = [];
  let length = 0;
  for (let n = 0; ; n++) {
    const part = make(n);
    if (length + part.length > bytes) return Buffer.concat(parts);
    parts.push(part);
    length += part.length;
  }
}

/**
 * Lets `chunk` arrive on `attacker`. In each turn of the event loop that follows, as long as the attacker has work left, a message
 * arrives on a connection beside it.
 * @param handled what the attacker has achieved so far, in units of its own
 * @returns the turns it took, how many messages were answered within the turn they came in, and the most that the attacker
 * has achieved in one turn
 */
function attack(attacker: H2Peer, chunk: Buffer, handled: () => number = () => 0) {
  const neighbour = new H2Peer(echo, { beside: attacker });
  neighbour.arrive(open(1));
  neighbour.frames();
  const seen = { turns: 0, answered: 0, mostInATurn: 0 };
  let before = handled();
  const note = (): void => {
    const now = handled();
    seen.mostInATurn = Math.max(seen.mostInATurn, now - before);
    before = now;
  };
  attacker.arrive(chunk);
  note();
  const poll = (): void => {
    note();
    if (!attacker.waiting || attacker.socket.ended) return;
    seen.turns++;
    neighbour.arrive(data(1, message(10)));
    if (neighbour.frames().some(({ type }) => type === FRAME.data)) seen.answered++;
    attacker.clock.soon(poll);
  };
  attacker.clock.soon(poll);
  attacker.clock.advance(0);
  return seen;
}

/** Frames of a type that the attacker was sent. */
function sent(peer: H2Peer, type: number): () => number {
  let count = 0;
  return () => {
    count += peer.frames().filter((frame) => frame.type === type).length;
    return count;
  };
}

describe("attacks on one connection: another one is served in every turn of the event loop", () => {
  it("10,000 streams and 40 SETTINGS frames of 2,730 initial windows each: no walk over the streams, and the end", () => {
    const attacker = new H2Peer(silent, { maxStreams: 2048 });
    attacker.feed(...Array.from({ length: 10_000 }, (_, n) => open(2 * n + 1)));
    expect(attacker.streams).toBe(2048);
    expect(attacker.refused.streams).toBe(10_000 - 2048);
    const refusals = attacker.frames();
    expect(refusals).toHaveLength(10_000 - 2048);
    expect(refusals.every(({ type, payload }) => type === FRAME.rstStream && payload[3] === ERROR.refusedStream)).toBe(
      true,
    );
    const walks = vi.spyOn(attacker.connection.streams, "values");
    const flood = settings(...Array.from({ length: 2730 }, (_, n) => setting(SETTING.initialWindowSize, 65_535 + n)));
    const changes = vi.spyOn(attacker.connection.outflow, "setInitialWindow");
    attacker.arrive(flood, flood, flood);
    attacker.clock.advance(0);
    expect(walks).not.toHaveBeenCalled();
    expect(changes).toHaveBeenCalledTimes(3);
    for (let n = 3; n < 40 && !attacker.socket.ended; n++) attacker.feed(flood);
    expect(attacker.verdict()).toContain(`goaway ${ERROR.enhanceYourCalm}`);
    expect(attacker.refused.flood).toBe(1);
    expect(attacker.streams).toBe(0);
  });

  it("of many values for one setting only the last one counts", () => {
    const calls: GrpcStream[] = [];
    const peer = new H2Peer((stream) => {
      calls.push(stream);
      return { message() {}, halfClosed() {}, closed() {} };
    });
    peer.feed(open(1), settings(setting(SETTING.initialWindowSize, 0), setting(SETTING.initialWindowSize, 7)));
    calls[0]!.sendFramed(message(100));
    const sizes = peer.frames().flatMap(({ type, payload }) => (type === FRAME.data ? [payload.length] : []));
    expect(sizes).toEqual([7]);
  });

  it("rapid reset: never an offence, and never more than a turn's share", () => {
    let opened = 0;
    const attacker = new H2Peer((stream) => {
      opened++;
      return silent(stream);
    });
    const chunk = fill((n) => Buffer.concat([open(2 * n + 1), reset(2 * n + 1)]));
    const { turns, answered, mostInATurn } = attack(attacker, chunk, () => opened);
    expect(opened).toBeGreaterThan(4000);
    expect(mostInATurn).toBeLessThan(TURN_WORK / 8);
    expect(turns).toBeGreaterThan(30);
    expect(answered).toBe(turns);
    expect(attacker.socket.ended).toBe(false);
    expect(attacker.streams).toBe(0);
  });

  it("header blocks of 64 empty CONTINUATION frames", () => {
    let opened = 0;
    const attacker = new H2Peer((stream) => {
      opened++;
      return silent(stream);
    });
    const block = (streamId: number): Buffer =>
      Buffer.concat([
        frame(FRAME.headers, 0, streamId, CALL_BLOCK),
        ...Array.from({ length: 63 }, () => frame(FRAME.continuation, 0, streamId)),
        frame(FRAME.continuation, FLAG.endHeaders, streamId),
      ]);
    const { turns, answered, mostInATurn } = attack(
      attacker,
      fill((n) => block(2 * n + 1)),
      () => opened,
    );
    expect(opened).toBeGreaterThan(300);
    expect(mostInATurn).toBeLessThanOrEqual(TURN_WORK / 64);
    expect(turns).toBeGreaterThan(15);
    expect(answered).toBe(turns);
  });

  it("a CONTINUATION without an end", () => {
    const attacker = new H2Peer(silent);
    attack(
      attacker,
      fill((n) => (n === 0 ? frame(FRAME.headers, 0, 1) : frame(FRAME.continuation, 0, 1))),
    );
    expect(attacker.verdict()).toBe(`goaway ${ERROR.enhanceYourCalm}`);
  });

  it.each<[string, (n: number) => Buffer, number | undefined]>([
    ["PING", () => frame(FRAME.ping, 0, 0, Buffer.alloc(8)), FRAME.ping],
    ["answers to PINGs that were never sent", () => frame(FRAME.ping, FLAG.ack, 0, Buffer.alloc(8)), undefined],
    ["SETTINGS", () => settings(), FRAME.settings],
    ["SETTINGS with values nobody knows", () => settings(setting(0xff, 1), setting(0xfe, 1)), FRAME.settings],
    ["empty DATA", () => data(1, NONE), undefined],
    ["DATA that is all padding", () => data(1, Buffer.of(1, 0), FLAG.padded), undefined],
    ["DATA on a stream that is closed", () => data(3, Buffer.of(1)), FRAME.rstStream],
    ["the end of a stream that is closed", () => data(3, NONE, FLAG.endStream), FRAME.rstStream],
    ["RST_STREAM for a stream that is closed", () => reset(3), undefined],
    ["PRIORITY", () => frame(FRAME.priority, 0, 5, Buffer.alloc(5)), undefined],
    ["GOAWAY", () => frame(FRAME.goaway, 0, 0, Buffer.alloc(8)), undefined],
    ["unknown frames", () => frame(0xee, 0, 0), undefined],
    ["WINDOW_UPDATE for the connection", () => window(0, 1), undefined],
    ["WINDOW_UPDATE for a stream", () => window(1, 1), undefined],
    ["WINDOW_UPDATE for a stream that is closed", () => window(3, 1), undefined],
    ["an initial window that flaps", (n) => initialWindow(n % 2), FRAME.settings],
    [
      "PING with a new stream now and then",
      (n) =>
        n % 100 === 0 ? Buffer.concat([open(n / 50 + 5), reset(n / 50 + 5)]) : frame(FRAME.ping, 0, 0, Buffer.alloc(8)),
      FRAME.ping,
    ],
  ])("%s: ends with ENHANCE_YOUR_CALM", (_what, make, answer) => {
    const attacker = new H2Peer(silent);
    attacker.feed(open(1), open(3), reset(3));
    attacker.frames();
    let n = 0;
    const chunk = fill(() => make(n++));
    const { turns, answered, mostInATurn } = attack(
      attacker,
      chunk,
      answer === undefined ? undefined : sent(attacker, answer),
    );
    expect(turns).toBeGreaterThan(3);
    expect(answered).toBe(turns);
    expect(mostInATurn).toBeLessThanOrEqual(TURN_WORK);
    // As a few reads more, at full speed.
    for (let reads = 0; reads < 4 && !attacker.socket.ended; reads++) attacker.feed(fill(() => make(n++)));
    expect(attacker.socket.ended).toBe(true);
    expect(attacker.refused.flood).toBe(1);
  });

  it("WINDOW_UPDATEs of a client that returns what it reads, byte by byte: never an offence", () => {
    const peer = new H2Peer(echo);
    peer.feed(open(1));
    for (let n = 0; n < 12_000; n++) {
      peer.feed(data(1, message(1)));
      peer.feed(window(0, 6), window(1, 6));
      if (n % 100 === 0) peer.frames();
    }
    expect(peer.socket.ended).toBe(false);
  });

  it("one DATA frame of 3,000 messages: they are delivered in several turns, in order", () => {
    const got: number[] = [];
    const attacker = new H2Peer(() => ({
      message: (bytes) => void got.push(bytes[0]! * 256 + bytes[1]!),
      halfClosed() {},
      closed() {},
    }));
    attacker.feed(open(1));
    const numbered = (n: number): Buffer => Buffer.concat([Buffer.of(0), u32(2), Buffer.of(n >> 8, n)]);
    const payloads = Array.from({ length: 8 }, (_, frame) =>
      Buffer.concat(Array.from({ length: 2340 }, (_, n) => numbered(2340 * frame + n))),
    );
    const { turns, answered, mostInATurn } = attack(
      attacker,
      Buffer.concat(payloads.map((payload) => data(1, payload))),
      () => got.length,
    );
    expect(got).toEqual(Array.from({ length: 8 * 2340 }, (_, n) => n));
    expect(mostInATurn).toBeLessThanOrEqual(TURN_WORK / 8);
    expect(turns).toBeGreaterThan(100);
    expect(answered).toBe(turns);
  });

  it("zero windows: what is not taken stays in bounded queues", () => {
    const calls: GrpcStream[] = [];
    let held = 0;
    const attacker = new H2Peer((stream) => {
      calls.push(stream);
      // As every handler must: it stops reading when it is told that the answers pile up.
      return {
        message(bytes) {
          held += bytes.length + 5;
          if (!stream.send(bytes)) stream.pause();
        },
        halfClosed() {},
        closed() {},
      };
    });
    attacker.feed(initialWindow(0), ...Array.from({ length: 1000 }, (_, n) => open(2 * n + 1)));
    const flood = Buffer.concat(Array.from({ length: 1000 }, (_, n) => data(2 * n + 1, message(8000))));
    for (let round = 0; round < 3; round++) attack(attacker, flood);
    for (let round = 0; round < 20; round++) attacker.feed(data(1, message(8000)));
    expect(held).toBeLessThanOrEqual(1000 * 3 * 8005 + QUEUE_MARK);
    // Nothing was sent but headers, settings and window.
    expect(attacker.frames().filter(({ type }) => type === FRAME.data)).toEqual([]);
    expect(attacker.socket.ended).toBe(false);
  });

  it("window churn with 1,000 streams that wait: ENHANCE_YOUR_CALM after a few frames", () => {
    const attacker = new H2Peer(echo);
    attacker.feed(initialWindow(0), window(0, 1 << 30));
    for (let n = 0; n < 1000; n++) attacker.feed(open(2 * n + 1), data(2 * n + 1, message(1000)));
    let flaps = 0;
    const { answered, turns } = attack(
      attacker,
      fill((n) => initialWindow(n % 2), 15 * 64),
      () => ++flaps,
    );
    expect(answered).toBe(turns);
    expect(attacker.socket.ended).toBe(true);
    expect(attacker.refused.flood).toBe(1);
  });

  it("one WINDOW_UPDATE that frees 100 MB of answers: they are written in several turns", () => {
    const calls: GrpcStream[] = [];
    const attacker = new H2Peer((stream) => {
      calls.push(stream);
      return silent(stream);
    });
    attacker.feed(initialWindow(0x7fffffff), ...Array.from({ length: 100 }, (_, n) => open(2 * n + 1)));
    for (const call of calls) call.sendFramed(message(1 << 20));
    attacker.frames();
    const written = sentBytes(attacker);
    const { turns, answered, mostInATurn } = attack(attacker, window(0, 0x7fffffff - 65_535), written);
    expect(written()).toBeGreaterThan(104_800_000);
    expect(mostInATurn).toBeLessThan(3 << 20);
    expect(turns).toBeGreaterThan(50);
    expect(answered).toBe(turns);
  });

  it("HPACK: 60,000 references to a large entry in one block end the connection after 2,048", () => {
    const attacker = new H2Peer(silent);
    const large = Buffer.concat([
      Buffer.of(0x40, 1),
      Buffer.from("x"),
      Buffer.of(0x7f, 0xa0, 0x1e),
      Buffer.alloc(3999, 0x61),
    ]);
    const references = Buffer.alloc(16_000, 0xbe);
    attacker.feed(frame(FRAME.headers, 0, 1, Buffer.concat([CALL_BLOCK, large])));
    attacker.feed(
      frame(FRAME.continuation, 0, 1, references),
      frame(FRAME.continuation, 0, 1, references),
      frame(FRAME.continuation, FLAG.endHeaders, 1, references),
    );
    expect(attacker.verdict()).toBe(`goaway ${ERROR.enhanceYourCalm}`);
  });

  it("HPACK: blocks of 2,000 fields each cost their connection a turn for a few of them", () => {
    let answers = 0;
    const attacker = new H2Peer(silent);
    const refused = sent(attacker, FRAME.headers);
    const block = Buffer.concat([CALL_BLOCK, ...Array.from({ length: 2000 }, () => field("x", "1234"))]);
    const { turns, answered, mostInATurn } = attack(
      attacker,
      fill((n) => frame(FRAME.headers, FLAG.endHeaders, 2 * n + 1, block.subarray(0, 16_384 - ((16_384 - 42) % 8)))),
      () => (answers = refused()),
    );
    expect(answers).toBeGreaterThan(10);
    expect(mostInATurn).toBeLessThanOrEqual(3);
    expect(turns).toBeGreaterThan(3);
    expect(answered).toBe(turns);
  });

  it("a block that begins and never grows takes no more memory than its bytes", () => {
    const allocate = vi.spyOn(Buffer, "allocUnsafe");
    try {
      const attacker = new H2Peer(silent);
      attacker.feed(frame(FRAME.headers, 0, 1, CALL_BLOCK));
      expect(Math.max(...allocate.mock.calls.map(([size]) => size))).toBeLessThan(1024);
    } finally {
      allocate.mockRestore();
    }
  });

  it("slow reads: a peer that reads nothing of its answers is dropped after a minute, or a megabyte", () => {
    const attacker = new H2Peer(echo);
    attacker.socket.full = true;
    attacker.feed(open(1), data(1, message(1000)));
    expect(attacker.socket.destroyed).toBe(false);
    attacker.clock.advance(59_999);
    expect(attacker.socket.destroyed).toBe(false);
    attacker.clock.advance(1);
    expect(attacker.socket.destroyed).toBe(true);
    expect(attacker.streams).toBe(0);

    const slow = new H2Peer(echo);
    slow.socket.full = true;
    slow.feed(open(1), data(1, message(1000)));
    slow.clock.advance(59_000);
    slow.drainSocket();
    slow.clock.advance(120_000);
    expect(slow.socket.destroyed).toBe(false);
    // The minute begins anew with each time that the socket is full, whenever the last one was.
    for (const pause of [0, 30_000]) {
      slow.socket.full = true;
      slow.feed(window(0, 1), frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
      slow.clock.advance(30_000);
      slow.drainSocket();
      slow.clock.advance(pause);
    }
    slow.socket.full = true;
    slow.feed(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
    slow.clock.advance(59_999);
    expect(slow.socket.destroyed).toBe(false);
    slow.clock.advance(1);
    expect(slow.socket.destroyed).toBe(true);

    const loud = new H2Peer(silent);
    loud.socket.full = true;
    for (let n = 0; n < 40; n++) {
      loud.feed(fill(() => frame(FRAME.ping, 0, 0, Buffer.alloc(8)), 17 * 1000));
      loud.clock.advance(1400);
    }
    expect(loud.socket.writableLength).toBeLessThan(1 << 20);
    expect(loud.socket.destroyed).toBe(false);
    for (let id = 1; !loud.socket.destroyed && id < 1e6; id += 2)
      loud.feed(frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, id, Buffer.of(0x82, 0x86, 0x84)));
    expect(loud.socket.destroyed).toBe(true);
    expect(loud.socket.writableLength).toBeLessThan(1.1 * (1 << 20));
  });

  it("a connection that is lost with 2,000 calls: they are told in several turns", () => {
    let told = 0;
    const attacker = new H2Peer(() => ({ message() {}, halfClosed() {}, closed: () => void told++ }), {
      maxStreams: 2000,
    });
    attacker.feed(...Array.from({ length: 2000 }, (_, n) => open(2 * n + 1)));
    const neighbour = new H2Peer(echo, { beside: attacker });
    neighbour.feed(open(1));
    attacker.connection.destroy();
    let turns = 0;
    let most = told;
    let before = told;
    const poll = (): void => {
      most = Math.max(most, told - before);
      before = told;
      turns++;
      neighbour.arrive(data(1, message(10)));
      expect(neighbour.frames().some(({ type }) => type === FRAME.data)).toBe(true);
      if (told < 2000) attacker.clock.soon(poll);
    };
    attacker.clock.soon(poll);
    attacker.clock.advance(0);
    expect(told).toBe(2000);
    expect(most).toBeLessThanOrEqual(300);
    expect(turns).toBeGreaterThan(6);
    expect(attacker.connectionClosed).toBe(true);
    expect(attacker.streams).toBe(0);
  });

  it("a server that closes tells every call at once", () => {
    let told = 0;
    const peer = new H2Peer(() => ({ message() {}, halfClosed() {}, closed: () => void told++ }), { maxStreams: 2000 });
    peer.feed(...Array.from({ length: 2000 }, (_, n) => open(2 * n + 1)));
    peer.connection.dropAll();
    expect(told).toBe(2000);
    expect(peer.connectionClosed).toBe(true);
  });
});

function sentBytes(peer: H2Peer): () => number {
  let sum = 0;
  return () => {
    for (const bytes of peer.socket.written.splice(0)) sum += bytes.length;
    return sum;
  };
}

describe("a connection that waits for a turn", () => {
  const pings = fill(() => frame(FRAME.ping, 0, 0, Buffer.alloc(8)), 30_000);

  /** A connection beside one with a call: its turn is `TURN_WORK`. */
  function besideACall(handler: GrpcHandler): H2Peer {
    const peer = new H2Peer(handler);
    new H2Peer(silent, { beside: peer }).feed(open(1));
    return peer;
  }

  it("keeps one more read, is then not read any more until it has acted on both, and loses nothing", () => {
    const peer = besideACall(silent);
    const answers = sent(peer, FRAME.ping);
    peer.arrive(pings);
    expect([peer.waiting, peer.socket.paused]).toEqual([true, false]);
    peer.arrive(pings);
    expect(peer.socket.paused).toBe(true);
    peer.clock.advance(0);
    expect([peer.waiting, peer.socket.paused]).toEqual([false, false]);
    expect(answers()).toBe((2 * pings.length) / 17);
    peer.feed(open(1));
    expect(peer.streams).toBe(1);
  });

  it("is not read any more when the read was long, and loses nothing", () => {
    const peer = besideACall(silent);
    const answers = sent(peer, FRAME.ping);
    peer.arrive(pings, pings);
    expect([peer.waiting, peer.socket.paused]).toEqual([true, true]);
    peer.clock.advance(0);
    expect([peer.waiting, peer.socket.paused]).toEqual([false, false]);
    expect(answers()).toBe((2 * pings.length) / 17);
  });

  it("is read on when a long read has made it fail, so that its end is noticed", () => {
    const peer = besideACall(silent);
    const almost = fill(() => frame(FRAME.ping, 0, 0, Buffer.alloc(8)), 1000 * 17);
    // This frame ends both the turn, by its size, and the connection: no stream is open.
    const last = frame(FRAME.data, 0, 1, Buffer.alloc(16 * 1024));
    peer.arrive(almost, last, pings);
    expect([peer.socket.ended, peer.socket.paused]).toEqual([true, false]);
  });

  it("is read again when it fails, so that its end is noticed", () => {
    const peer = besideACall(silent);
    peer.arrive(pings);
    peer.arrive(Buffer.concat([pings, frame(FRAME.ping, 0, 1)]));
    expect(peer.socket.paused).toBe(true);
    peer.clock.advance(0);
    expect(peer.socket.ended).toBe(true);
    expect(peer.socket.paused).toBe(false);
  });

  it("delivers what a paused stream has kept, and nothing twice, when it is resumed in the middle of it", () => {
    const calls: GrpcStream[] = [];
    const got: number[] = [];
    const peer = besideACall((stream) => {
      calls.push(stream);
      stream.pause();
      return { message: (bytes) => void got.push(bytes[0]!), halfClosed() {}, closed() {} };
    });
    const messages = Array.from({ length: 250 }, (_, n) => Buffer.of(0, 0, 0, 0, 1, n));
    peer.feed(open(1), data(1, Buffer.concat(messages)), open(3), data(3, Buffer.concat(messages)));
    for (const call of calls) call.resume();
    return new Promise<void>((resolve) => process.nextTick(resolve)).then(() => {
      expect(got.length).toBeLessThan(250);
      peer.arrive(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
      peer.clock.advance(0);
      expect(got.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 500 }, (_, n) => n >> 1));
      expect(peer.frames().some(({ type }) => type === FRAME.ping)).toBe(true);
    });
  });
});

describe("attacks by many connections", () => {
  it("50 floods at once: another connection is served after at most two turns' work", () => {
    let pings = 0;
    const first = new H2Peer(silent);
    const others = Array.from({ length: 49 }, () => new H2Peer(silent, { beside: first }));
    const attackers = [first, ...others];
    const neighbour = new H2Peer(echo, { beside: first, address: "10.0.0.2" });
    neighbour.feed(open(1));
    neighbour.frames();
    const counts = attackers.map((attacker) => sent(attacker, FRAME.ping));
    const flood = fill(() => frame(FRAME.ping, 0, 0, Buffer.alloc(8)), 150_000);
    for (const attacker of attackers) attacker.arrive(flood);
    // The first two have used up the round: the others were put off, and the neighbour's message is, too.
    expect(counts.map((count) => count()).filter((count) => count > 0)).toHaveLength(2);
    let rounds = 0;
    let more = 50;
    let waits = 0;
    let worst = 0;
    const poll = (): void => {
      rounds++;
      const handled = counts.reduce((sum, count) => sum + count(), 0);
      worst = Math.max(worst, handled - pings);
      pings = handled;
      const answered = neighbour.frames().some(({ type }) => type === FRAME.data);
      waits = answered ? 0 : waits + 1;
      expect(waits).toBeLessThan(3);
      if (!neighbour.waiting) neighbour.arrive(data(1, message(10)));
      // What a read of theirs may bring once they are read again.
      for (const attacker of attackers)
        if (!attacker.waiting && !attacker.socket.ended && more-- > 0) attacker.arrive(flood);
      if (attackers.some(({ waiting }) => waiting)) first.clock.soon(poll);
    };
    neighbour.arrive(data(1, message(10)));
    first.clock.soon(poll);
    first.clock.advance(0);
    expect(pings).toBeGreaterThan(400_000);
    expect(rounds).toBeGreaterThan(100);
    expect(worst).toBeLessThanOrEqual(4 * TURN_WORK);
  });
});

describe("the length of a turn", () => {
  const PINGS = Math.ceil(600_000 / 17);
  const pings = Buffer.concat(Array.from({ length: PINGS }, () => frame(FRAME.ping, 0, 0, Buffer.alloc(8))));
  /** A turn costs a few units besides the PINGs. */
  const about = (units: number): unknown => ({ asymmetricMatch: (n: number) => n > units - 64 && n <= units });

  /** Runs `each` in every turn of the event loop while the peer has work left. */
  function inEachTurn(peer: H2Peer, each: () => void): void {
    const poll = (): void => {
      if (!peer.waiting) return;
      each();
      peer.clock.soon(poll);
    };
    peer.clock.soon(poll);
    peer.clock.advance(0);
  }

  it("is five times as long for a connection alone as beside a call, and again after that call", () => {
    const attacker = new H2Peer(silent);
    const neighbour = new H2Peer(echo, { beside: attacker });
    const answers = sent(attacker, FRAME.ping);
    let before = 0;
    const turns: number[] = [];
    const note = (): void => {
      const now = answers();
      turns.push(now - before);
      before = now;
    };
    attacker.arrive(pings);
    note();
    inEachTurn(attacker, () => {
      note();
      // The attacker has had one turn since the last look of the neighbour, and the neighbour is served.
      if (turns.length === 2) {
        neighbour.arrive(open(1), data(1, message(10)));
        expect(neighbour.frames().some(({ type }) => type === FRAME.data)).toBe(true);
      }
      if (turns.length === 4) neighbour.arrive(reset(1));
    });
    expect(turns.slice(0, 5)).toEqual([LONGEST_TURN, LONGEST_TURN, TURN_WORK, TURN_WORK, LONGEST_TURN].map(about));
  });

  it("begins again in each turn of the event loop: little work in each of many turns never makes a connection wait", () => {
    const peer = new H2Peer(silent);
    for (let n = 0; n < 2 * LONGEST_TURN; n++) {
      peer.arrive(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
      expect(peer.waiting).toBe(false);
      peer.clock.advance(0);
    }
  });

  it("never lets a connection alone write more than some megabytes in one turn", () => {
    const calls: GrpcStream[] = [];
    const attacker = new H2Peer((stream) => {
      calls.push(stream);
      return silent(stream);
    });
    attacker.feed(initialWindow(0x7fffffff), ...Array.from({ length: 20 }, (_, n) => open(2 * n + 1)));
    for (const call of calls) call.sendFramed(message(1 << 20));
    attacker.frames();
    const written = sentBytes(attacker);
    attacker.arrive(window(0, 0x7fffffff - 65_535));
    const sums = [written()];
    inEachTurn(attacker, () => void sums.push(written()));
    expect(written()).toBeGreaterThan(20_900_000);
    const most = Math.max(...sums.map((sum, n) => sum - (sums[n - 1] ?? 0)));
    expect(most).toBeLessThan(2.5 * (1 << 20));
  });
});

describe("HEADERS on streams that are closed (RFC 9113, sections 5.1 and 5.1.1)", () => {
  const trailers = (streamId: number, block = field("x", "y")): Buffer =>
    frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, streamId, block);

  it.each<[string, Buffer[]]>([
    ["a stream that its client has reset", [open(1), reset(1), open(1)]],
    ["a stream that was never opened and is below the last", [open(1), open(5), trailers(3)]],
    ["a stream that both sides have ended", [open(1, FLAG.endStream), trailers(1)]],
    ["a stream that was refused after its end", [frame(FRAME.headers, 5, 1, Buffer.of(0x82)), trailers(1)]],
    ["a stream that was ended early and then reset", [data0(), reset(1), trailers(1)]],
    ["trailers behind trailers", [data0(), trailers(1), trailers(1)]],
    ["trailers behind the end of the data", [data0(), data(1, NONE, FLAG.endStream), trailers(1)]],
  ])("end the connection: %s", (_what, frames) => {
    const peer = new H2Peer(ending);
    peer.feed(...frames);
    expect(peer.verdict()).toContain(`goaway ${ERROR.protocol}`);
  });

  it("are decoded and dropped when they cross the server's own reset", () => {
    const { length } = CALL_BLOCK;
    const peer = new H2Peer(ending);
    // The answer ended the stream early; data and trailers of it, with an entry for the table, were on their way.
    peer.feed(data0(), data(1, message(3)), trailers(1, Buffer.from("\x40\x01a\x01b", "latin1")));
    expect(peer.verdict()).toBe(`reset 1 ${ERROR.none}`);
    // The table knows the entry: the next request may refer to it.
    const calls = peer.streams;
    peer.feed(
      frame(FRAME.headers, FLAG.endHeaders, 3, Buffer.concat([CALL_BLOCK.subarray(0, length), Buffer.of(0xbe)])),
    );
    expect(peer.socket.ended).toBe(false);
    expect(peer.streams).toBe(calls + 1);
  });

  it.each<[string, Buffer[]]>([
    ["that was refused", [open(1), open(3), trailers(3)]],
    ["whose request was malformed", [frame(FRAME.headers, FLAG.endHeaders, 1, Buffer.of(0x83)), trailers(1)]],
    [
      "that was answered with an HTTP status",
      [frame(FRAME.headers, FLAG.endHeaders, 1, Buffer.of(0x82, 0x86, 0x84)), trailers(1)],
    ],
    ["that broke a rule", [open(1), window(1, 0), trailers(1)]],
  ])("are dropped on a stream %s", (_what, frames) => {
    const peer = new H2Peer(silent, { maxStreams: 1 });
    peer.feed(...frames);
    expect(peer.verdict()).toMatch(/^reset \d \d$/);
    expect(peer.socket.ended).toBe(false);
  });

  it("are expected on as many streams as the client may have open, the latest", () => {
    const peer = new H2Peer(ending, { maxStreams: 3 });
    for (const id of [1, 3, 5, 7]) peer.feed(open(id), data(id, message(1)));
    peer.feed(trailers(3), trailers(5), trailers(7));
    expect(peer.verdict()).not.toContain("goaway");
    peer.feed(trailers(1));
    expect(peer.verdict()).toBe(`goaway ${ERROR.protocol}`);
  });

  /** Ends every call at its first message. */
  function ending(stream: GrpcStream) {
    return { message: () => stream.end(0), halfClosed: () => stream.end(0), closed() {} };
  }

  /** A call that the server ends before its client. */
  function data0(): Buffer {
    return Buffer.concat([open(1), data(1, message(1))]);
  }
});

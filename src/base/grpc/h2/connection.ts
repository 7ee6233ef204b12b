import type { Socket } from "node:net";
import type { Timer } from "../../clock/clock.ts";
import type { ConnectionHost } from "./connection-host.ts";
import { FrameReader } from "./frame-reader.ts";
import { FrameWriter } from "./frame-writer.ts";
import { type FramedConnection, Inbound } from "./inbound.ts";
import { Outflow } from "./outflow.ts";
import { CONNECTION_WINDOW, DEFAULT_WINDOW, ERROR, FLAG, FRAME, MAX_31_BITS, serverSettings } from "./protocol.ts";
import type { RequestHead } from "./request-head.ts";
import { statusBlock } from "./response-head.ts";
import { readInto } from "./socket.ts";
import { H2Stream, type StreamOwner } from "./stream.ts";
import { COST, TURN_WORK, type TurnTaker } from "./turns.ts";

/** Milliseconds: for preface and SETTINGS; for a peer to receive a GOAWAY, or to answer the PING of a drain. */
const PREFACE_TIMEOUT = 10_000;
const LINGER = 1000;

/** Bytes of answers that a peer may leave unread besides the data it has asked for: 40,000 answers to PING. */
const MAX_UNREAD_OUTPUT = 1024 * 1024;

/** Milliseconds in which a peer must have read the bytes that filled its socket. */
const UNREAD_TIMEOUT = 60_000;

/** Bytes. A copy of so many bytes costs more than to stop reading and to begin again. */
const LONG_READ = 32 * 1024;

const DRAIN_PING = Buffer.from("draining", "latin1");

/**
 * The states of a connection, which it passes in this order. `draining`: GOAWAY is sent, and new calls of the peer are still
 * served. `refusing` ends with the last call. `failed`: nothing is read any more. `gone`: the socket is closed.
 */
const LIFE = { open: 0, draining: 1, refusing: 2, failed: 3, gone: 4 } as const;
type Life = (typeof LIFE)[keyof typeof LIFE];

function endTurn(connection: Connection): void {
  connection.endTurn();
}

/**
 * One HTTP/2 connection of a server (RFC 9113): its socket, its streams, its turns and its end. Output that arises while a
 * chunk is read leaves at the end of the chunk, in one write. Other output leaves at the end of the turn. After its share of
 * work the connection stops reading, and continues when the other connections have had their turns.
 */
export class Connection implements FramedConnection, StreamOwner, TurnTaker {
  readonly host: ConnectionHost;
  readonly maxMessageBytes: number;
  readonly writer: FrameWriter;
  readonly outflow: Outflow;
  readonly address: string;
  readonly streams: Map<number, H2Stream> = new Map();

  readonly #socket: Socket;
  readonly #inbound: Inbound;
  readonly #reader: FrameReader;
  /** Calls that were answered in this turn. Their streams are closed at its end. */
  readonly #answered: H2Stream[] = [];
  /** Bytes that were read from the socket and must wait for a turn: two reads at most, the first perhaps in part. */
  #rest: Buffer[] = [];
  /** Streams that have messages to deliver in the next turn. */
  readonly #held = new Set<H2Stream>();
  /** Units of work in the present round of turns. */
  #work = 0;
  #round = -1;
  /** The units that this round of turns allows. */
  #share = TURN_WORK;
  /** The part of `#work` that was reported to `Turns`. */
  #told = 0;
  /** The connection has asked for a turn. */
  #waiting = false;
  /** The socket is not read. */
  #paused = false;
  #reading = false;
  #touched = false;
  #life: Life = LIFE.open;
  #timer: Timer;
  /** Monotonic milliseconds since the socket is full; NaN = it is not. */
  #fullSince = Number.NaN;
  /** Looks later whether the socket is still full. A busy socket is full every few milliseconds, and a timer for each time is dear. */
  #unread: Timer | undefined;

  /**
   * @param accepted a socket that has not been read from
   * @param encrypted whether it is TLS
   */
  constructor(accepted: Socket, encrypted: boolean, host: ConnectionHost) {
    this.host = host;
    this.maxMessageBytes = host.maxMessageBytes;
    this.address = accepted.remoteAddress ?? "";
    this.#inbound = new Inbound(this);
    this.#reader = new FrameReader(this.#inbound);
    const read = (chunk: Buffer): void => this.read(chunk);
    const socket = encrypted ? accepted.on("data", read) : readInto(accepted, read, () => host.connections);
    this.#socket = socket;
    this.writer = new FrameWriter(socket, encrypted);
    this.outflow = new Outflow(this.writer, () => {
      this.spend(this.#share);
      this.#wait();
    });
    this.#timer = host.clock.after(PREFACE_TIMEOUT, () => this.destroy(), true);
    socket.on("drain", () => this.#drained());
    socket.on("error", () => {});
    socket.on("end", () => this.destroy());
    socket.on("close", () => this.destroy());
    this.writer.frame(FRAME.settings, 0, 0, serverSettings(host.maxStreams));
    this.grant(0, CONNECTION_WINDOW - DEFAULT_WINDOW);
  }

  /** The connection reads nothing any more. */
  get failed(): boolean {
    return this.#life >= LIFE.failed;
  }

  /** Reads bytes that have arrived, or keeps them for a later turn. Never throws. */
  read(chunk: Buffer): void {
    if (this.failed) return;
    const { turns } = this.host;
    const { crowded } = turns;
    if (turns.round !== this.#round) this.#beginTurn();
    this.#work += COST.chunk;
    if (this.#waiting || crowded) {
      // The connection keeps one further read and only then stops reading. To stop reading costs more than a turn, and is
      // seldom needed.
      if (this.#rest.length > 0) this.#pause();
      this.#rest.push(Buffer.from(chunk));
      this.#wait();
      return;
    }
    this.#reading = true;
    const read = this.#consume(chunk);
    if (read < chunk.length && !this.failed) this.#rest.push(Buffer.from(chunk.subarray(read)));
    if (this.spent) {
      this.#wait();
      // Another long read is likely, and a copy of it would cost more than to stop.
      if (chunk.length >= LONG_READ && !this.failed) this.#pause();
    }
    this.#reading = false;
    this.endTurn();
  }

  /** Continues with the bytes that had to wait. */
  turn(): void {
    this.#waiting = false;
    this.#beginTurn();
    if (this.failed) {
      this.#dropStreams();
      return;
    }
    this.#reading = true;
    for (const stream of this.#held) {
      if (this.spent) break;
      this.#held.delete(stream);
      stream.pump();
    }
    this.outflow.pump();
    while (this.#rest.length > 0 && !this.spent) {
      const rest = this.#rest.shift()!;
      const read = this.#consume(rest);
      if (read < rest.length && !this.failed) this.#rest.unshift(rest.subarray(read));
    }
    if (this.spent || this.#rest.length > 0 || this.#held.size > 0) this.#wait();
    else if (!this.#waiting) this.#resume();
    this.#reading = false;
    this.endTurn();
  }

  spend(units: number): void {
    this.#work += units;
  }

  get spent(): boolean {
    return this.#work >= this.#share;
  }

  pumpLater(stream: H2Stream): void {
    this.#held.add(stream);
    this.#wait();
  }

  touch(): void {
    if (this.#reading || this.#touched) return;
    this.#touched = true;
    process.nextTick(endTurn, this);
  }

  /** Writes the gathered output, then closes the streams of the answered calls. */
  endTurn(): void {
    this.#touched = false;
    this.#tellWork();
    if (this.#life === LIFE.gone) return;
    this.writer.flush();
    if (this.#answered.length > 0) this.#reportAnswered();
    if (this.#socket.writableLength > MAX_UNREAD_OUTPUT) this.destroy();
    else if (this.#life === LIFE.refusing) this.#closeIfIdle();
    if (this.writer.blocked && Number.isNaN(this.#fullSince) && !this.failed) {
      this.#fullSince = this.host.clock.now();
      this.#unread ??= this.#lookIn(UNREAD_TIMEOUT);
    }
  }

  grant(streamId: number, bytes: number): void {
    this.touch();
    this.writer.number(FRAME.windowUpdate, streamId, bytes);
  }

  /** Begins a request whose header block is complete. */
  openStream(streamId: number, head: RequestHead, endStream: boolean): void {
    const overLimit = this.streams.size >= this.host.maxStreams;
    const isFull = !overLimit && !this.host.hasRoom(this);
    if (this.#life >= LIFE.refusing || overLimit || isFull) {
      if (overLimit) this.host.refuse("streams");
      else if (isFull) this.host.refuse("totalStreams");
      this.#reset(streamId, ERROR.refusedStream, endStream);
      return;
    }
    if (head.malformed || !head.complete) {
      this.#reset(streamId, ERROR.protocol, endStream);
      return;
    }
    const handler = head.tooLarge ? 431 : this.host.route(head);
    if (typeof handler === "number") {
      this.writer.frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, streamId, statusBlock(handler));
      if (!endStream) this.#reset(streamId, ERROR.none, false);
      return;
    }
    if (this.streams.size === 0) this.#callsOpen(true);
    const stream = new H2Stream(streamId, head.path, head.encoding === "gzip" ? "gzip" : "identity", this);
    this.streams.set(streamId, stream);
    this.host.opened(this);
    stream.start(handler);
    if (endStream) stream.endInput();
  }

  finished(stream: H2Stream): void {
    this.#forget(stream);
    // The peer has not finished its side: RST_STREAM asks it to stop (RFC 9113, section 8.1).
    if (!stream.inputEnded) this.#reset(stream.id, ERROR.none, false);
    this.#answered.push(stream);
  }

  /** The peer has reset the stream. */
  cancelled(stream: H2Stream): void {
    this.#drop(stream, true);
  }

  /** A stream error. */
  resetStream(stream: H2Stream, code: number): void {
    this.#reset(stream.id, code, stream.inputEnded);
    this.#drop(stream, false);
  }

  onHandlerError(error: unknown, path: string): void {
    this.host.onHandlerError(error, path);
  }

  /** The peer has sent its preface and SETTINGS. */
  settled(): void {
    if (this.#life === LIFE.open) this.#timer.cancel();
    this.host.greeted(this);
  }

  /** The answer to a PING has arrived. This server sends a PING only in a drain. */
  pinged(): void {
    if (this.#life === LIFE.draining) this.#refuseFurther();
  }

  /** Announces the end with GOAWAY; closes when the present calls have ended. */
  drain(): void {
    if (this.#life !== LIFE.open) return;
    this.#life = LIFE.draining;
    // Calls that are under way from the client are still served. Refusing begins when the peer must have received the GOAWAY
    // (RFC 9113, section 6.8).
    this.writer.goaway(MAX_31_BITS, ERROR.none, "");
    this.writer.frame(FRAME.ping, 0, 0, DRAIN_PING);
    this.touch();
    this.#rearm(() => this.#refuseFurther());
  }

  /** Ends the connection with GOAWAY: a connection error. */
  fail(code: number, text: string): void {
    if (this.failed) return;
    if (code === ERROR.enhanceYourCalm) this.host.refuse("flood");
    if (this.#reader.prefaced) this.writer.goaway(this.#inbound.lastStreamId, code, text);
    this.#hangUp();
  }

  /** Ends a connection without calls because another connection needs its place. */
  giveWay(): void {
    if (this.#reader.prefaced && !this.failed) this.writer.goaway(this.#inbound.lastStreamId, ERROR.none, "idle");
    this.writer.flush();
    this.destroy();
  }

  /** Drops the connection at once. Every call is cancelled; many calls take several turns of the event loop. */
  destroy(): void {
    if (this.#life === LIFE.gone) return;
    this.#stop(LIFE.gone);
    this.#timer.cancel();
    this.#unread?.cancel();
    this.#socket.destroy();
    this.#reportAnswered();
    this.#dropStreams();
  }

  /** Cancels every call now: the server closes. */
  dropAll(): void {
    this.destroy();
    while (this.streams.size > 0) {
      this.#beginTurn();
      this.#dropStreams();
    }
  }

  /** Sends the gathered output, then closes. Until the peer has read it, further bytes of the peer are dropped. */
  #hangUp(): void {
    this.writer.flush();
    this.#stop(LIFE.failed);
    this.#reportAnswered();
    this.#socket.end();
    this.#resume();
    this.#rearm(() => this.destroy());
    this.#dropStreams();
  }

  /** The connection takes no further input or output. */
  #stop(life: Life): void {
    this.#life = life;
    this.#rest = [];
    this.#held.clear();
    this.writer.blocked = true;
  }

  /** Asks for a turn. Until then the connection acts on nothing more. */
  #wait(): void {
    if (this.#waiting) return;
    this.#waiting = true;
    this.host.turns.wait(this, this.spent);
  }

  #pause(): void {
    this.#paused = true;
    this.#socket.pause();
  }

  #resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#socket.resume();
  }

  #consume(chunk: Buffer): number {
    try {
      return this.#reader.push(chunk);
    } catch (error) {
      this.host.onHandlerError(error, "");
      this.fail(ERROR.internal, "internal error");
      return 0;
    }
  }

  /** @param ended whether the peer has finished the stream: otherwise frames of it may still be under way */
  #reset(streamId: number, code: number, ended: boolean): void {
    this.writer.number(FRAME.rstStream, streamId, code);
    if (!ended) this.#inbound.closedEarly(streamId);
  }

  #rearm(callback: () => void): void {
    this.#timer.cancel();
    this.#timer = this.host.clock.after(LINGER, callback, true);
  }

  #refuseFurther(): void {
    if (this.#life >= LIFE.refusing) return;
    this.#life = LIFE.refusing;
    this.#timer.cancel();
    this.touch();
  }

  #closeIfIdle(): void {
    if (this.failed || this.streams.size > 0) return;
    this.writer.goaway(this.#inbound.lastStreamId, ERROR.none, "");
    this.#hangUp();
  }

  #lookIn(ms: number): Timer {
    const { clock } = this.host;
    const look = (): void => {
      this.#unread = undefined;
      if (Number.isNaN(this.#fullSince)) return;
      const left = this.#fullSince + UNREAD_TIMEOUT - clock.now();
      if (left <= 0) this.destroy();
      else this.#unread = this.#lookIn(left);
    };
    return clock.after(ms, look, true);
  }

  #drained(): void {
    if (this.failed) return;
    this.#fullSince = Number.NaN;
    this.writer.blocked = false;
    if (this.#socket.writableLength === 0) this.writer.reclaim();
    this.outflow.pump();
    this.endTurn();
  }

  #reportAnswered(): void {
    for (const stream of this.#answered.splice(0)) {
      this.host.ended(this, false);
      stream.close("ended");
    }
  }

  #beginTurn(): void {
    this.#tellWork();
    this.#round = this.host.turns.round;
    this.#share = this.host.turns.join(this);
    this.#work = 0;
    this.#told = 0;
  }

  #tellWork(): void {
    if (this.#work === this.#told) return;
    this.host.turns.spend(this.#work - this.#told);
    this.#told = this.#work;
  }

  /** Cancels calls of a connection that has failed, some of them in each turn. */
  #dropStreams(): void {
    for (const stream of this.streams.values()) {
      if (this.spent) {
        this.#tellWork();
        this.#wait();
        return;
      }
      this.spend(COST.drop);
      this.#drop(stream, false);
    }
    if (this.#life === LIFE.gone) this.host.closed(this);
  }

  #drop(stream: H2Stream, reset: boolean): void {
    this.#forget(stream);
    this.host.ended(this, reset);
    stream.close("cancelled");
  }

  #forget(stream: H2Stream): void {
    this.streams.delete(stream.id);
    if (this.#held.size > 0) this.#held.delete(stream);
    this.outflow.forget(stream);
    if (this.streams.size === 0) this.#callsOpen(false);
  }

  #callsOpen(open: boolean): void {
    this.host.busy(this, open);
    this.host.turns.calls(this, open);
  }
}

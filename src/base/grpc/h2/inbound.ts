import type { Clock } from "../../clock/clock.ts";
import type { FrameSink } from "./frame-reader.ts";
import type { FrameWriter } from "./frame-writer.ts";
import type { Outflow } from "./outflow.ts";
import {
  applySettings,
  CONNECTION_WINDOW,
  ERROR,
  FLAG,
  FRAME,
  SETTING_SIZE,
  type SettingsTarget,
  uint32,
} from "./protocol.ts";
import { HeaderBlocks, type RequestHead } from "./request-head.ts";
import type { H2Stream } from "./stream.ts";
import { COST, UNIT_SHIFT } from "./turns.ts";

/**
 * Noise within NOISE_PERIOD milliseconds after which a peer counts as an attacker. Noise is input without content: every value
 * of a SETTINGS frame and every stream that it moves, empty DATA, PING, PRIORITY, WINDOW_UPDATE, frames for streams that are
 * gone, unknown types. A stream that begins or delivers data excuses as much noise as FORGIVEN. Resets of open streams never
 * count.
 */
const MAX_NOISE = 10_000;
const NOISE_PERIOD = 10_000;
const FORGIVEN = 64;

/** A connection as the reader of its frames sees it. */
export interface FramedConnection {
  readonly host: { readonly clock: Clock; readonly maxStreams: number };
  readonly writer: FrameWriter;
  readonly outflow: Outflow;
  readonly streams: ReadonlyMap<number, H2Stream>;
  /** The connection reads nothing any more. */
  readonly failed: boolean;
  /** The connection has used up its share of the turn. */
  readonly spent: boolean;
  /** Counts work, in units of `COST`. */
  spend(units: number): void;
  /** Lets the client send so many more bytes. @param streamId 0 = on all streams together */
  grant(streamId: number, bytes: number): void;
  /** Begins a request whose header block is complete. */
  openStream(streamId: number, head: RequestHead, endStream: boolean): void;
  /** The peer has reset the stream. */
  cancelled(stream: H2Stream): void;
  /** A stream error. */
  resetStream(stream: H2Stream, code: number): void;
  /** The peer has sent its preface and SETTINGS. */
  settled(): void;
  /** The answer to a PING has arrived. */
  pinged(): void;
  /** A connection error. */
  fail(code: number, text: string): void;
}

/** Acts on the frames of one connection (RFC 9113, sections 5 and 6). */
export class Inbound implements FrameSink, SettingsTarget {
  readonly #connection: FramedConnection;
  readonly #headers = new HeaderBlocks();
  /** The highest stream id a client has used. */
  lastStreamId = 0;

  /** The stream of the DATA frame that is being read, unless its data is dropped. */
  #current: H2Stream | undefined;
  #dataStreamId = 0;
  /** The frame contained data. */
  #carries = false;
  /** Bytes that the client may still send on all streams together. */
  #window = CONNECTION_WINDOW;
  /** The first SETTINGS have arrived. */
  #settled = false;
  /** Streams that the SETTINGS frame being read made this side visit. */
  #looks = 0;
  #noise = 0;
  #noiseSince = Number.NEGATIVE_INFINITY;
  /** Streams that this side has closed and whose frames may still be under way, the oldest first. */
  readonly #late = new Set<number>();

  constructor(connection: FramedConnection) {
    this.#connection = connection;
  }

  get failed(): boolean {
    return this.#connection.failed;
  }

  get spent(): boolean {
    return this.#connection.spent;
  }

  /**
   * Expects frames on a stream that this side has closed before its peer had finished. Until the peer learns of that, it can
   * send at most on the streams that are open by its own count. So this side remembers as many streams as the peer may have
   * open.
   */
  closedEarly(streamId: number): void {
    this.#late.add(streamId);
    if (this.#late.size <= this.#connection.host.maxStreams) return;
    for (const oldest of this.#late) {
      this.#late.delete(oldest);
      return;
    }
  }

  fail(code: number, text: string): void {
    this.#connection.fail(code, text);
  }

  dataStart(streamId: number, length: number): void {
    this.#current = undefined;
    this.#dataStreamId = streamId;
    this.#carries = false;
    this.#connection.spend(COST.frame + (length >> UNIT_SHIFT));
    if (!this.#inOrder(FRAME.data, streamId)) return;
    const connection = this.#connection;
    this.#window -= length;
    // The window is given back at half, read or not: a stream that pauses has a window of its own and must not stall the
    // others.
    if (this.#window < CONNECTION_WINDOW / 2) {
      connection.grant(0, CONNECTION_WINDOW - this.#window);
      this.#window = CONNECTION_WINDOW;
    }
    const stream = connection.streams.get(streamId);
    if (stream === undefined) this.#onLateData(streamId);
    else if (stream.inputEnded) connection.resetStream(stream, ERROR.streamClosed);
    else if (!stream.account(length)) connection.resetStream(stream, ERROR.flowControl);
    else this.#current = stream;
  }

  data(bytes: Buffer, from: number, to: number): void {
    if (this.#current === undefined) return;
    if (!this.#carries) {
      this.#carries = true;
      this.#forgive();
    }
    this.#current.receive(bytes, from, to);
  }

  dataEnd(flags: number): void {
    const ends = (flags & FLAG.endStream) !== 0;
    if (this.#current === undefined) {
      if (ends) this.#late.delete(this.#dataStreamId);
      this.#countNoise(1);
    } else if (ends) this.#current.endInput();
    else if (!this.#carries) this.#countNoise(1);
  }

  frame(type: number, flags: number, streamId: number, bytes: Buffer, from: number, to: number): void {
    this.#connection.spend(COST.frame);
    if (!this.#inOrder(type, streamId)) return;
    switch (type) {
      case FRAME.headers:
        this.#onHeaders(flags, streamId, bytes, from, to);
        return;
      case FRAME.rstStream:
        this.#onReset(streamId, to - from);
        return;
      case FRAME.windowUpdate:
        this.#onWindowUpdate(streamId, bytes, from, to);
        return;
      case FRAME.settings:
        this.#onSettings(flags, streamId, bytes, from, to);
        return;
      case FRAME.ping:
        this.#onPing(flags, streamId, bytes, from, to);
        return;
      case FRAME.continuation:
        this.#onHeaderBlock(this.#headers.streamId, this.#headers.continuation(flags, bytes, from, to));
        return;
      case FRAME.goaway:
        if (streamId !== 0 || to - from < 8) this.fail(ERROR.protocol, "malformed GOAWAY");
        else this.#countNoise(1);
        return;
      case FRAME.priority:
        if (streamId === 0) this.fail(ERROR.protocol, "PRIORITY on stream 0");
        else if (to - from !== 5) this.fail(ERROR.frameSize, "PRIORITY of a wrong size");
        else this.#countNoise(1);
        return;
      case FRAME.pushPromise:
        this.fail(ERROR.protocol, "PUSH_PROMISE from a client");
        return;
      default:
        this.#countNoise(1);
    }
  }

  initialWindowSize(size: number): boolean {
    const connection = this.#connection;
    this.#looks = connection.outflow.setInitialWindow(size, connection.streams);
    return this.#looks >= 0;
  }

  maxFrameSize(size: number): void {
    this.#connection.writer.maxFrame = size;
  }

  /** SETTINGS come first, and within a header block only its continuation is legal. */
  #inOrder(type: number, streamId: number): boolean {
    if (!this.#settled && type !== FRAME.settings) {
      this.fail(ERROR.protocol, "the first frame is not SETTINGS");
      return false;
    }
    const open = this.#headers.streamId;
    if (type === FRAME.continuation ? open === 0 || streamId !== open : open !== 0) {
      this.fail(ERROR.protocol, open === 0 ? "CONTINUATION without HEADERS" : "a frame within a header block");
      return false;
    }
    return true;
  }

  #onHeaders(flags: number, streamId: number, bytes: Buffer, from: number, to: number): void {
    if ((streamId & 1) === 0) this.fail(ERROR.protocol, `HEADERS on stream ${streamId}`);
    else this.#onHeaderBlock(streamId, this.#headers.headers(flags, streamId, bytes, from, to));
  }

  /** A part of the block of `streamId` was taken. */
  #onHeaderBlock(streamId: number, error: number): void {
    const { head, endStream } = this.#headers;
    const connection = this.#connection;
    connection.spend(this.#headers.cost);
    if (error !== ERROR.none) {
      this.fail(error, "unacceptable header block");
      return;
    }
    if (this.#headers.streamId !== 0) return;
    if (streamId > this.lastStreamId) {
      this.lastStreamId = streamId;
      this.#forgive();
      connection.openStream(streamId, head, endStream);
      return;
    }
    const stream = connection.streams.get(streamId);
    if (stream === undefined) this.#onLateHeaders(streamId, endStream);
    else if (stream.inputEnded) connection.resetStream(stream, ERROR.streamClosed);
    else if (!endStream || head.malformed || !head.trailers) connection.resetStream(stream, ERROR.protocol);
    else stream.endInput();
  }

  #onReset(streamId: number, length: number): void {
    if (length !== 4) {
      this.fail(ERROR.frameSize, "RST_STREAM of a wrong size");
      return;
    }
    const connection = this.#connection;
    const stream = connection.streams.get(streamId);
    if (stream !== undefined) {
      connection.spend(COST.reset);
      connection.cancelled(stream);
    } else if (streamId === 0 || streamId > this.lastStreamId) {
      this.fail(ERROR.protocol, "RST_STREAM on an idle stream");
    } else {
      this.#late.delete(streamId);
      this.#countNoise(1);
    }
  }

  #onWindowUpdate(streamId: number, bytes: Buffer, from: number, to: number): void {
    if (to - from !== 4) {
      this.fail(ERROR.frameSize, "WINDOW_UPDATE of a wrong size");
      return;
    }
    const connection = this.#connection;
    this.#countNoise(1);
    const increment = uint32(bytes, from) & 0x7fffffff;
    if (streamId === 0) {
      if (increment === 0) this.fail(ERROR.protocol, "WINDOW_UPDATE by 0");
      else if (!connection.outflow.widen(increment)) this.fail(ERROR.flowControl, "window beyond 2^31 - 1");
      return;
    }
    const stream = connection.streams.get(streamId);
    if (stream === undefined) {
      if (streamId > this.lastStreamId) this.fail(ERROR.protocol, "WINDOW_UPDATE on an idle stream");
    } else if (increment === 0) {
      connection.resetStream(stream, ERROR.protocol);
    } else if (!connection.outflow.widenStream(stream, increment)) {
      connection.resetStream(stream, ERROR.flowControl);
    }
  }

  #onSettings(flags: number, streamId: number, bytes: Buffer, from: number, to: number): void {
    if (streamId !== 0) this.fail(ERROR.protocol, "SETTINGS on a stream");
    else if ((flags & FLAG.ack) !== 0) {
      if (to > from) this.fail(ERROR.frameSize, "SETTINGS acknowledgement with a payload");
      else this.#countNoise(1);
    } else {
      if (!this.#settled) this.#connection.settled();
      this.#settled = true;
      this.#looks = 0;
      const error = applySettings(bytes, from, to, this);
      if (error !== ERROR.none) {
        this.fail(error, "unacceptable SETTINGS");
        return;
      }
      this.#connection.writer.header(0, FRAME.settings, FLAG.ack, 0);
      this.#connection.spend(this.#looks + ((to - from) >> UNIT_SHIFT));
      this.#countNoise(1 + this.#looks + (to - from) / SETTING_SIZE);
    }
  }

  #onPing(flags: number, streamId: number, bytes: Buffer, from: number, to: number): void {
    if (streamId !== 0) this.fail(ERROR.protocol, "PING on a stream");
    else if (to - from !== 8) this.fail(ERROR.frameSize, "PING of a wrong size");
    else {
      if ((flags & FLAG.ack) !== 0) this.#connection.pinged();
      else this.#connection.writer.frame(FRAME.ping, FLAG.ack, 0, bytes.subarray(from, to));
      this.#countNoise(1);
    }
  }

  /** DATA on a stream that is not open: a stream error (RFC 9113, section 6.1), unless this side has closed the stream. */
  #onLateData(streamId: number): void {
    if (streamId === 0 || streamId > this.lastStreamId) {
      this.fail(ERROR.protocol, "DATA on a stream that is not open");
      return;
    }
    if (!this.#late.has(streamId)) this.#connection.writer.number(FRAME.rstStream, streamId, ERROR.streamClosed);
  }

  /**
   * Trailers of a stream that is not open. They are dropped if this side has closed the stream: their block was decoded, as the
   * table needs. Else the client reuses an id or goes back to a lower one: a connection error (RFC 9113, sections 5.1, 5.1.1).
   */
  #onLateHeaders(streamId: number, endStream: boolean): void {
    if (!this.#late.has(streamId)) {
      this.fail(
        ERROR.protocol,
        `HEADERS on stream ${streamId}, which is closed; the last stream was ${this.lastStreamId}`,
      );
      return;
    }
    if (endStream) this.#late.delete(streamId);
    this.#countNoise(1);
  }

  #forgive(): void {
    this.#noise = Math.max(0, this.#noise - FORGIVEN);
  }

  #countNoise(amount: number): void {
    this.#noise += amount;
    if (this.#noise < MAX_NOISE) return;
    const now = this.#connection.host.clock.now();
    if (now - this.#noiseSince < NOISE_PERIOD) this.fail(ERROR.enhanceYourCalm, "too many frames without data");
    this.#noise = 0;
    this.#noiseSince = now;
  }
}

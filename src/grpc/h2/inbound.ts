import type { Connection } from "./connection.ts";
import type { FrameSink } from "./frame-reader.ts";
import { HeaderBlocks } from "./header-blocks.ts";
import { CONNECTION_WINDOW, ERROR, FLAG, FRAME, uint32 } from "./protocol.ts";
import { applySettings, type SettingsTarget } from "./settings.ts";
import type { H2Stream } from "./stream.ts";

/**
 * Frames that carry nothing (empty DATA, SETTINGS, PING, PRIORITY, frames for streams that are gone, unknown types) within
 * NOISE_PERIOD milliseconds after which a peer is taken for an attacker. A stream that begins or brings data starts the count
 * anew; resets never count.
 */
const MAX_NOISE = 10_000;
const NOISE_PERIOD = 10_000;

/** Acts on the frames of one connection (RFC 9113, sections 5 and 6). */
export class Inbound implements FrameSink, SettingsTarget {
  readonly #connection: Connection;
  readonly #headers = new HeaderBlocks();
  /** The highest stream id a client has used. */
  lastStreamId = 0;

  /** The stream of the DATA frame that is being read, unless its data is dropped. */
  #current: H2Stream | undefined;
  #currentLength = 0;
  /** What the client may still send on all streams together. */
  #window = CONNECTION_WINDOW;
  /** The first SETTINGS have come. */
  #settled = false;
  #noise = 0;
  #noiseSince = Number.NEGATIVE_INFINITY;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  get failed(): boolean {
    return this.#connection.failed;
  }

  fail(code: number, text: string): void {
    this.#connection.fail(code, text);
  }

  dataStart(streamId: number, length: number): void {
    this.#current = undefined;
    this.#currentLength = length;
    if (!this.#inOrder(FRAME.data, streamId)) return;
    const connection = this.#connection;
    this.#window -= length;
    // Given back at half, read or not: a stream that pauses must not stall the others, and has a window of its own.
    if (this.#window < CONNECTION_WINDOW / 2) {
      connection.grant(0, CONNECTION_WINDOW - this.#window);
      this.#window = CONNECTION_WINDOW;
    }
    const stream = connection.streams.get(streamId);
    if (stream === undefined) this.#onMissingStream(streamId, "DATA");
    else if (stream.inputEnded) connection.resetStream(stream, ERROR.streamClosed);
    else if (!stream.account(length)) connection.resetStream(stream, ERROR.flowControl);
    else this.#current = stream;
  }

  data(bytes: Buffer, from: number, to: number): void {
    if (this.#current === undefined) return;
    this.#noise = 0;
    this.#current.receive(bytes, from, to);
  }

  dataEnd(flags: number): void {
    if ((flags & FLAG.endStream) !== 0) this.#current?.endInput();
    else if (this.#currentLength === 0) this.#countNoise();
  }

  frame(type: number, flags: number, streamId: number, bytes: Buffer, from: number, to: number): void {
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
        return;
      case FRAME.priority:
        if (streamId === 0) this.fail(ERROR.protocol, "PRIORITY on stream 0");
        else if (to - from !== 5) this.fail(ERROR.frameSize, "PRIORITY of a wrong size");
        else this.#countNoise();
        return;
      case FRAME.pushPromise:
        this.fail(ERROR.protocol, "PUSH_PROMISE from a client");
        return;
      default:
        this.#countNoise();
    }
  }

  initialWindowSize(size: number): boolean {
    const { outflow, streams } = this.#connection;
    const change = size - outflow.initialWindow;
    outflow.initialWindow = size;
    for (const stream of streams.values()) {
      if (!outflow.widenStream(stream, change)) return false;
    }
    return true;
  }

  maxFrameSize(size: number): void {
    this.#connection.writer.maxFrame = size;
  }

  /** SETTINGS first, and nothing within a header block but its continuation. */
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
    if (error !== ERROR.none) {
      this.fail(error, "unacceptable header block");
      return;
    }
    if (this.#headers.streamId !== 0) return;
    if (streamId > this.lastStreamId) {
      this.lastStreamId = streamId;
      this.#noise = 0;
      connection.openStream(streamId, head, endStream);
      return;
    }
    const stream = connection.streams.get(streamId);
    if (stream === undefined) this.#onMissingStream(streamId, "HEADERS");
    else if (stream.inputEnded) connection.resetStream(stream, ERROR.streamClosed);
    else if (!endStream || head.malformed || !head.trailers) connection.resetStream(stream, ERROR.protocol);
    else stream.endInput();
  }

  #onReset(streamId: number, length: number): void {
    if (length !== 4) {
      this.fail(ERROR.frameSize, "RST_STREAM of a wrong size");
      return;
    }
    const stream = this.#connection.streams.get(streamId);
    if (stream !== undefined) this.#connection.cancelled(stream);
    else if (streamId === 0 || streamId > this.lastStreamId) this.fail(ERROR.protocol, "RST_STREAM on an idle stream");
  }

  #onWindowUpdate(streamId: number, bytes: Buffer, from: number, to: number): void {
    if (to - from !== 4) {
      this.fail(ERROR.frameSize, "WINDOW_UPDATE of a wrong size");
      return;
    }
    const connection = this.#connection;
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
      else this.#countNoise();
    } else {
      this.#settled = true;
      this.#connection.settled();
      const error = applySettings(bytes, from, to, this);
      if (error !== ERROR.none) {
        this.fail(error, "unacceptable SETTINGS");
        return;
      }
      this.#connection.writer.header(0, FRAME.settings, FLAG.ack, 0);
      this.#countNoise();
    }
  }

  #onPing(flags: number, streamId: number, bytes: Buffer, from: number, to: number): void {
    if (streamId !== 0) this.fail(ERROR.protocol, "PING on a stream");
    else if (to - from !== 8) this.fail(ERROR.frameSize, "PING of a wrong size");
    else if ((flags & FLAG.ack) !== 0) this.#connection.pinged();
    else {
      this.#connection.writer.frame(FRAME.ping, FLAG.ack, 0, bytes.subarray(from, to));
      this.#countNoise();
    }
  }

  /** A frame that only an open stream may get. */
  #onMissingStream(streamId: number, what: string): void {
    if (streamId === 0 || streamId > this.lastStreamId) {
      this.fail(ERROR.protocol, `${what} on a stream that is not open`);
      return;
    }
    // Likely on its way when the stream was closed.
    this.#connection.writer.number(FRAME.rstStream, streamId, ERROR.streamClosed);
    this.#countNoise();
  }

  #countNoise(): void {
    if (++this.#noise < MAX_NOISE) return;
    const now = this.#connection.host.clock.now();
    if (now - this.#noiseSince < NOISE_PERIOD) this.fail(ERROR.enhanceYourCalm, "too many frames without a purpose");
    this.#noise = 0;
    this.#noiseSince = now;
  }
}

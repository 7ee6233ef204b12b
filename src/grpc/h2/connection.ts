import type { Socket } from "node:net";
import type { Clock, Timer } from "../../clock/clock.ts";
import type { GrpcHandler } from "../transport.ts";
import { FrameReader } from "./frame-reader.ts";
import { FrameWriter } from "./frame-writer.ts";
import { Inbound } from "./inbound.ts";
import { Outflow } from "./outflow.ts";
import { CONNECTION_WINDOW, DEFAULT_WINDOW, ERROR, FLAG, FRAME, MAX_31_BITS } from "./protocol.ts";
import type { RequestHead } from "./request-head.ts";
import { statusBlock } from "./response-head.ts";
import { SERVER_SETTINGS } from "./settings.ts";
import { readInto } from "./socket.ts";
import { H2Stream, type StreamOwner } from "./stream.ts";

/** What a connection needs from its server. */
export interface ConnectionHost {
  readonly clock: Clock;
  /** The largest message accepted, bytes. */
  readonly maxMessageBytes: number;
  /** More calls than this at a time on one connection are refused. */
  readonly maxStreams: number;
  /** How to answer a request: with a handler, or with an HTTP status. */
  route(head: RequestHead): GrpcHandler | number;
  onHandlerError(error: unknown, path: string): void;
  /** A call begins. */
  opened(): void;
  /** A call is over. @param reset its client has reset it */
  ended(reset: boolean): void;
  /** The connection is gone. */
  closed(connection: Connection): void;
}

/** Milliseconds: for preface and SETTINGS; for a peer to hear of a GOAWAY, or to answer the PING of a drain. */
const PREFACE_TIMEOUT = 10_000;
const LINGER = 1000;

/** Bytes of answers that a peer may leave unread beside the data it has asked for. */
const MAX_UNREAD_OUTPUT = 4 * 1024 * 1024;

const DRAIN_PING = Buffer.from("draining", "latin1");

function endTurn(connection: Connection): void {
  connection.endTurn();
}

/**
 * One HTTP/2 connection of a server (RFC 9113): its socket, its streams, its turns and its end. What is written while a chunk
 * is read leaves at its end, in one write; what is written otherwise, at the end of the turn.
 */
export class Connection implements StreamOwner {
  readonly host: ConnectionHost;
  readonly maxMessageBytes: number;
  readonly writer: FrameWriter;
  readonly outflow: Outflow;
  readonly streams: Map<number, H2Stream> = new Map();
  /** Nothing is read any more. */
  failed = false;

  readonly #socket: Socket;
  readonly #inbound: Inbound;
  readonly #reader: FrameReader;
  /** Calls that were answered in this turn and are told so at its end. */
  readonly #answered: H2Stream[] = [];
  #reading = false;
  #touched = false;
  #gone = false;
  #timer: Timer;
  #draining = false;
  /** New calls are refused. */
  #refusing = false;

  /**
   * @param accepted a socket that has not been read from
   * @param encrypted whether it is TLS
   */
  constructor(accepted: Socket, encrypted: boolean, host: ConnectionHost) {
    this.host = host;
    this.maxMessageBytes = host.maxMessageBytes;
    this.#inbound = new Inbound(this);
    this.#reader = new FrameReader(this.#inbound);
    const read = (chunk: Buffer): void => this.read(chunk);
    const socket = encrypted ? accepted.on("data", read) : readInto(accepted, read);
    this.#socket = socket;
    this.writer = new FrameWriter(socket, encrypted);
    this.outflow = new Outflow(this.writer);
    this.#timer = host.clock.after(PREFACE_TIMEOUT, () => this.destroy(), true);
    socket.on("drain", () => this.#drained());
    socket.on("error", () => {});
    socket.on("end", () => this.destroy());
    socket.on("close", () => this.destroy());
    this.writer.frame(FRAME.settings, 0, 0, SERVER_SETTINGS);
    this.grant(0, CONNECTION_WINDOW - DEFAULT_WINDOW);
  }

  /** Reads what has arrived. Never throws. */
  read(chunk: Buffer): void {
    if (this.failed) return;
    this.#reading = true;
    try {
      this.#reader.push(chunk);
    } catch (error) {
      this.host.onHandlerError(error, "");
      this.fail(ERROR.internal, "internal error");
    }
    this.#reading = false;
    this.endTurn();
  }

  touch(): void {
    if (this.#reading || this.#touched) return;
    this.#touched = true;
    process.nextTick(endTurn, this);
  }

  /** Writes what was gathered, then tells the calls that were answered. */
  endTurn(): void {
    this.#touched = false;
    if (this.#gone) return;
    this.writer.flush();
    if (this.#answered.length > 0) this.#reportAnswered();
    if (this.#socket.writableLength > MAX_UNREAD_OUTPUT) this.destroy();
    else if (this.#refusing) this.#closeIfIdle();
  }

  grant(streamId: number, bytes: number): void {
    this.touch();
    this.writer.number(FRAME.windowUpdate, streamId, bytes);
  }

  /** Takes up a request whose header block is complete. */
  openStream(streamId: number, head: RequestHead, endStream: boolean): void {
    if (this.#refusing || this.streams.size >= this.host.maxStreams) {
      this.writer.number(FRAME.rstStream, streamId, ERROR.refusedStream);
      return;
    }
    if (head.malformed || !head.complete) {
      this.writer.number(FRAME.rstStream, streamId, ERROR.protocol);
      return;
    }
    const handler = head.tooLarge ? 431 : this.host.route(head);
    if (typeof handler === "number") {
      this.writer.frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, streamId, statusBlock(handler));
      if (!endStream) this.writer.number(FRAME.rstStream, streamId, ERROR.none);
      return;
    }
    const stream = new H2Stream(streamId, head.path, head.encoding === "gzip" ? "gzip" : "identity", this);
    this.streams.set(streamId, stream);
    this.host.opened();
    stream.start(handler);
    if (endStream) stream.endInput();
  }

  finished(stream: H2Stream): void {
    this.streams.delete(stream.id);
    this.outflow.forget(stream);
    // The peer has not finished its side: it is told to stop (RFC 9113, section 8.1).
    if (!stream.inputEnded) this.writer.number(FRAME.rstStream, stream.id, ERROR.none);
    this.#answered.push(stream);
  }

  /** The peer has reset the stream. */
  cancelled(stream: H2Stream): void {
    this.#drop(stream, true);
  }

  /** A stream error. */
  resetStream(stream: H2Stream, code: number): void {
    this.writer.number(FRAME.rstStream, stream.id, code);
    this.#drop(stream, false);
  }

  onHandlerError(error: unknown, path: string): void {
    this.host.onHandlerError(error, path);
  }

  /** The peer has said what it had to say first. */
  settled(): void {
    if (!this.#draining) this.#timer.cancel();
  }

  /** The answer to a PING has come, and the only one ever sent is that of a drain. */
  pinged(): void {
    if (this.#draining) this.#refuseFurther();
  }

  /** No new calls; closes when the present ones have ended. */
  drain(): void {
    if (this.#draining || this.failed) return;
    this.#draining = true;
    // Calls that are on their way are still served: the end begins when the peer must have heard (RFC 9113, section 6.8).
    this.#writeGoaway(MAX_31_BITS, ERROR.none, "");
    this.writer.frame(FRAME.ping, 0, 0, DRAIN_PING);
    this.touch();
    this.#rearm(() => this.#refuseFurther());
  }

  /** Ends the connection with GOAWAY: a connection error. */
  fail(code: number, text: string): void {
    if (this.failed) return;
    if (this.#reader.prefaced) this.#writeGoaway(this.#inbound.lastStreamId, code, text);
    this.#hangUp();
  }

  /** Drops the connection at once; every call is cancelled. */
  destroy(): void {
    if (this.#gone) return;
    this.#gone = true;
    this.failed = true;
    this.#timer.cancel();
    this.#socket.destroy();
    this.#reportAnswered();
    this.#dropAll();
    this.host.closed(this);
  }

  /** Sends what was written, then closes; what the peer still sends is dropped until it has read that. */
  #hangUp(): void {
    this.failed = true;
    this.writer.flush();
    this.#reportAnswered();
    this.#dropAll();
    this.#socket.end();
    this.#rearm(() => this.destroy());
  }

  #rearm(callback: () => void): void {
    this.#timer.cancel();
    this.#timer = this.host.clock.after(LINGER, callback, true);
  }

  #refuseFurther(): void {
    if (this.#refusing || this.failed) return;
    this.#refusing = true;
    this.#timer.cancel();
    this.touch();
  }

  #closeIfIdle(): void {
    if (this.failed || this.streams.size > 0) return;
    this.#writeGoaway(this.#inbound.lastStreamId, ERROR.none, "");
    this.#hangUp();
  }

  #writeGoaway(lastStreamId: number, code: number, text: string): void {
    const debug = Buffer.from(text, "latin1");
    const payload = Buffer.alloc(8 + debug.length);
    payload.writeUInt32BE(lastStreamId, 0);
    payload.writeUInt32BE(code, 4);
    debug.copy(payload, 8);
    this.writer.frame(FRAME.goaway, 0, 0, payload);
  }

  #drained(): void {
    if (this.#gone) return;
    this.writer.blocked = false;
    if (this.#socket.writableLength === 0) this.writer.reclaim();
    this.outflow.pump();
    this.endTurn();
  }

  #reportAnswered(): void {
    for (const stream of this.#answered.splice(0)) {
      this.host.ended(false);
      stream.close("ended");
    }
  }

  #dropAll(): void {
    for (const stream of [...this.streams.values()]) this.#drop(stream, false);
  }

  #drop(stream: H2Stream, reset: boolean): void {
    this.streams.delete(stream.id);
    this.outflow.forget(stream);
    this.host.ended(reset);
    stream.close("cancelled");
  }
}

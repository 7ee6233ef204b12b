import type { Socket } from "node:net";
import { MOST_BYTES } from "../llhttp.ts";
import { type AnswerEvents, AnswerParser, type Progress } from "./answer-parser.ts";
import { writeRequest } from "./request-bytes.ts";
import type { CallCarrier, UpstreamCall } from "./upstream-call.ts";
import { readWaiting } from "./waiting-bytes.ts";

/**
 * All connections read into one buffer: a read is parsed before the next one begins, and what must stay is copied. Without it
 * every read allocates 64 KiB outside the heap (docs/adr/0003).
 */
const READ_BUFFER = Buffer.allocUnsafeSlow(MOST_BYTES);

/** The connections of an endpoint, as one of them sees them. */
export interface ConnectionKeeper {
  /** Bytes of all header names and values of an answer. */
  readonly headerBytes: number;
  /** The connection may carry the next request. @param keptFor see `AnswerParser.keptFor` */
  free(connection: UpstreamConnection, keptFor: number): void;
  /** The socket is closed. */
  gone(connection: UpstreamConnection): void;
}

/** One connection of HTTP/1.1 to a model server. It carries one call at a time. */
export class UpstreamConnection implements CallCarrier, AnswerEvents {
  /** Monotonic milliseconds; the connection is not used after this time. */
  usableUntil = 0;
  readonly #keeper: ConnectionKeeper;
  readonly #parser: AnswerParser;
  #socket: Socket | undefined;
  #call: UpstreamCall | undefined;
  /** The socket has taken the whole request. */
  #sent = false;
  /** Bytes that came while the call was paused. */
  #held: Buffer | undefined;
  /** The call has ended with an error, or the connection has. */
  #broken = false;
  /** All bytes come through `onread`, so none is on its way while the socket is not read. */
  #direct = true;

  constructor(keeper: ConnectionKeeper) {
    this.#keeper = keeper;
    this.#parser = new AnswerParser(this, keeper.headerBytes);
  }

  /** For the option `onread` of the socket: node reads into a buffer of the program. */
  readonly onread = {
    buffer: READ_BUFFER,
    callback: (length: number): boolean => {
      this.#read(READ_BUFFER.subarray(0, length));
      return true;
    },
  };

  get headless(): boolean {
    return this.#call?.headless === true;
  }

  /** The connection is not usable any more. */
  get broken(): boolean {
    return this.#broken;
  }

  /** The socket is open. */
  open(socket: Socket): void {
    this.#socket = socket;
    // A socket that ignores `onread` emits its bytes.
    socket.on("data", (bytes) => {
      this.#direct = false;
      this.#read(bytes as Buffer);
    });
    socket.on("drain", () => this.#drained());
    socket.on("end", () => this.#ended());
    socket.on("error", (error: Error & { code?: string }) => {
      // All bytes of an answer without a length may have come before the reset.
      if (error.code === "ECONNRESET" && this.#parser.endsWithConnection) this.#ended();
      else this.fail(error);
    });
    socket.on("close", () => {
      this.fail(new Error("closed"));
      this.#parser.free();
      this.#keeper.gone(this);
    });
  }

  /** Sends a request. The connection is open and carries no call. */
  carry(call: UpstreamCall): void {
    const socket = this.#socket!;
    this.#call = call;
    this.#sent = false;
    call.connection = this;
    call.handler.onRequestStart(call);
    if (this.#call !== call) return;
    const { body } = call;
    call.body = undefined;
    if (writeRequest(socket, call.head, body)) this.#requestSent();
  }

  /** Stops reading. */
  pause(): void {
    // Else the parser stops first, and keeps the rest of its piece.
    if (!this.#parser.parsing) this.#socket!.pause();
  }

  /** Reads on, first what came before the pause. */
  resume(): void {
    // The present piece is still being parsed.
    if (this.#parser.parsing || this.#broken) return;
    this.#parseHeld();
    if (this.#held === undefined && !this.#broken && this.#call?.resting !== true) this.#socket!.resume();
  }

  /** A rest is over: takes what has come, and reads on unless the call rests again. */
  wake(): void {
    // The present piece is still being parsed.
    if (this.#parser.parsing || this.#broken) return;
    const socket = this.#socket!;
    if (this.#direct) {
      let length: number;
      try {
        length = readWaiting(socket, READ_BUFFER);
      } catch (error) {
        socket.destroy(error as Error);
        return;
      }
      if (length > 0) this.#parse(READ_BUFFER.subarray(0, length), true);
    }
    if (this.#held === undefined && !this.#broken && this.#call?.resting !== true) socket.resume();
  }

  /** Ends the connection, and its call with an error. */
  fail(error: Error): void {
    const call = this.#call;
    this.#broken = true;
    this.#held = undefined;
    this.#call = undefined;
    if (call !== undefined) {
      call.connection = undefined;
      call.body = undefined;
      call.handler.onResponseError(error);
    }
    this.#socket?.destroy();
  }

  /** Resolves when the socket is closed. */
  closed(): Promise<void> {
    const socket = this.#socket;
    if (socket === undefined || socket.closed) return Promise.resolve();
    return new Promise((resolve) => void socket.once("close", () => resolve()));
  }

  answerBegan(): void {
    this.#call!.handler.onResponseStarted();
  }

  answerHead(status: number, headers: readonly string[]): boolean {
    const call = this.#call!;
    call.handler.onResponseStart(status, headers);
    return this.#call === call && !call.paused;
  }

  answerBody(piece: Buffer, ranges: readonly number[]): boolean {
    const call = this.#call;
    if (call === undefined) return false;
    const parts = ranges.length / 2;
    const keeps = parts === 1 && piece.buffer !== READ_BUFFER.buffer;
    call.handler.onResponseData(keeps ? piece.subarray(ranges[0], ranges[1]) : copied(piece, ranges), parts);
    return this.#call === call && !call.paused;
  }

  #read(bytes: Buffer): void {
    // A call that was given up wants no more bytes.
    if (this.#broken) return;
    if (this.#call === undefined) {
      // Bytes that answer no request must not become the answer to the next one.
      this.fail(new Error("bad response"));
      return;
    }
    // The socket was told to stop, and read one more piece.
    if (this.#held !== undefined) this.#held = Buffer.concat([this.#held, bytes]);
    else this.#parse(bytes, true);
  }

  /** @param passing the bytes are valid for this call only */
  #parse(bytes: Buffer, passing: boolean): void {
    let progress: Progress;
    try {
      progress = this.#parser.read(bytes);
    } catch (error) {
      this.fail(error as Error);
      return;
    }
    if (this.#broken) return;
    switch (progress) {
      case "open":
        if (this.#call?.resting === true) this.#socket!.pause();
        return;
      case "paused": {
        const rest = bytes.subarray(bytes.length - this.#parser.rest);
        this.#held = passing ? Buffer.from(rest) : rest;
        this.#socket!.pause();
        return;
      }
      case "complete":
        this.#complete(this.#parser.rest > 0);
        return;
      case "failed":
        this.fail(this.#parser.error!);
    }
  }

  /** What came before a pause. */
  #parseHeld(): void {
    const held = this.#held;
    if (held === undefined) return;
    this.#held = undefined;
    this.#parser.resume();
    this.#parse(held, false);
  }

  /** @param more bytes follow that belong to no answer */
  #complete(more: boolean): void {
    const call = this.#call!;
    const { reusable, keptFor } = this.#parser;
    this.#call = undefined;
    call.connection = undefined;
    // The answer ended with the piece after which it was not to be read.
    if (call.paused || call.resting) this.#socket!.resume();
    call.paused = false;
    call.resting = false;
    // The server answered before it had the whole request: it may read the rest as another one.
    const usable = reusable && call.reusable && !more && this.#sent && this.#socket!.writableLength === 0;
    if (usable) this.#parser.reset();
    else this.#broken = true;
    call.handler.onResponseEnd();
    if (this.#broken) this.#socket!.destroy();
    else this.#keeper.free(this, keptFor);
  }

  #ended(): void {
    if (this.#call !== undefined && this.#parser.endsWithConnection) {
      // The client of the proxy is slow, but no more than these bytes come.
      while (this.#held !== undefined) {
        this.#call.paused = false;
        this.#parseHeld();
      }
      if (this.#broken || this.#call === undefined) return;
      const progress = this.#parser.finish();
      if (this.#broken) return;
      if (progress === "complete") {
        this.#complete(false);
        return;
      }
      if (progress === "failed") {
        this.fail(this.#parser.error!);
        return;
      }
    }
    this.fail(new Error("other side closed"));
  }

  #drained(): void {
    if (this.#call !== undefined && !this.#sent) this.#requestSent();
  }

  #requestSent(): void {
    this.#sent = true;
    this.#call!.handler.onRequestSent();
  }
}

/** A buffer with parts of a piece. @param ranges the start and the end of each */
function copied(piece: Buffer, ranges: readonly number[]): Buffer {
  let length = 0;
  for (let i = 0; i < ranges.length; i += 2) length += ranges[i + 1]! - ranges[i]!;
  const bytes = Buffer.allocUnsafe(length);
  let at = 0;
  for (let i = 0; i < ranges.length; i += 2) at += piece.copy(bytes, at, ranges[i], ranges[i + 1]);
  return bytes;
}

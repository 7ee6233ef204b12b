import type { ServerHttp2Stream } from "node:http2";
import type { Clock } from "../../../src/base/clock/clock.ts";
import { Deframer, frameMessage } from "../../../src/base/grpc/frames.ts";
import { inflate } from "../../../src/base/grpc/h2/stream.ts";
import { encodeGrpcMessage, GRPC_STATUS } from "../../../src/base/grpc/status.ts";
import type { GrpcHandler, GrpcStream, GrpcStreamEvents } from "../../../src/base/grpc/transport.ts";
import { SluiceError } from "../../../src/base/inference/errors.ts";

/** Several sends of one turn are copied into one buffer up to this many bytes; above, copying costs more than it saves. */
const COALESCE_LIMIT = 16 * 1024;

/** Raw name-value lists are the cheapest form node:http2 takes; it reads them only, as long as no date is wanted. */
const RESPONSE_HEADERS: readonly string[] = [
  ...[":status", "200"],
  ...["content-type", "application/grpc"],
  ...["grpc-accept-encoding", "identity,gzip"],
];
const RESPONSE_OPTIONS = { waitForTrailers: true, sendDate: false };
const TRAILERS_ONLY_OPTIONS = { endStream: true, sendDate: false };

/**
 * Right after `aborted` the library builds an error, stack trace included, for every code but 0 and 8 (CANCEL), a fifth of
 * the CPU of a short exchange. Envoy ends each of its streams with code 2, so the code is overridden before it is looked at.
 */
const RESET_WITHOUT_ERROR = { value: 8 };

/** What a call needs from the server that accepted it. */
export interface CallContext {
  readonly clock: Clock;
  readonly maxMessageBytes: number;
  onHandlerError(error: unknown, path: string): void;
  /** The call is over. @param cut the peer or the connection cut it off */
  onClosed(cut: boolean): void;
}

const CALL = Symbol("call");
type OwnedStream = ServerHttp2Stream & { [CALL]: Http2Call };

// Shared listeners: a stream carries its call, so accepting one allocates no closures.
function onData(this: ServerHttp2Stream, chunk: Buffer): void {
  (this as OwnedStream)[CALL].received(chunk);
}
function onEnd(this: ServerHttp2Stream): void {
  (this as OwnedStream)[CALL].inputEnded();
}
function onAborted(this: ServerHttp2Stream): void {
  Object.defineProperty(this, "rstCode", RESET_WITHOUT_ERROR);
  (this as OwnedStream)[CALL].gone(true);
}
function onClose(this: ServerHttp2Stream): void {
  (this as OwnedStream)[CALL].gone(this.rstCode !== 0);
}
function onDrain(this: ServerHttp2Stream): void {
  (this as OwnedStream)[CALL].drained();
}
function onWantTrailers(this: ServerHttp2Stream): void {
  (this as OwnedStream)[CALL].sendTrailers();
}
/** A reset with a code other than 0 and 8 is an `error` event; every reset is told by `aborted` and `close` too. */
export function ignoreStreamError(): void {}

function flushCall(call: Http2Call): void {
  call.flush();
}
function pumpCall(call: Http2Call): void {
  call.pump();
}
function drainedCall(call: Http2Call): void {
  call.drained();
}

/** One call over a `node:http2` stream. */
export class Http2Call implements GrpcStream {
  readonly path: string;
  readonly encoding: "identity" | "gzip";

  readonly #stream: ServerHttp2Stream;
  readonly #context: CallContext;
  readonly #deframer: Deframer;
  #events: GrpcStreamEvents | undefined;

  #outbox: Uint8Array[] = [];
  #outboxBytes = 0;
  #flushScheduled = false;
  #writable: (() => void) | undefined;
  #listensForDrain = false;

  #pumping = false;
  #paused = false;
  #inputEnded = false;
  #halfClosed = false;

  #responded = false;
  #ended = false;
  #answered = false;
  #closed = false;
  #status = 0;
  #message = "";

  constructor(stream: ServerHttp2Stream, path: string, encoding: "identity" | "gzip", context: CallContext) {
    this.path = path;
    this.encoding = encoding;
    this.#stream = stream;
    this.#context = context;
    this.#deframer = new Deframer(context.maxMessageBytes);
    (stream as OwnedStream)[CALL] = this;
    stream.on("error", ignoreStreamError);
    stream.on("aborted", onAborted);
    stream.on("close", onClose);
  }

  /** Hands the call to `handler` and starts reading. */
  start(handler: GrpcHandler): void {
    try {
      this.#events = handler(this);
    } catch (error) {
      this.#failed(error);
    }
    this.#stream.on("end", onEnd);
    this.#stream.on("data", onData);
    if (this.#paused && !this.#ended) this.#stream.pause();
  }

  send(message: Uint8Array): boolean {
    return this.sendFramed(frameMessage(message));
  }

  sendFramed(range: Uint8Array, from = 0, to: number = range.length): boolean {
    if (this.#ended || this.#closed) return true;
    const bytes = range.subarray(from, to);
    this.#outbox.push(bytes);
    this.#outboxBytes += bytes.length;
    if (!this.#pumping && !this.#flushScheduled) {
      this.#flushScheduled = true;
      process.nextTick(flushCall, this);
    }
    return this.#outboxBytes + this.#stream.writableLength < this.#stream.writableHighWaterMark;
  }

  whenWritable(callback: () => void): void {
    if (this.#ended || this.#closed) return;
    this.#writable = callback;
    if (!this.#listensForDrain) {
      this.#listensForDrain = true;
      this.#stream.on("drain", onDrain);
    }
    if (this.#outboxBytes === 0 && !this.#stream.writableNeedDrain) process.nextTick(drainedCall, this);
  }

  pause(): void {
    if (this.#ended || this.#closed) return;
    this.#paused = true;
    this.#stream.pause();
  }

  /** Messages are views of what `node:http2` allocates. */
  recycle(): void {}

  resume(): void {
    if (!this.#paused || this.#closed) return;
    this.#paused = false;
    this.#stream.resume();
    if (!this.#pumping) process.nextTick(pumpCall, this);
  }

  end(status: number, message = ""): void {
    if (this.#ended || this.#closed) return;
    this.flush();
    this.#ended = true;
    this.#status = status;
    this.#message = message;
    this.#discardInput();
    if (this.#responded) {
      this.#stream.on("wantTrailers", onWantTrailers);
      this.#stream.end();
    } else {
      const headers = [...RESPONSE_HEADERS, "grpc-status", String(status)];
      if (message !== "") headers.push("grpc-message", encodeGrpcMessage(message));
      this.#stream.respond(headers, TRAILERS_ONLY_OPTIONS);
      this.#answerComplete();
    }
  }

  /** A DATA frame came. */
  received(chunk: Buffer): void {
    if (this.#ended || this.#closed) return;
    this.#deframer.push(chunk);
    this.pump();
  }

  /** END_STREAM came. */
  inputEnded(): void {
    this.#inputEnded = true;
    this.pump();
  }

  /** Delivers what can be delivered, then sends what the handler sent meanwhile. */
  pump(): void {
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      while (this.#mayDeliver() && this.#deliverNext());
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#pumping = false;
    }
    this.flush();
  }

  /** Writes what was sent since the last flush, as one write. */
  flush(): void {
    this.#flushScheduled = false;
    const outbox = this.#outbox;
    if (outbox.length === 0 || this.#closed || this.#ended) return;
    const bytes = this.#outboxBytes;
    const stream = this.#stream;
    if (!this.#responded) {
      this.#responded = true;
      stream.respond(RESPONSE_HEADERS as string[], RESPONSE_OPTIONS);
    }
    let keepsUp: boolean;
    if (outbox.length === 1) {
      keepsUp = stream.write(outbox[0]);
    } else if (bytes <= COALESCE_LIMIT) {
      keepsUp = stream.write(Buffer.concat(outbox, bytes));
    } else {
      stream.cork();
      keepsUp = true;
      for (const piece of outbox) keepsUp = stream.write(piece);
      stream.uncork();
    }
    outbox.length = 0;
    this.#outboxBytes = 0;
    if (keepsUp && this.#writable !== undefined) process.nextTick(drainedCall, this);
  }

  /** The send buffer is empty again. */
  drained(): void {
    const callback = this.#writable;
    if (callback === undefined || this.#closed || this.#ended || this.#stream.writableNeedDrain) return;
    this.#writable = undefined;
    try {
      callback();
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Everything sent has left the queue of this stream; the library waits for trailers. */
  sendTrailers(): void {
    this.#stream.sendTrailers(
      this.#message === ""
        ? { "grpc-status": this.#status }
        : { "grpc-status": this.#status, "grpc-message": encodeGrpcMessage(this.#message) },
    );
    this.#answerComplete();
  }

  /** The stream is gone, for whatever reason. @param cut by a reset or a lost connection */
  gone(cut: boolean): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#outbox = [];
    this.#writable = undefined;
    // An aborted stream that is not read to its end is never freed by the library.
    this.#discardInput();
    this.#context.onClosed(cut);
    try {
      if (this.#answered) this.#events?.closed("ended", this.#status);
      else this.#events?.closed("cancelled", GRPC_STATUS.cancelled);
    } catch (error) {
      this.#context.onHandlerError(error, this.path);
    }
  }

  #mayDeliver(): boolean {
    return !this.#paused && !this.#ended && !this.#closed;
  }

  /** Delivers one message or the half-close; false when there is nothing to deliver. */
  #deliverNext(): boolean {
    const message = this.#nextMessage();
    if (message !== undefined) {
      if (this.#deframer.compressed) this.#deliverCompressed(message);
      else this.#events?.message(message);
      return true;
    }
    if (!this.#inputEnded || this.#halfClosed || this.#ended) return false;
    if (this.#deframer.midMessage) {
      this.end(GRPC_STATUS.internal, "the request ends in the middle of a message");
      return false;
    }
    this.#halfClosed = true;
    this.#events?.halfClosed();
    return false;
  }

  #nextMessage(): Buffer | undefined {
    try {
      return this.#deframer.next();
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error;
      const tooLarge = error.code === "GRPC_MESSAGE_TOO_LARGE";
      this.end(tooLarge ? GRPC_STATUS.resourceExhausted : GRPC_STATUS.internal, error.message);
      return undefined;
    }
  }

  #deliverCompressed(message: Buffer): void {
    const plain = inflate(message, this.encoding, this.#context.maxMessageBytes);
    if (Buffer.isBuffer(plain)) this.#events?.message(plain);
    else this.end(plain.status, plain.text);
  }

  #failed(error: unknown): void {
    this.#context.onHandlerError(error, this.path);
    this.end(GRPC_STATUS.internal, "the handler failed");
  }

  /** What the peer still sends is read and dropped: it must not fill the window of the connection. */
  #discardInput(): void {
    this.#paused = false;
    this.#stream.resume();
  }

  /**
   * The answer is complete. A peer that has not finished its side is told to stop (RST_STREAM with NO_ERROR, RFC 9113
   * 8.1), in a later turn, because the library sends the trailers in one.
   */
  #answerComplete(): void {
    this.#answered = true;
    this.#context.clock.soon(() => {
      if (!this.#closed && !this.#inputEnded) this.#stream.close();
    });
  }
}

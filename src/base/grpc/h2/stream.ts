import { gunzipSync } from "node:zlib";
import { GRPC_STATUS } from "../status.ts";
import type { GrpcHandler, GrpcStream, GrpcStreamEvents } from "../transport.ts";
import { copyOut, MessageReader } from "./message-reader.ts";
import type { Outflow, Sender } from "./outflow.ts";
import { STREAM_WINDOW } from "./protocol.ts";
import { trailerBlock } from "./response-head.ts";
import { COST } from "./turns.ts";

/** The services that a stream needs from its connection. */
export interface StreamOwner {
  readonly maxMessageBytes: number;
  readonly outflow: Outflow;
  /** The stream has output outside of the reading of a chunk, or has finished: end the turn soon. */
  touch(): void;
  /** Gives receive window back to the client. */
  grant(streamId: number, bytes: number): void;
  /** Charges work of this stream to its connection. */
  spend(units: number): void;
  /** The connection has used up its turn. */
  readonly spent: boolean;
  /** Calls the stream's `pump` again in the connection's next turn. */
  pumpLater(stream: H2Stream): void;
  /** The answer is complete. */
  finished(stream: H2Stream): void;
  onHandlerError(error: unknown, path: string): void;
}

/** Window is given back in steps of at least this many bytes. */
const GRANT_STEP = STREAM_WINDOW / 2;

function pumpStream(stream: H2Stream): void {
  stream.pump();
}
function writableStream(stream: H2Stream): void {
  stream.queueDrained();
}

/** One call: `GrpcStream` for its handler, `Sender` for flow control, the target of frames for its connection. */
export class H2Stream implements GrpcStream, Sender {
  readonly id: number;
  readonly path: string;
  readonly encoding: "identity" | "gzip";

  credit = 0;
  responded = false;
  queued = 0;
  queue: Uint8Array[] | undefined;
  queueAt = 0;
  trailers: Uint8Array | undefined;

  /** The peer has sent END_STREAM. */
  inputEnded = false;

  readonly #owner: StreamOwner;
  readonly #reader: MessageReader;
  #events: GrpcStreamEvents | undefined;
  /** Bytes received and not given back to the window. */
  #received = 0;
  #writable: (() => void) | undefined;
  #pumping = false;
  #paused = false;
  #halfClosed = false;
  #ended = false;
  #status = 0;
  #closed = false;

  constructor(id: number, path: string, encoding: "identity" | "gzip", owner: StreamOwner) {
    this.id = id;
    this.path = path;
    this.encoding = encoding;
    this.#owner = owner;
    this.#reader = new MessageReader(owner.maxMessageBytes);
  }

  /** Hands the call to `handler`. */
  start(handler: GrpcHandler): void {
    try {
      this.#events = handler(this);
    } catch (error) {
      this.#failed(error);
    }
  }

  send(message: Uint8Array): boolean {
    const prefix = Buffer.allocUnsafe(5);
    prefix[0] = 0;
    prefix.writeUInt32BE(message.length, 1);
    this.sendFramed(prefix);
    return this.sendFramed(message);
  }

  sendFramed(bytes: Uint8Array, from = 0, to: number = bytes.length): boolean {
    if (this.#ended || this.#closed) return true;
    this.#owner.touch();
    return this.#owner.outflow.send(this, bytes, from, to);
  }

  whenWritable(callback: () => void): void {
    if (this.#ended || this.#closed) return;
    this.#writable = callback;
    if (this.queued === 0) process.nextTick(writableStream, this);
  }

  pause(): void {
    this.#paused = true;
  }

  recycle(message: Uint8Array): void {
    this.#reader.recycle(message);
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    if (!this.#pumping) process.nextTick(pumpStream, this);
  }

  end(status: number, message = ""): void {
    if (this.#ended || this.#closed) return;
    this.#ended = true;
    this.#status = status;
    this.#reader.clear();
    this.trailers = trailerBlock(status, message, !this.responded && this.queued === 0);
    this.#owner.touch();
    this.#owner.outflow.end(this);
  }

  /** A DATA frame of `length` bytes begins. @returns false when it exceeds the window */
  account(length: number): boolean {
    this.#received += length;
    return this.#received <= STREAM_WINDOW;
  }

  /** Some data of the DATA frame. */
  receive(bytes: Buffer, from: number, to: number): void {
    if (this.#ended) this.#grant();
    else {
      this.#reader.feed(bytes, from, to);
      this.pump();
    }
  }

  /** END_STREAM came. */
  endInput(): void {
    this.inputEnded = true;
    this.pump();
  }

  /**
   * Delivers as many messages as possible, gives back the window of the bytes that were read, and keeps the rest. When the
   * connection has used up its turn, the next turn delivers the rest. 16 KiB of data may be 3,000 messages, and a stream may
   * have kept 1 MiB.
   */
  pump(): void {
    if (this.#pumping || this.#closed) return;
    this.#pumping = true;
    const owner = this.#owner;
    try {
      while (this.#mayDeliver() && this.#deliverNext()) {
        if (!owner.spent) continue;
        owner.pumpLater(this);
        break;
      }
    } catch (error) {
      this.#failed(error);
    }
    this.#pumping = false;
    this.#reader.keep();
    this.#grant();
  }

  /** The queue has drained into the socket. */
  queueDrained(): void {
    const callback = this.#writable;
    if (callback === undefined || this.queued > 0 || this.#closed || this.#ended) return;
    this.#writable = undefined;
    try {
      callback();
    } catch (error) {
      this.#failed(error);
    }
  }

  answered(): void {
    this.#owner.finished(this);
  }

  /** The stream has ended. Reported once. */
  close(cause: "ended" | "cancelled"): void {
    this.#closed = true;
    this.#writable = undefined;
    this.#reader.clear();
    try {
      this.#events?.closed(cause, cause === "ended" ? this.#status : GRPC_STATUS.cancelled);
    } catch (error) {
      this.#owner.onHandlerError(error, this.path);
    }
  }

  #mayDeliver(): boolean {
    return !this.#paused && !this.#ended && !this.#closed;
  }

  /** Delivers one message or the half-close; false when there is nothing to deliver. */
  #deliverNext(): boolean {
    const reader = this.#reader;
    const from = reader.inPlace();
    if (from >= 0) {
      this.#owner.spend(COST.message);
      this.#deliverInPlace(reader.chunk, from, reader.position, reader.compressed);
      return true;
    }
    const message = reader.next();
    if (message !== undefined) {
      this.#owner.spend(COST.message);
      if (reader.compressed) this.#deliverCompressed(message);
      else this.#events?.message(message);
      return true;
    }
    const { fault } = reader;
    if (fault !== undefined) {
      this.end(fault.tooLarge ? GRPC_STATUS.resourceExhausted : GRPC_STATUS.internal, fault.text);
    } else if (this.inputEnded && !this.#halfClosed) {
      if (reader.midMessage) {
        this.end(GRPC_STATUS.internal, "the request ends in the middle of a message");
      } else {
        this.#halfClosed = true;
        this.#events?.halfClosed();
      }
    }
    return false;
  }

  #deliverInPlace(chunk: Buffer, from: number, to: number, compressed: boolean): void {
    const events = this.#events;
    if (compressed) this.#deliverCompressed(copyOut(chunk, from, to));
    else if (events?.passing?.(chunk, from, to) !== true) events?.message(copyOut(chunk, from, to));
  }

  /** Gives window back when enough of it was used and read. */
  #grant(): void {
    const read = this.#received - this.#reader.unread;
    if (read < GRANT_STEP || this.inputEnded || this.#closed) return;
    this.#received -= read;
    this.#owner.grant(this.id, read);
  }

  #deliverCompressed(message: Buffer): void {
    const plain = inflate(message, this.encoding, this.#owner.maxMessageBytes);
    if (Buffer.isBuffer(plain)) this.#events?.message(plain);
    else this.end(plain.status, plain.text);
  }

  #failed(error: unknown): void {
    this.#owner.onHandlerError(error, this.path);
    this.end(GRPC_STATUS.internal, "the handler failed");
  }
}

/** Output is gathered in pieces of this size. Only a larger message makes a larger piece. */
const SMALL_CHUNK = 16 * 1024;
const LARGE_CHUNK = 64 * 1024;

/** Status of a call whose message cannot be inflated. */
interface InflateFault {
  readonly status: number;
  readonly text: string;
}

/**
 * The content of a message whose compressed flag is set. It inflates on the event loop, for three reasons. A kilobyte takes an
 * eighth of the time of a trip to a worker thread. Messages stay in order. Only one message at a time takes memory, however
 * many calls send bombs at once (64 MiB of zeros take 30 ms).
 * @param encoding the call's `grpc-encoding`
 * @param limit the largest content in bytes
 */
export function inflate(message: Uint8Array, encoding: "identity" | "gzip", limit: number): Buffer | InflateFault {
  if (encoding === "identity")
    return {
      status: GRPC_STATUS.internal,
      text: "a message is marked as compressed, but the call has no grpc-encoding",
    };
  try {
    const chunkSize = message.length < SMALL_CHUNK ? SMALL_CHUNK : LARGE_CHUNK;
    return gunzipSync(message, { maxOutputLength: limit, chunkSize });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE")
      return {
        status: GRPC_STATUS.resourceExhausted,
        text: `a decompressed message is larger than the limit of ${limit} bytes`,
      };
    return { status: GRPC_STATUS.internal, text: "a message marked as compressed is not valid gzip" };
  }
}

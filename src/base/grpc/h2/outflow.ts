import type { FrameWriter } from "./frame-writer.ts";
import { DEFAULT_WINDOW, FLAG, FRAME, MAX_31_BITS } from "./protocol.ts";
import { RESPONSE_BLOCK } from "./response-head.ts";

/** `send` says "wait" while a stream has at least this many bytes in its queue. */
export const QUEUE_MARK = 64 * 1024;

/** Bytes that a stream may write before other waiting streams have their turn. */
const QUANTUM = 64 * 1024;

/** Bytes that waiting streams may write in one turn of the event loop; a visit of a stream counts as `VISIT` more. */
const PUMP_LIMIT = 1024 * 1024;
const VISIT = 256;

const NO_PIECES: Uint8Array[] = [];

/** Bytes. A piece up to this size is copied before it waits, because it would keep a much larger buffer alive. */
export const COPY_LIMIT = 8 * 1024;

function ownPiece(bytes: Uint8Array, from: number, to: number): Uint8Array {
  const piece = bytes.subarray(from, to);
  return to - from > COPY_LIMIT ? piece : Uint8Array.prototype.slice.call(piece);
}

/** The sending half of a stream as flow control sees it. Only `Outflow` changes the fields. */
export interface Sender {
  readonly id: number;
  /**
   * Bytes that the peer has granted this stream by WINDOW_UPDATE, less those sent to it. The sum of this and the initial
   * window, which all streams share, is the stream's window. The window is negative after the peer has lowered the initial
   * window by much.
   */
  credit: number;
  /** Whether the response headers were sent. */
  responded: boolean;
  /** Bytes in `queue`, whose first piece begins at `queueAt`. */
  queued: number;
  queue: Uint8Array[] | undefined;
  queueAt: number;
  /** The header block that ends the stream, after the handler has ended it. */
  trailers: Uint8Array | undefined;
  /** The queue is empty again. */
  queueDrained(): void;
  /** The trailers have been sent. */
  answered(): void;
}

/**
 * Sends for the streams of one connection: straight into the frame writer while the windows and the socket allow, else through
 * a queue per stream. Streams that wait for the connection take turns. A stream that waits for its own window is not visited
 * until the window opens.
 */
export class Outflow {
  readonly #writer: FrameWriter;
  readonly #more: () => void;
  /** Bytes that the peer still accepts on all streams together. */
  #window = DEFAULT_WINDOW;
  /** The window that every stream starts with. A change of it changes all windows without a visit of any stream. */
  #initialWindow = DEFAULT_WINDOW;
  /** No stream has more credit than this. */
  #mostCredit = 0;
  /** Streams with data that could be sent if the connection's window and the socket allow. */
  readonly #waiting = new Set<Sender>();
  /** Streams with data whose own window is used up. */
  readonly #stalled = new Set<Sender>();
  /** Streams that have nothing left to send but their trailers, and wait for the socket. */
  readonly #ending = new Set<Sender>();

  /** @param more called when `pump` has written as much as one turn allows; the callee calls `pump` again in a later turn */
  constructor(writer: FrameWriter, more: () => void) {
    this.#writer = writer;
    this.#more = more;
  }

  /**
   * Sends or queues `bytes[from, to)`.
   * @returns false when the stream's queue has become long
   */
  send(sender: Sender, bytes: Uint8Array, from: number, to: number): boolean {
    let at = from;
    if (sender.queued === 0 && !this.#writer.blocked) {
      at += this.#write(sender, bytes, from, to);
      if (at === to) return true;
    }
    sender.queue ??= [];
    sender.queue.push(ownPiece(bytes, at, to));
    const waits = sender.queued > 0;
    if (!waits) sender.queueAt = 0;
    sender.queued += to - at;
    if (!waits) this.#await(sender);
    return sender.queued < QUEUE_MARK;
  }

  /** Sends `sender.trailers` once its queue is empty. */
  end(sender: Sender): void {
    if (sender.queued > 0) return;
    if (this.#writer.blocked) this.#ending.add(sender);
    else this.#writeTrailers(sender);
  }

  /** Forgets a stream that is gone. */
  forget(sender: Sender): void {
    sender.queue = undefined;
    sender.queued = 0;
    if (this.#waiting.size > 0) this.#waiting.delete(sender);
    if (this.#stalled.size > 0) this.#stalled.delete(sender);
    if (this.#ending.size > 0) this.#ending.delete(sender);
  }

  /** WINDOW_UPDATE for the connection. @returns false when the window would exceed 2^31 - 1 */
  widen(increment: number): boolean {
    this.#window += increment;
    if (this.#window > MAX_31_BITS) return false;
    this.pump();
    return true;
  }

  /** WINDOW_UPDATE for a stream. @returns false when its window would exceed 2^31 - 1 */
  widenStream(sender: Sender, increment: number): boolean {
    sender.credit += increment;
    if (sender.credit > this.#mostCredit) this.#mostCredit = sender.credit;
    if (this.#windowOf(sender) > MAX_31_BITS) return false;
    if (this.#stalled.delete(sender)) {
      this.#await(sender);
      this.pump();
    }
    return true;
  }

  /**
   * Applies another initial window. It visits all streams only when one of them might have too large a window. Of the waiting
   * streams it changes only those that the new window lets continue.
   * @param streams all open streams
   * @returns how many streams were visited; -1 when the window of one would exceed 2^31 - 1
   */
  setInitialWindow(size: number, streams: ReadonlyMap<number, Sender>): number {
    const grows = size > this.#initialWindow;
    let looks = 0;
    this.#initialWindow = size;
    if (size + this.#mostCredit > MAX_31_BITS) {
      looks += streams.size;
      this.#mostCredit = 0;
      for (const { credit } of streams.values()) this.#mostCredit = Math.max(this.#mostCredit, credit);
      if (size + this.#mostCredit > MAX_31_BITS) return -1;
    }
    if (!grows) return looks;
    looks += this.#stalled.size;
    for (const sender of [...this.#stalled]) {
      if (this.#windowOf(sender) <= 0) continue;
      this.#stalled.delete(sender);
      this.#waiting.add(sender);
    }
    this.pump();
    return looks;
  }

  /** Lets waiting streams send until the connection is full again, or has had its turn. */
  pump(): void {
    const writer = this.#writer;
    for (const sender of this.#ending) {
      if (writer.blocked) return;
      this.#ending.delete(sender);
      this.#writeTrailers(sender);
    }
    let left = PUMP_LIMIT;
    for (const sender of this.#waiting) {
      if (writer.blocked || this.#window <= 0) return;
      if (left <= 0) {
        this.#more();
        return;
      }
      this.#waiting.delete(sender);
      left -= VISIT + this.#drainQueue(sender);
      // At the end of the set, which this loop reaches in turn.
      if (sender.queued > 0) this.#await(sender);
    }
  }

  #windowOf(sender: Sender): number {
    return this.#initialWindow + sender.credit;
  }

  #await(sender: Sender): void {
    (this.#windowOf(sender) > 0 ? this.#waiting : this.#stalled).add(sender);
  }

  /** @returns the bytes written */
  #drainQueue(sender: Sender): number {
    const queue = sender.queue ?? NO_PIECES;
    let written = 0;
    let done = 0;
    while (done < queue.length && written < QUANTUM) {
      const piece = queue[done]!;
      const taken = this.#write(sender, piece, sender.queueAt, piece.length);
      written += taken;
      sender.queued -= taken;
      sender.queueAt += taken;
      if (sender.queueAt < piece.length) break;
      sender.queueAt = 0;
      done++;
    }
    if (done > 0) queue.splice(0, done);
    if (sender.queued === 0) {
      if (sender.trailers === undefined) sender.queueDrained();
      else this.end(sender);
    }
    return written;
  }

  /** Writes as many of `bytes[from, to)` as the windows and the socket allow. */
  #write(sender: Sender, bytes: Uint8Array, from: number, to: number): number {
    const writer = this.#writer;
    if (!sender.responded) {
      sender.responded = true;
      writer.frame(FRAME.headers, FLAG.endHeaders, sender.id, RESPONSE_BLOCK);
    }
    let allowed = to - from;
    const window = this.#windowOf(sender);
    if (allowed > window) allowed = window;
    if (allowed > this.#window) allowed = this.#window;
    if (allowed <= 0) return 0;
    const taken = writer.data(sender.id, bytes, from, from + allowed);
    sender.credit -= taken;
    this.#window -= taken;
    return taken;
  }

  #writeTrailers(sender: Sender): void {
    this.#writer.frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, sender.id, sender.trailers!);
    sender.answered();
  }
}

import type { FrameWriter } from "./frame-writer.ts";
import { DEFAULT_WINDOW, FLAG, FRAME, MAX_31_BITS } from "./protocol.ts";
import { RESPONSE_BLOCK } from "./response-head.ts";

/** `send` says "wait" while a stream has at least this many bytes in its queue. */
export const QUEUE_MARK = 64 * 1024;

/** What a stream may write before others that wait have their turn. */
const QUANTUM = 64 * 1024;

const NO_PIECES: Uint8Array[] = [];

/** The sending half of a stream as flow control sees it. The fields are `Outflow`'s to change. */
export interface Sender {
  readonly id: number;
  /** What the peer may still be sent; negative after it has taken back what it had granted. */
  sendWindow: number;
  /** Whether the response headers were sent. */
  responded: boolean;
  /** Bytes in `queue`, whose first piece begins at `queueAt`. */
  queued: number;
  queue: Uint8Array[] | undefined;
  queueAt: number;
  /** The header block that ends the stream, once the handler has ended it. */
  trailers: Uint8Array | undefined;
  /** The queue is empty again. */
  queueDrained(): void;
  /** The trailers are on their way. */
  answered(): void;
}

/**
 * Sends on behalf of the streams of one connection: straight into the frame writer while the windows and the socket allow,
 * else through a queue per stream. Streams that wait for the connection take turns; one that waits for its own window is
 * not looked at until the window opens.
 */
export class Outflow {
  readonly #writer: FrameWriter;
  /** What the peer may still be sent on all streams together. */
  #window = DEFAULT_WINDOW;
  /** The window new streams start with. */
  initialWindow = DEFAULT_WINDOW;
  /** Streams that could send if the connection could. */
  readonly #waiting = new Set<Sender>();

  constructor(writer: FrameWriter) {
    this.#writer = writer;
  }

  /**
   * Sends or queues bytes.
   * @returns false when the stream's queue has become long
   */
  send(sender: Sender, bytes: Uint8Array): boolean {
    let taken = 0;
    if (sender.queued === 0 && !this.#writer.blocked) {
      taken = this.#write(sender, bytes, 0);
      if (taken === bytes.length) return true;
    }
    sender.queue ??= [];
    sender.queue.push(bytes);
    if (sender.queued === 0) sender.queueAt = taken;
    sender.queued += bytes.length - taken;
    this.#await(sender);
    return sender.queued < QUEUE_MARK;
  }

  /** Sends `sender.trailers` once its queue is empty. */
  end(sender: Sender): void {
    if (sender.queued === 0 && !this.#writer.blocked) this.#writeTrailers(sender);
    else this.#await(sender);
  }

  /** Forgets a stream that is gone. */
  forget(sender: Sender): void {
    sender.queue = undefined;
    sender.queued = 0;
    if (this.#waiting.size > 0) this.#waiting.delete(sender);
  }

  /** WINDOW_UPDATE for the connection. @returns false when the window would exceed 2^31 - 1 */
  widen(increment: number): boolean {
    this.#window += increment;
    if (this.#window > MAX_31_BITS) return false;
    this.pump();
    return true;
  }

  /**
   * WINDOW_UPDATE for a stream, or a change of what all were granted at first.
   * @returns false when the window would exceed 2^31 - 1
   */
  widenStream(sender: Sender, increment: number): boolean {
    sender.sendWindow += increment;
    if (sender.sendWindow > MAX_31_BITS) return false;
    if (increment > 0 && sender.queued > 0) {
      this.#await(sender);
      this.pump();
    }
    return true;
  }

  /** Lets waiting streams send until the connection is full again. */
  pump(): void {
    const writer = this.#writer;
    for (const sender of this.#waiting) {
      if (writer.blocked) return;
      if (this.#window <= 0 && sender.queued > 0) continue;
      this.#waiting.delete(sender);
      this.#drainQueue(sender);
      // At the end of the set, which this loop reaches in turn.
      if (sender.queued > 0 || (sender.trailers !== undefined && writer.blocked)) this.#await(sender);
    }
  }

  #await(sender: Sender): void {
    if (sender.sendWindow > 0 || sender.queued === 0) this.#waiting.add(sender);
  }

  #drainQueue(sender: Sender): void {
    const queue = sender.queue ?? NO_PIECES;
    let quantum = QUANTUM;
    let done = 0;
    while (done < queue.length && quantum > 0) {
      const piece = queue[done]!;
      const taken = this.#write(sender, piece, sender.queueAt);
      quantum -= taken;
      sender.queued -= taken;
      sender.queueAt += taken;
      if (sender.queueAt < piece.length) break;
      sender.queueAt = 0;
      done++;
    }
    if (done > 0) queue.splice(0, done);
    if (sender.queued > 0) return;
    if (sender.trailers === undefined) sender.queueDrained();
    else if (!this.#writer.blocked) this.#writeTrailers(sender);
  }

  /** Writes what the windows and the socket allow of `bytes` from `from` on. */
  #write(sender: Sender, bytes: Uint8Array, from: number): number {
    const writer = this.#writer;
    if (!sender.responded) {
      sender.responded = true;
      writer.frame(FRAME.headers, FLAG.endHeaders, sender.id, RESPONSE_BLOCK);
    }
    let allowed = bytes.length - from;
    if (allowed > sender.sendWindow) allowed = sender.sendWindow;
    if (allowed > this.#window) allowed = this.#window;
    if (allowed <= 0) return 0;
    const taken = writer.data(sender.id, bytes, from, from + allowed);
    sender.sendWindow -= taken;
    this.#window -= taken;
    return taken;
  }

  #writeTrailers(sender: Sender): void {
    this.#writer.frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, sender.id, sender.trailers!);
    sender.answered();
  }
}

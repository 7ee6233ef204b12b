import type { Socket } from "node:net";
import { writeJoined } from "./joined-write.ts";

/** Bytes that wait for the end of the tick. With more, they leave at once. */
const MOST_WAITING = 64 * 1024;

/** An empty piece, whose write ends after all writes before it. */
const NOTHING = Buffer.alloc(0);

function flushLater(writer: AnswerWriter): void {
  writer.tickEnded();
}

/**
 * Writes the answers of a connection, one after the other: all pieces of a tick in one write, with the head if that has not left
 * yet, and with the end if that is known. To a socket that takes no more bytes it writes nothing.
 */
export class AnswerWriter {
  readonly #socket: Socket;
  /** Of the answer, until it has left. */
  #head = "";
  /** The length of the body is unknown: it leaves in chunks. */
  #chunked = false;
  readonly #waiting: Uint8Array[] = [];
  #bytes = 0;
  /** A flush at the end of this tick is due. */
  #due = false;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Begins an answer. The head leaves with the first bytes of the body if they come in the same tick, else alone. */
  begin(head: string, chunked: boolean): void {
    this.#head = head;
    this.#chunked = chunked;
    this.#flushSoon();
  }

  /** @returns false: the client must read first; the socket emits `drain` */
  write(bytes: Uint8Array): boolean {
    if (bytes.length > 0) {
      this.#waiting.push(bytes);
      this.#bytes += bytes.length;
      if (this.#bytes >= MOST_WAITING) this.flush();
      else this.#flushSoon();
    }
    return !this.#socket.writableNeedDrain;
  }

  /** Writes what waits. */
  flush(): void {
    this.#flush(false);
  }

  /**
   * Writes what waits, and the end of the answer.
   * @param left is called in a later tick, once the socket holds nothing of the answer; with an error when that cannot be any more
   */
  end(left?: (error?: Error | null) => void): void {
    const socket = this.#socket;
    if (this.#flush(true, left) || left === undefined || !socket.writable) return;
    if (socket.writableLength === 0) process.nextTick(left);
    else socket.write(NOTHING, left);
  }

  /** The tick in which something began to wait is over. */
  tickEnded(): void {
    this.#due = false;
    this.#flush(false);
  }

  #flushSoon(): void {
    if (this.#due) return;
    this.#due = true;
    process.nextTick(flushLater, this);
  }

  /** @returns whether there was something to write */
  #flush(last: boolean, left?: (error?: Error | null) => void): boolean {
    const length = this.#bytes;
    const head = this.#head;
    const chunked = this.#chunked;
    if (length === 0 && head === "" && !(chunked && last)) return false;
    const pieces = this.#waiting.splice(0);
    this.#bytes = 0;
    this.#head = "";
    if (last) this.#chunked = false;
    const socket = this.#socket;
    if (!socket.writable) return false;
    let before = head;
    let after = "";
    if (chunked) {
      if (length > 0) {
        before += `${length.toString(16)}\r\n`;
        after = "\r\n";
      }
      if (last) after += "0\r\n\r\n";
    }
    writeJoined(socket, before, pieces, length, after, left);
    return true;
  }
}

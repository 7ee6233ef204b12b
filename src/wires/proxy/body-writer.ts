import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { writeJoined } from "./joined-write.ts";

/** Bytes that wait for the end of the tick. With more, they leave at once. */
const MOST_WAITING = 64 * 1024;

/** What node's response knows about the answer that it writes. */
interface Inside {
  /** False in place of true: no last chunk follows. */
  chunkedEncoding?: boolean;
  /** The answer may have a body. */
  readonly _hasBody?: boolean;
  /** The bytes of the head, once it is written. */
  readonly _header?: string | null;
  /** The socket has the head. */
  _headerSent?: boolean;
  /** What waits for a socket. */
  readonly outputData?: readonly unknown[];
}

function flush(writer: BodyWriter): void {
  writer.flush();
}

/**
 * Writes the body of an answer to the client: all pieces of a tick in one write, with the head if that has not left yet. Node would
 * write each chunk in four pieces, with three objects for each (docs/adr/0030). In a Node with other internals, node writes.
 */
export class BodyWriter {
  readonly #response: ServerResponse;
  readonly #inside: Inside;
  readonly #waiting: Uint8Array[] = [];
  #bytes = 0;

  /** @param response its head is written */
  constructor(response: ServerResponse) {
    this.#response = response;
    this.#inside = response as unknown as Inside;
  }

  /** @returns false: the client must read first; the socket or the response emits `drain` */
  write(bytes: Uint8Array): boolean {
    const socket = this.#socket();
    if (socket === undefined) {
      this.flush();
      return this.#response.write(bytes);
    }
    if (bytes.length > 0 && this.#waiting.push(bytes) === 1) process.nextTick(flush, this);
    this.#bytes += bytes.length;
    return this.#bytes < MOST_WAITING ? !socket.writableNeedDrain : this.flush();
  }

  /** Writes what waits. @returns as `write` */
  flush(last = false): boolean {
    if (this.#bytes === 0) return true;
    const pieces = this.#waiting.splice(0);
    const length = this.#bytes;
    this.#bytes = 0;
    const socket = this.#socket();
    const response = this.#response;
    if (socket === undefined) {
      let goesOn = true;
      for (const piece of pieces) goesOn = response.write(piece);
      return goesOn;
    }
    const inside = this.#inside;
    const chunked = inside.chunkedEncoding === true;
    const frame = chunked ? `${length.toString(16)}\r\n` : "";
    const before = inside._headerSent ? frame : inside._header! + frame;
    let after = "";
    if (chunked) after = last ? "\r\n0\r\n\r\n" : "\r\n";
    inside._headerSent = true;
    if (last) inside.chunkedEncoding = false;
    return writeJoined(socket, before, pieces, length, after);
  }

  /** Writes what waits, and the end of the answer. */
  end(): void {
    this.flush(true);
    this.#response.end();
  }

  /** The socket, when the answer may be written to it past the response. */
  #socket(): Socket | undefined {
    const { socket } = this.#response;
    const { _header, _headerSent, _hasBody, outputData } = this.#inside;
    const known = typeof _header === "string" && typeof _headerSent === "boolean" && outputData?.length === 0;
    return known && _hasBody === true && socket?.writable === true ? socket : undefined;
  }
}

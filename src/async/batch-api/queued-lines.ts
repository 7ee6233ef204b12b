import { closeSync, openSync, readSync } from "node:fs";
import type { ResultMessage } from "../brokers/messages/message.ts";
import { INBOX_BYTES } from "../brokers/queue-client.ts";
import type { LineRequest } from "./batch-queue.ts";

/** Bytes of results that nobody has taken, from which on no line of the batch is claimed: its disk may be full. */
const MOST_RESULTS = 8 * 1024 * 1024;
/** Taken entries at the front of the list, from which on the list is cut. */
const CUT = 1024;

/**
 * `waiting`: in the queue. `claimed`: a dispatcher has it. `parked`: waits for another attempt. `gone`: has its result, or was
 * taken back; what still lists it passes over it.
 */
export type LineState = "waiting" | "claimed" | "parked" | "gone";

/** A request in the queue. */
export interface QueuedLine {
  readonly request: Omit<LineRequest, "payload">;
  readonly lines: QueuedLines;
  /** Milliseconds of the wall clock. */
  readonly publishedAt: number;
  state: LineState;
  cancelled: boolean;
  /** Rises with each claim, so that an old one is told from the present one. */
  deliveries: number;
  retryCount: number;
  labels: Readonly<Record<string, string>>;
}

/** The requests of one batch that wait, in their order, and its results. */
export class QueuedLines {
  readonly queueName: string;
  readonly resultQueueName: string;
  /** Unix seconds: all lines of a batch have the same. */
  readonly deadline: number;
  /** Lines that are not gone. */
  size = 0;
  /** Nobody takes results any more. */
  isDropped = false;
  #waiting: QueuedLine[] = [];
  #first = 0;
  /** Lines that came back, which go first. */
  readonly #back: QueuedLine[] = [];
  #results: ResultMessage[] = [];
  #resultBytes = 0;
  #file: number | undefined;

  constructor(queueName: string, resultQueueName: string, deadline: number) {
    this.queueName = queueName;
    this.resultQueueName = resultQueueName;
    this.deadline = deadline;
  }

  /** Whether lines may be claimed: the results of others do not take too much memory. */
  get hasRoom(): boolean {
    return this.#resultBytes < MOST_RESULTS;
  }

  /** Whether nothing is left of the batch. */
  get isEmpty(): boolean {
    return this.size === 0 && this.#results.length === 0;
  }

  addResult(result: ResultMessage): void {
    this.#results.push(result);
    this.#resultBytes += result.payload.byteLength;
  }

  /** The oldest results, which stay; fewer than `count` where they are large. */
  firstResults(count: number): readonly ResultMessage[] {
    let most = 0;
    for (let bytes = 0; most < Math.min(count, this.#results.length) && bytes < INBOX_BYTES; most++)
      bytes += this.#results[most]!.payload.byteLength;
    return this.#results.slice(0, most);
  }

  removeResults(count: number): void {
    for (const { payload } of this.#results.splice(0, count)) this.#resultBytes -= payload.byteLength;
  }

  add(line: QueuedLine): void {
    this.size++;
    this.#waiting.push(line);
  }

  /** Puts a line back that was claimed or parked. */
  putBack(line: QueuedLine): void {
    line.state = "waiting";
    this.#back.push(line);
  }

  /** The next line, which stays; undefined = none waits. */
  peek(): QueuedLine | undefined {
    for (; this.#back.length > 0; this.#back.pop()) {
      const line = this.#back.at(-1)!;
      if (line.state === "waiting") return line;
    }
    for (; this.#first < this.#waiting.length; this.#first++) {
      const line = this.#waiting[this.#first]!;
      if (line.state === "waiting") return line;
    }
    this.#waiting = [];
    this.#first = 0;
    return undefined;
  }

  /** Claims the line of `peek`. */
  take(line: QueuedLine): void {
    line.state = "claimed";
    line.deliveries++;
    if (this.#back.at(-1) === line) {
      this.#back.pop();
      return;
    }
    this.#first++;
    if (this.#first < CUT) return;
    this.#waiting = this.#waiting.slice(this.#first);
    this.#first = 0;
  }

  /** The body of a line. @throws errors of the file system, and an Error when the file has become shorter */
  read({ path, start, length }: LineRequest["place"]): Buffer {
    this.#file ??= openSync(path, "r");
    const body = Buffer.allocUnsafe(length);
    for (let at = 0; at < length; ) {
      const read = readSync(this.#file, body, at, length - at, start + at);
      if (read === 0) throw new Error("the input file has become shorter");
      at += read;
    }
    return body;
  }

  /** Closes the file of the input; the next `read` opens it again. */
  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }
}

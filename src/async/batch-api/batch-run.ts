import { type Clock, delay } from "../../base/clock/clock.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { Patience } from "../batch/patience.ts";
import { readResult } from "../brokers/messages/result.ts";
import { type AnswerFiles, type LineAnswer, lineOfRequest, requestId } from "./answer-files.ts";
import type { BatchQueue, LineInbox, LineProducer } from "./batch-queue.ts";
import type { StoredBatch } from "./records.ts";
import { type RequestLine, requestLines } from "./request-lines.ts";

/** Most requests, and characters of their bodies, of one submission (or one request of any size). */
const STEP = 500;
const STEP_SIZE = 4 * 1024 * 1024;
/** Most results of one read. */
const TAKEN = 500;
/** Lines by which the note of what may be in the queue runs ahead, so that it is written once for several submissions. */
const AHEAD = 2000;
/**
 * Milliseconds in which results gather before they are read: the answers of one read are one write to the disk, for which the whole
 * process waits.
 */
const GATHER = 50;
/** Milliseconds between two polls of an empty result queue. */
const SHORTEST_PAUSE = 10;
const LONGEST_PAUSE = 500;

export interface BatchRunOptions {
  readonly batch: StoredBatch;
  readonly queue: BatchQueue;
  /** For the lane of the batch and its own result queue. */
  readonly producer: LineProducer;
  readonly resultQueueName: string;
  readonly answers: AnswerFiles;
  readonly inputPath: string;
  /** Headers of every request. */
  readonly headers: Readonly<Record<string, string>>;
  /** Most requests queued or running at a time, >= 1. */
  readonly window: number;
  readonly clock: Clock;
  /** Notes that lines up to this one may soon be in the queue. */
  advance(line: number): Promise<void>;
  /** Called after each change. */
  onProgress(underWay: number): void;
  /** Receives what holds the batch up. */
  onProblem(problem: string): void;
}

/**
 * Gets one answer for every line of a batch, through any number of ends and starts.
 *
 * A line is noted in the store before it is submitted. An answer is kept before its result leaves the result queue. So
 * after any end, a line up to the note is in the queue, is in the result queue, is answered, or was never submitted. The first
 * three can be seen, and only a line of the last kind is submitted again. A second result of a line finds the line done.
 */
export class BatchRun {
  readonly #options: BatchRunOptions;
  readonly #inbox: LineInbox;
  readonly #patience: Patience;
  /** Lines without an answer that may be in the queue, with their custom ids: at most the window, and what a note ran ahead. */
  readonly #underWay = new Map<number, string>();
  /** Lines up to this one may have been submitted, by this process or an earlier one. */
  #noted: number;
  #cancelled: boolean;

  constructor(options: BatchRunOptions) {
    this.#options = options;
    this.#inbox = options.queue.inbox(options.resultQueueName);
    this.#patience = new Patience(options.clock, options.onProblem);
    this.#noted = options.batch.submitted;
    this.#cancelled = options.batch.status === "cancelling";
  }

  /** Submits no more lines, and takes back those that no dispatcher has. */
  cancel(): void {
    this.#cancelled = true;
  }

  /**
   * Ends when every line has its answer, or was left without one by the deadline or by its caller. After an abort at any point,
   * a later run can go on.
   * @throws the signal's reason; SluiceError for a problem that waiting does not solve
   */
  async run(signal: AbortSignal): Promise<void> {
    const { answers, clock } = this.#options;
    const before = this.#noted;
    const missing = await this.#recover(signal);
    const lines = this.#lines((line) => (line > before && !answers.isDone(line)) || missing.has(line));
    try {
      let pause = SHORTEST_PAUSE;
      let more = true;
      let readAt = Number.NEGATIVE_INFINITY;
      for (;;) {
        signal.throwIfAborted();
        if (this.#ended) more = false;
        const room = more && this.#hasRoom;
        const submitted = room ? await this.#submitSome(lines, signal) : 0;
        if (room && submitted === 0) more = false;
        if (this.#cancelled) await this.#withdraw(signal);
        let taken = 0;
        if (clock.now() - readAt >= GATHER) {
          taken = await this.#collect(signal);
          if (taken > 0 && taken < TAKEN) readAt = clock.now();
        }
        this.#options.onProgress(this.#underWay.size);
        if (!more && this.#underWay.size === 0) break;
        const busy = submitted > 0 || taken >= TAKEN;
        pause = busy || taken > 0 ? SHORTEST_PAUSE : Math.min(LONGEST_PAUSE, 2 * pause);
        if (busy) await this.#breathe();
        else await delay(clock, Math.max(pause, readAt + GATHER - clock.now()), signal);
      }
    } finally {
      lines.return(undefined);
    }
    await this.#leave(signal);
  }

  /** Whether enough of the window is free for a submission that is worth its write. */
  get #hasRoom(): boolean {
    const { window } = this.#options;
    return window - this.#underWay.size >= Math.min(STEP, Math.ceil(window / 4));
  }

  /** No further line is submitted. */
  get #ended(): boolean {
    // Deadlines are whole seconds, and a submission takes time.
    return this.#cancelled || this.#options.clock.wall() / 1000 > this.#deadline - 1;
  }

  /** Of the messages, Unix seconds. */
  get #deadline(): number {
    return Math.ceil(this.#options.batch.expiresAt);
  }

  /**
   * Finds what became of the lines that an earlier process may have submitted.
   * @returns those that are neither in the queue nor answered
   */
  async #recover(signal: AbortSignal): Promise<ReadonlySet<number>> {
    const { answers } = this.#options;
    if (this.#noted === 0) return new Set();
    for (const { line, customId } of this.#lines((line) => line <= this.#noted && !answers.isDone(line)))
      this.#underWay.set(line, customId);
    while ((await this.#collect(signal)) > 0) await this.#breathe();
    const missing = await this.#missing([...this.#underWay.keys()], signal);
    for (const line of missing) this.#underWay.delete(line);
    return missing;
  }

  /** The lines, of these, that are neither in the queue nor answered. */
  async #missing(lines: readonly number[], signal: AbortSignal): Promise<Set<number>> {
    const { queue, batch } = this.#options;
    const missing = new Set<number>();
    for (let at = 0; at < lines.length; at += STEP) {
      const some = lines.slice(at, at + STEP);
      const ids = some.map((line) => requestId(batch.id, line));
      const there = await this.#patience.until(signal, () => queue.outstanding(ids));
      for (const [index, line] of some.entries()) if (there[index] !== true) missing.add(line);
    }
    // A request that ended before that question has its result in the queue by now.
    while ((await this.#collect(signal)) > 0) await this.#breathe();
    for (const line of missing) if (this.#options.answers.isDone(line)) missing.delete(line);
    return missing;
  }

  /** @returns the number of submitted lines; 0 = there is no further line, or no time */
  async #submitSome(lines: Generator<RequestLine>, signal: AbortSignal): Promise<number> {
    const { window } = this.#options;
    const room = Math.min(STEP, Math.max(1, window - this.#underWay.size));
    let some: RequestLine[] = [];
    for (let size = 0; some.length < room && size < STEP_SIZE; ) {
      const next = lines.next();
      if (next.done) break;
      some.push(next.value);
      size += next.value.body.length;
    }
    const count = some.length;
    if (count === 0) return 0;
    const last = some.at(-1)!.line;
    if (last > this.#noted) {
      this.#noted = last + AHEAD;
      await this.#patience.until(signal, () => this.#options.advance(this.#noted));
    }
    for (const { line, customId } of some) this.#underWay.set(line, customId);
    // Nothing would take the lines of a lost batch out of the queue again.
    signal.throwIfAborted();
    while (some.length > 0 && !(await this.#submit(some, signal))) {
      // The queue was away, so some of them may be there.
      const missing = await this.#missing(
        some.map(({ line }) => line),
        signal,
      );
      some = some.filter(({ line }) => missing.has(line));
      if (!this.#ended) continue;
      for (const { line } of some) this.#underWay.delete(line);
      break;
    }
    return count;
  }

  /** @returns false when the queue was away */
  async #submit(some: readonly RequestLine[], signal: AbortSignal): Promise<boolean> {
    const { producer, batch, headers } = this.#options;
    try {
      await producer.submitRequests(
        some.map(({ line, url, body, place }) => ({
          ...{ id: requestId(batch.id, line), deadline: this.#deadline, payload: body, place, endpoint: url, headers },
        })),
      );
      return true;
    } catch (error) {
      await this.#patience.bear(error, signal);
      return false;
    }
  }

  /** Takes the lines out of the queue that no dispatcher has, and asks dispatchers to send no others. */
  async #withdraw(signal: AbortSignal): Promise<void> {
    const { queue, batch, answers } = this.#options;
    const lines = [...this.#underWay.keys()];
    for (let at = 0; at < lines.length; at += STEP) {
      const some = lines.slice(at, at + STEP);
      const gone = await this.#patience.until(signal, () =>
        queue.withdraw(some.map((line) => requestId(batch.id, line))),
      );
      const left = some.filter((_, index) => gone[index] === true);
      const cancelled = left.map(
        (line) => ({ line, customId: this.#underWay.get(line)!, outcome: "cancelled" }) as const,
      );
      await this.#patience.until(signal, () => answers.append(cancelled));
      for (const line of left) this.#underWay.delete(line);
      await this.#breathe();
    }
  }

  /** Takes the results that are in the result queue. @returns their number */
  async #collect(signal: AbortSignal): Promise<number> {
    const read = await this.#patience.until(signal, () => this.#inbox.read(TAKEN));
    if (read.length === 0) return 0;
    await this.#take(read, (work) => this.#patience.until(signal, work));
    return read.length;
  }

  /**
   * Keeps what came since the last look, before another process takes the batch over. One attempt: what is not kept is sent again.
   * @throws SluiceError
   */
  async keepLast(): Promise<void> {
    for (;;) {
      const read = await this.#inbox.read(TAKEN);
      if (read.length === 0) return;
      await this.#take(read, (work) => work());
    }
  }

  /** Takes results out of the result queue, once their answers are kept. */
  async #take(
    read: Awaited<ReturnType<LineInbox["read"]>>,
    attempt: (work: () => Promise<void>) => Promise<void>,
  ): Promise<void> {
    const { answers, batch } = this.#options;
    const found: LineAnswer[] = [];
    for (const each of read) {
      const result = typeof each === "string" ? readResult(each) : each;
      const line = result === undefined ? undefined : lineOfRequest(result.id, batch.id);
      const customId = line === undefined ? undefined : this.#underWay.get(line);
      // A line without an entry has its answer: each line that may be in the queue has one.
      if (line !== undefined && customId !== undefined) found.push({ line, customId, outcome: result! });
    }
    await attempt(() => answers.append(found));
    for (const { line } of found) this.#underWay.delete(line);
    await attempt(() => this.#inbox.remove());
  }

  /** Gives an error to the lines that were never executed. */
  async #leave(signal: AbortSignal): Promise<void> {
    const { answers } = this.#options;
    const outcome = this.#cancelled ? "cancelled" : "expired";
    let some: LineAnswer[] = [];
    try {
      for (const { line, customId } of this.#lines((line) => !answers.isDone(line))) {
        some.push({ line, customId, outcome });
        if (some.length < TAKEN) continue;
        await this.#patience.until(signal, () => answers.append(some));
        some = [];
        await this.#breathe();
        signal.throwIfAborted();
      }
    } catch (error) {
      // Without its input, the batch ends with what it has.
      if (!(error instanceof SluiceError) || error.code !== "BATCH_INPUT") throw error;
    }
    await this.#patience.until(signal, () => answers.append(some));
    this.#options.onProgress(0);
  }

  #lines(wanted: (line: number) => boolean): Generator<RequestLine> {
    return requestLines(this.#options.inputPath, wanted);
  }

  #breathe(): Promise<void> {
    return new Promise((resolve) => this.#options.clock.soon(resolve));
  }
}

import { type Clock, delay } from "../../base/clock/clock.ts";
import type { ResultMessage } from "../brokers/messages/message.ts";
import { readResult } from "../brokers/messages/result.ts";
import type { Producer, QueueClient, ResultInbox, SubmitRequest } from "../brokers/queue-client.ts";
import { type BatchFiles, batchRequestId, lineOf } from "./batch-files.ts";
import type { BatchRecord } from "./batch-journal.ts";
import { answerLine, errorLine, succeeded } from "./batch-output.ts";
import { type BatchFigures, BatchWatch } from "./batch-progress.ts";
import { BAD, DONE, OPEN } from "./line-index.ts";
import { Patience } from "./patience.ts";

/** Most requests, and characters of their bodies, of one submission (or one request of any size). */
const STEP = 200;
const STEP_SIZE = 8 * 1024 * 1024;
/** Most results of one read. */
const TAKEN = 500;
/** Milliseconds between two polls of an empty result queue. */
const SHORTEST_PAUSE = 10;
const LONGEST_PAUSE = 250;

export interface BatchRunOptions {
  readonly client: QueueClient;
  /** For the batch's request queue and result queue. */
  readonly producer: Producer;
  readonly files: BatchFiles;
  /** The journal has this record already. */
  readonly record: BatchRecord;
  /** Fields that all requests share. */
  readonly common: Pick<SubmitRequest, "metadata" | "headers" | "labels">;
  /** Deadline of the requests that this run submits, Unix seconds. */
  readonly deadline: number;
  /** Most requests queued or running at a time, >= 1. */
  readonly window: number;
  readonly figures: BatchFigures;
  readonly clock: Clock;
  /** Reports something to the user, in a sentence. */
  notice(text: string): void;
}

/**
 * Gets one answer for every line of a batch, through any number of ends and starts.
 *
 * A line is noted in the journal before it is submitted. An answer is on the disk before its result leaves the result queue. So
 * after any end, a line up to the journal's mark is in the queue, is in the result queue, is answered, or was never submitted.
 * The first three can be seen, and only a line of the last kind is submitted again. A second result of a line finds the line
 * done.
 */
export class BatchRun {
  readonly #options: BatchRunOptions;
  readonly #inbox: ResultInbox;
  readonly #watch: BatchWatch;
  /** Lines that wait for an answer, with their custom ids; at most the window and the lines that earlier runs left. */
  readonly #underWay = new Map<number, string>();
  readonly #patience: Patience;
  #next = 1;

  constructor(options: BatchRunOptions) {
    const { client, record, clock, notice } = options;
    this.#options = options;
    this.#inbox = client.inbox(record.resultQueueName);
    this.#patience = new Patience(clock, notice);
    const backlog = () => client.backlog(record.queueName);
    this.#watch = new BatchWatch(record.queueName, backlog, notice, clock.now() / 1000);
  }

  /**
   * Ends when every line has its answer. After an abort at any point, a later run can go on.
   * @throws the signal's reason; SluiceError for a problem that waiting does not solve
   */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    this.#answerBad();
    let pause = SHORTEST_PAUSE;
    for (;;) {
      const submitted = await this.#submitSome(signal);
      const taken = await this.#collect(signal);
      const now = clock.now() / 1000;
      if (taken > 0 || this.#underWay.size === 0) this.#watch.progress(now);
      if (submitted > 0 || taken > 0) {
        pause = SHORTEST_PAUSE;
        continue;
      }
      if (this.#underWay.size === 0 && this.#next > this.#options.files.input.index.count) return;
      await this.#patience.until(signal, () => this.#watch.look(now, this.#underWay.size));
      await delay(clock, pause, signal);
      pause = Math.min(LONGEST_PAUSE, 2 * pause);
    }
  }

  /**
   * Submits the next lines, as many as there is room for. It first looks for those that an earlier run may have submitted.
   * @returns the number of lines
   */
  async #submitSome(signal: AbortSignal): Promise<number> {
    const { window, files } = this.#options;
    const room = Math.min(STEP, window - this.#underWay.size);
    if (room <= 0) return 0;
    const { submitted } = files.journal;
    const count = files.input.index.count;
    const lines = this.#gather(this.#next <= submitted ? Math.min(submitted, count) : count, room);
    if (lines.length === 0) return 0;
    const last = lines.at(-1)!.line;
    if (last > submitted) {
      files.journal.advance(last);
      if (await this.#submit(lines, signal)) return lines.length;
    }
    await this.#submitMissing(lines, signal);
    return lines.length;
  }

  /** Submits the lines that are neither in the queue nor answered, until all are there. */
  async #submitMissing(lines: readonly GatheredLine[], signal: AbortSignal): Promise<void> {
    const { client, files, record } = this.#options;
    for (let left = lines; left.length > 0; ) {
      const ids = left.map(({ line }) => batchRequestId(record.batch, line));
      const there = await this.#patience.until(signal, () => client.outstanding(ids));
      for (const [at, { line, customId }] of left.entries()) if (there[at]) this.#underWay.set(line, customId);
      // A request that ended before that question has its result in the queue by now.
      while ((await this.#collect(signal)) > 0);
      left = left.filter(({ line }, at) => !there[at] && files.input.index.state(line) === OPEN);
      if (left.length === 0 || (await this.#submit(left, signal))) return;
    }
  }

  /** @returns false when the broker was away: some requests may have been submitted */
  async #submit(lines: readonly GatheredLine[], signal: AbortSignal): Promise<boolean> {
    const { producer, record, common, deadline, clock } = this.#options;
    // Deadlines are whole seconds, and the submission takes time.
    if (clock.wall() / 1000 > deadline - 1) {
      this.#expire(lines);
      return true;
    }
    const requests = lines.map(({ line, url, body }) => ({
      ...common,
      id: batchRequestId(record.batch, line),
      deadline,
      payload: body,
      endpoint: url,
    }));
    try {
      await producer.submitRequests(requests);
    } catch (error) {
      await this.#patience.bear(error, signal);
      return false;
    }
    for (const { line, customId } of lines) this.#underWay.set(line, customId);
    this.#count();
    return true;
  }

  /** Takes the results that are in the result queue. @returns their number */
  async #collect(signal: AbortSignal): Promise<number> {
    const { files, notice } = this.#options;
    const texts = await this.#patience.until(signal, () => this.#inbox.read(TAKEN));
    if (texts.length === 0) return 0;
    const answers: string[] = [];
    for (const text of texts) {
      const result = readResult(text);
      const line = result === undefined ? undefined : this.#lineOf(result.id);
      if (result === undefined || line === undefined)
        notice("dropped an entry of the batch's result queue: it is not a result of this batch");
      else if (files.input.index.state(line) === OPEN) answers.push(this.#answer(line, result));
    }
    files.output.append(answers);
    this.#count();
    await this.#patience.until(signal, () => this.#inbox.remove());
    return texts.length;
  }

  #lineOf(id: string): number | undefined {
    const line = lineOf(id, this.#options.record.batch);
    return line !== undefined && line <= this.#options.files.input.index.count ? line : undefined;
  }

  #answer(line: number, result: ResultMessage): string {
    const { files, figures } = this.#options;
    const customId = this.#underWay.get(line) ?? files.input.readGood(line).customId;
    this.#underWay.delete(line);
    files.input.index.mark(line, DONE);
    figures.done++;
    if (!succeeded(result)) figures.failed++;
    return answerLine(result.id, customId, result);
  }

  /** Answers the lines that cannot be sent. */
  #answerBad(): void {
    const { files, record } = this.#options;
    const { index } = files.input;
    let answers: string[] = [];
    for (let line = 1; line <= index.count; line++) {
      if (index.state(line) === BAD) {
        const { customId } = files.input.read(line);
        const own = customId !== undefined && index.find(customId) === line ? customId : null;
        const error = { code: "INVALID_LINE", message: `line ${line}: ${files.input.problemOf(line)}` };
        answers.push(errorLine(batchRequestId(record.batch, line), own, error));
        this.#fail(line);
      }
      if (answers.length < STEP && line < index.count) continue;
      files.output.append(answers);
      answers = [];
    }
  }

  #expire(lines: readonly GatheredLine[]): void {
    const { files, record } = this.#options;
    const error = { code: "BATCH_EXPIRED", message: "the batch's deadline passed before this request was submitted" };
    files.output.append(
      lines.map(({ line, customId }) => errorLine(batchRequestId(record.batch, line), customId, error)),
    );
    for (const { line } of lines) this.#fail(line);
  }

  #fail(line: number): void {
    const { files, figures } = this.#options;
    files.input.index.mark(line, DONE);
    figures.done++;
    figures.failed++;
  }

  /** The next lines without an answer: at most `count`, and none after `last`. */
  #gather(last: number, count: number): readonly GatheredLine[] {
    const { input } = this.#options.files;
    const lines: GatheredLine[] = [];
    for (let size = 0; this.#next <= last && lines.length < count && size < STEP_SIZE; this.#next++) {
      if (input.index.state(this.#next) !== OPEN) continue;
      const { customId, url, body } = input.readGood(this.#next);
      lines.push({ line: this.#next, customId, url, body });
      size += body.length;
    }
    return lines;
  }

  #count(): void {
    this.#options.figures.underWay = this.#underWay.size;
  }
}

interface GatheredLine {
  readonly line: number;
  readonly customId: string;
  readonly url: string;
  readonly body: string;
}

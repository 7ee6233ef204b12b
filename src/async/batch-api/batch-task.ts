import { randomBytes } from "node:crypto";
import { HEADER } from "../../base/inference/headers.ts";
import { LineRate } from "../batch/batch-progress.ts";
import { AnswerFiles } from "./answer-files.ts";
import { BatchRun } from "./batch-run.ts";
import { type BatchStatus, isOpen } from "./batch-status.ts";
import { type BatchChange, type Held, LeaseLost } from "./batches.ts";
import type { EngineOptions } from "./engine-options.ts";
import { checkInput, type InputCheck } from "./input-check.ts";
import type { BatchCounts, BatchPace, StoredBatch } from "./records.ts";

/** The header with the id of the batch of a request. */
export const BATCH_HEADER = "x-sluice-batch";

/** Milliseconds between two notes of the progress. */
const NOTE = 500;
const NO_PACE: BatchPace = { underWay: 0, rate: 0, problem: "" };

export interface TaskParts extends EngineOptions {
  /** Resolves when an input may be checked, with a function that ends the turn. */
  checkTurn(): Promise<() => void>;
  /** Aborted when the process ends, and with LeaseLost when another process has the batch. */
  readonly signal: AbortSignal;
}

/** The name of the queue of a lane. */
export function laneQueue(lane: number): string {
  return `batch-lane-${lane}`;
}

/** The name of the result queue of a batch. */
function resultsOf(id: string): string {
  return `batch-results-${id}`;
}

/**
 * The headers by which a gateway of another process treats the requests as the caller's, where it lets this process choose. They do not name
 * the caller's objective: its priority could be above that of this process's key, which is the priority of batches.
 */
export function flowHeaders({
  caller: { name, fairnessId = name },
}: Pick<StoredBatch, "caller">): Record<string, string> {
  return fairnessId === "" ? {} : { [HEADER.fairnessIdAlias]: fairnessId };
}

/** Takes one batch from its present status to its end, each step by the status that the store has. */
export class BatchTask {
  readonly #held: Held;
  readonly #parts: TaskParts;
  readonly #rate = new LineRate();
  #run: BatchRun | undefined;
  #cancelled = false;
  /** Of all answers, once they are there; undefined = not known to this process. */
  #counts: BatchCounts | undefined;
  #notedAt = Number.NEGATIVE_INFINITY;
  #noting: Promise<void> | undefined;

  constructor(held: Held, parts: TaskParts) {
    this.#held = held;
    this.#parts = parts;
  }

  /** The caller wants the batch to end. */
  cancel(): void {
    this.#cancelled = true;
    this.#run?.cancel();
  }

  /** Whether lines of the batch are to be sent, or are under way. */
  get hasLines(): boolean {
    return this.#run !== undefined;
  }

  /** Takes the lines out of the queue, at once. */
  drop(): void {
    this.#parts.queue.drop(resultsOf(this.#held.id));
  }

  /** Shows what holds the batch up. */
  async tell(problem: string): Promise<void> {
    const { store } = this.#parts;
    try {
      const batch = await store.any(this.#held.id);
      if (batch !== undefined) await store.note(this.#held, batch, { underWay: batch.underWay, rate: 0, problem });
    } catch {
      // The store may be what holds it up.
    }
  }

  /** Removes what the batch left on this machine. */
  async leave(): Promise<void> {
    const { store } = this.#parts;
    this.drop();
    const batch = await store.any(this.#held.id).catch(() => undefined);
    if (batch !== undefined) await store.leave(batch);
  }

  /** Ends when the batch has. @throws the reason of the signal, or SluiceError: the same call goes on from there */
  async run(): Promise<void> {
    for (;;) {
      this.#parts.signal.throwIfAborted();
      const batch = await this.#parts.store.any(this.#held.id);
      if (batch === undefined) return;
      if (!isOpen(batch.status)) return this.#parts.store.leave(batch);
      switch (batch.status) {
        case "validating":
          await this.#validate(batch);
          break;
        case "in_progress":
          this.#counts = await this.#answer(batch);
          if (!this.#cancelled) await this.#move("finalizing");
          break;
        case "cancelling":
          await this.#finish(batch, "cancelled");
          break;
        case "finalizing":
          await this.#finish(batch, "expired");
          break;
      }
    }
  }

  async #validate(batch: StoredBatch): Promise<void> {
    const { store, limits, checkTurn, signal } = this.#parts;
    const endTurn = await checkTurn();
    let check: InputCheck;
    try {
      signal.throwIfAborted();
      if (this.#cancelled) return;
      check = await checkInput({
        path: await store.input(batch, signal),
        ...{ endpoint: batch.endpoint, lines: limits.lines },
        models: batch.caller.models && new Set(batch.caller.models),
        spill: store.spool.upload(`${batch.id}.ids`),
        seeds: [randomBytes(4).readUInt32LE(), randomBytes(4).readUInt32LE()],
        breathe: async () => {
          await this.#breathe();
          if (this.#cancelled) throw new Cancelled();
        },
      });
    } catch (error) {
      if (error instanceof Cancelled) return;
      throw error;
    } finally {
      endTurn();
    }
    const { lines, problems } = check;
    if (problems.length > 0) await this.#move("failed", { problems, total: lines });
    else await this.#move("in_progress", { total: lines });
  }

  /** Gets the answers, as far as the batch is not cancelled. @returns what is in the files then */
  async #answer(batch: StoredBatch): Promise<BatchCounts> {
    const { store, queue, clock, signal, window, namesBatches } = this.#parts;
    const answers = await this.#answers(batch);
    const resultQueueName = resultsOf(batch.id);
    const producer = await queue.producer(laneQueue(batch.lane), resultQueueName);
    let run: BatchRun | undefined;
    try {
      run = this.#run = new BatchRun({
        ...{ batch, queue, producer, resultQueueName, answers, window, clock },
        inputPath: await store.input(batch, signal),
        headers: namesBatches ? { [BATCH_HEADER]: batch.id } : flowHeaders(batch),
        advance: (line) => store.advance(this.#held, line),
        onProgress: (underWay) => this.#note(answers, underWay),
        onProblem: (problem) => void this.tell(problem),
      });
      if (this.#cancelled) run.cancel();
      await run.run(signal);
      await this.#noting;
      await store.note(this.#held, answers.counts, { ...NO_PACE, rate: this.#rateOf(answers) });
    } catch (error) {
      // Whoever goes on with the batch needs not send these lines again.
      if (signal.aborted && !(signal.reason instanceof LeaseLost)) await run?.keepLast().catch(() => {});
      throw error;
    } finally {
      this.#run = undefined;
      await producer.close();
      answers.close();
    }
    return answers.counts;
  }

  /** Makes the answers files of the caller, and ends the batch. @param ending when lines have no answer */
  async #finish(batch: StoredBatch, ending: "cancelled" | "expired"): Promise<void> {
    if (ending === "cancelled" && batch.total > 0) this.#counts = await this.#answer(batch);
    const { store, clock, limits } = this.#parts;
    const counts = this.#counts ?? (await this.#written(batch));
    const { output, errors } = await store.publish(batch);
    const to: BatchStatus = ending === "cancelled" || counts.unanswered > 0 ? ending : "completed";
    const now = clock.wall() / 1000;
    const expiresAt = now + (batch.outputSeconds ?? limits.keep);
    const named = [
      { ...output, filename: `${batch.id}_output.jsonl` },
      { ...errors, filename: `${batch.id}_error.jsonl` },
    ];
    const same = { owner: batch.owner, purpose: "batch_output", createdAt: now, expiresAt } as const;
    await this.#move(to, {
      ...{ counts, outputFileId: output.id, errorFileId: errors.id },
      ...{ hasOutput: output.bytes > 0, hasErrors: errors.bytes > 0 },
      files: named.filter(({ bytes }) => bytes > 0).map((file) => ({ ...file, ...same })),
    });
  }

  /** What is in the files of an earlier process. */
  async #written(batch: StoredBatch): Promise<BatchCounts> {
    const answers = await this.#answers(batch);
    answers.close();
    return answers.counts;
  }

  #answers(batch: StoredBatch): Promise<AnswerFiles> {
    const { store, signal } = this.#parts;
    const { id, total, submitted } = batch;
    const journal = store.journal(this.#held);
    const of = journal && { of: journal, signal };
    return AnswerFiles.open(id, store.answerPaths(batch), Math.max(total, submitted), () => this.#breathe(), of);
  }

  /** Tells of the progress from time to time. A store that is away learns of it later: nothing waits for this. */
  #note(answers: AnswerFiles, underWay: number): void {
    const { store, clock } = this.#parts;
    if (this.#noting !== undefined || clock.now() - this.#notedAt < NOTE) return;
    this.#notedAt = clock.now();
    this.#noting = store
      .note(this.#held, answers.counts, { ...NO_PACE, underWay, rate: this.#rateOf(answers) })
      .catch(() => {})
      .finally(() => {
        this.#noting = undefined;
      });
  }

  #rateOf({ counts }: AnswerFiles): number {
    return this.#rate.at(this.#parts.clock.now() / 1000, counts.completed + counts.failed);
  }

  async #move(to: BatchStatus, change: BatchChange = {}): Promise<void> {
    await this.#parts.store.move(this.#held, to, this.#parts.clock.wall() / 1000, change);
  }

  async #breathe(): Promise<void> {
    await new Promise<void>((resolve) => this.#parts.clock.soon(resolve));
    this.#parts.signal.throwIfAborted();
  }
}

/** Ends the check of an input whose batch was cancelled. */
class Cancelled extends Error {}

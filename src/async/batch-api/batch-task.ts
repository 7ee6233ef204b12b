import { randomBytes } from "node:crypto";
import { HEADER } from "../../base/inference/headers.ts";
import { LineRate } from "../batch/batch-progress.ts";
import { AnswerFiles } from "./answer-files.ts";
import { BatchRun } from "./batch-run.ts";
import { type BatchStatus, isOpen } from "./batch-status.ts";
import type { StatusChange } from "./batch-table.ts";
import type { EngineOptions } from "./engine-options.ts";
import { checkInput, type InputCheck } from "./input-check.ts";
import type { BatchCounts, StoredBatch } from "./records.ts";

/** The header with the id of the batch of a request. */
export const BATCH_HEADER = "x-sluice-batch";

/** Milliseconds between two notes of the progress. */
const NOTE = 500;

export interface TaskParts extends EngineOptions {
  /** Resolves when an input may be checked, with a function that ends the turn. */
  checkTurn(): Promise<() => void>;
  /** Aborted when the process ends. */
  readonly signal: AbortSignal;
}

/** The name of the queue of a lane. */
export function laneQueue(lane: number): string {
  return `batch-lane-${lane}`;
}

/** The headers by which a gateway of another process treats the requests as the caller's, where it lets this process choose. */
function flowHeaders({ caller }: StoredBatch): Record<string, string> {
  const { name, fairnessId = name, objective } = caller;
  return {
    ...(fairnessId === "" ? {} : { [HEADER.fairnessIdAlias]: fairnessId }),
    ...(objective === undefined ? {} : { [HEADER.objectiveAlias]: objective }),
  };
}

/** Takes one batch from its present status to its end, each step by the status that the database has. */
export class BatchTask {
  readonly #id: string;
  readonly #parts: TaskParts;
  readonly #rate = new LineRate();
  #run: BatchRun | undefined;
  #cancelled = false;
  /** Of all answers, once they are there; undefined = not known to this process. */
  #counts: BatchCounts | undefined;
  #notedAt = Number.NEGATIVE_INFINITY;

  constructor(id: string, parts: TaskParts) {
    this.#id = id;
    this.#parts = parts;
  }

  /** The caller wants the batch to end. */
  cancel(): void {
    this.#cancelled = true;
    this.#run?.cancel();
  }

  /** Shows what holds the batch up. */
  tell(problem: string): void {
    const batch = this.#parts.store.batches.any(this.#id);
    if (batch === undefined) return;
    try {
      this.#parts.store.batches.note(this.#id, batch, { underWay: batch.underWay, rate: 0, problem });
    } catch {
      // The database may be what holds it up.
    }
  }

  /** Ends when the batch has. @throws the reason of the signal, or SluiceError: the same call goes on from there */
  async run(): Promise<void> {
    for (;;) {
      this.#parts.signal.throwIfAborted();
      const batch = this.#parts.store.batches.any(this.#id);
      if (batch === undefined) return;
      if (!isOpen(batch.status)) {
        const { files, contents } = this.#parts.store;
        if (!files.isInput(batch.inputFileId)) contents.free(batch.inputFileId);
        return;
      }
      switch (batch.status) {
        case "validating":
          await this.#validate(batch);
          break;
        case "in_progress":
          this.#counts = await this.#answer(batch);
          if (!this.#cancelled) this.#move("finalizing");
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
        path: await store.contents.local(batch.inputFileId, signal),
        ...{ endpoint: batch.endpoint, lines: limits.lines },
        models: batch.caller.models && new Set(batch.caller.models),
        spill: store.folder.upload(`${batch.id}.ids`),
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
    if (problems.length > 0) this.#move("failed", { problems, total: lines });
    else this.#move("in_progress", { total: lines });
  }

  /** Gets the answers, as far as the batch is not cancelled. @returns what is in the files then */
  async #answer(batch: StoredBatch): Promise<BatchCounts> {
    const { store, queue, clock, signal, window, namesBatches } = this.#parts;
    const answers = await this.#answers(batch);
    const resultQueueName = `batch-results-${batch.id}`;
    const producer = await queue.producer(laneQueue(batch.lane), resultQueueName);
    try {
      this.#run = new BatchRun({
        ...{ batch, queue, producer, resultQueueName, answers, window, clock },
        inputPath: await store.contents.local(batch.inputFileId, signal),
        headers: namesBatches ? { [BATCH_HEADER]: batch.id } : flowHeaders(batch),
        advance: (line) => store.batches.advance(batch.id, line),
        onProgress: (underWay) => this.#note(answers, underWay),
      });
      if (this.#cancelled) this.#run.cancel();
      await this.#run.run(signal);
      this.#note(answers, 0, true);
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
    const files = [
      { id: batch.outputFileId, filename: `${batch.id}_output.jsonl` },
      { id: batch.errorFileId, filename: `${batch.id}_error.jsonl` },
    ].map((file) => ({ ...file, bytes: store.folder.size(file.id) }));
    const [output, errors] = files;
    const change = { counts, hasOutput: output!.bytes > 0, hasErrors: errors!.bytes > 0 };
    const to: BatchStatus = ending === "cancelled" || counts.unanswered > 0 ? ending : "completed";
    const now = clock.wall() / 1000;
    const expiresAt = now + (batch.outputSeconds ?? limits.keep);
    store.batches.move(batch.id, to, now, change, () => {
      for (const { id, filename, bytes } of files)
        if (bytes > 0)
          store.files.insert({
            ...{ id, owner: batch.owner, purpose: "batch_output", filename, bytes, createdAt: now, expiresAt },
          });
    });
    for (const { id, bytes } of files) if (bytes === 0) store.folder.remove(id);
  }

  /** What is in the files of an earlier process. */
  async #written(batch: StoredBatch): Promise<BatchCounts> {
    const answers = await this.#answers(batch);
    answers.close();
    return answers.counts;
  }

  #answers({ id, total, submitted, outputFileId, errorFileId }: StoredBatch): Promise<AnswerFiles> {
    const { folder } = this.#parts.store;
    const paths = { outputs: folder.content(outputFileId), errors: folder.content(errorFileId) };
    return AnswerFiles.open(id, paths, Math.max(total, submitted), () => this.#breathe());
  }

  #note(answers: AnswerFiles, underWay: number, now = false): void {
    const { store, clock } = this.#parts;
    if (!now && clock.now() - this.#notedAt < NOTE) return;
    this.#notedAt = clock.now();
    const { counts } = answers;
    const rate = this.#rate.at(clock.now() / 1000, counts.completed + counts.failed);
    store.batches.note(this.#id, counts, { underWay, rate, problem: "" });
  }

  #move(to: BatchStatus, change: StatusChange = {}): void {
    this.#parts.store.batches.move(this.#id, to, this.#parts.clock.wall() / 1000, change);
  }

  async #breathe(): Promise<void> {
    await new Promise<void>((resolve) => this.#parts.clock.soon(resolve));
    this.#parts.signal.throwIfAborted();
  }
}

/** Ends the check of an input whose batch was cancelled. */
class Cancelled extends Error {}

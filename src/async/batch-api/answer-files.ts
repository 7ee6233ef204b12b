import { rmSync } from "node:fs";
import {
  answerBody,
  answerLine,
  BatchOutput,
  errorLine,
  readWrittenLine,
  succeeded,
  type WrittenLine,
} from "../batch/batch-output.ts";
import type { ErrorCode, ResultMessage } from "../brokers/messages/message.ts";
import { type AnswerUsage, usageOf } from "./answer-usage.ts";
import { DoneLines } from "./done-lines.ts";
import { type BatchCounts, NO_COUNTS } from "./records.ts";

/** Why a line has no answer of a model server, as its error says. */
export const UNANSWERED = {
  expired: {
    code: "batch_expired",
    message: "this request could not be executed before the completion window expired",
  },
  cancelled: { code: "batch_cancelled", message: "the batch was cancelled before this request was executed" },
} as const;

/** The errors of the dispatcher that the API has words for. */
const CODES: Readonly<Partial<Record<ErrorCode, keyof typeof UNANSWERED>>> = {
  DEADLINE_EXCEEDED: "expired",
  CANCELLED: "cancelled",
};

const LEFT: ReadonlySet<string> = new Set(Object.values(UNANSWERED).map(({ code }) => code));

/** The id of the request of a line; the line's answer has the same id. @param batchId `batch_` and 32 hex digits */
export function requestId(batchId: string, line: number): string {
  return `batch_req_${batchId.slice("batch_".length)}_${line}`;
}

/** The line that an id names; undefined for ids of other batches and every other text. */
export function lineOfRequest(id: string, batchId: string): number | undefined {
  const start = `batch_req_${batchId.slice("batch_".length)}_`;
  const rest = id.startsWith(start) ? id.slice(start.length) : "";
  return /^[1-9]\d{0,9}$/.test(rest) ? Number(rest) : undefined;
}

/** An answer of a line that is to be written. */
export interface LineAnswer {
  readonly line: number;
  readonly customId: string;
  /** What the dispatcher brought, or why there is nothing. */
  readonly outcome: ResultMessage | keyof typeof UNANSWERED;
}

/** The answers of a batch outside this machine, which a process that takes the batch over goes on from. */
export interface AnswerJournal {
  /** The answer lines of all processes so far, some of them perhaps twice; each text is any number of whole lines. */
  read(signal: AbortSignal): AsyncIterable<string>;
  /** Keeps answer lines. When this resolves, the end of this machine does not lose them. */
  append(lines: readonly string[]): Promise<void>;
}

/**
 * The two files of a batch: answers that report success, and errors. An answer is on the disk when `append` resolves, and each line
 * has one answer in one of the files. The files are all that is known of the lines that have ended: a start reads them again. With
 * a journal, that one is all that is known: an answer is there first, and a start makes the files anew.
 */
export class AnswerFiles {
  readonly #batchId: string;
  readonly #outputs: BatchOutput;
  readonly #errors: BatchOutput;
  readonly #done: DoneLines;
  readonly #journal: AnswerJournal | undefined;
  #counts: BatchCounts = NO_COUNTS;

  private constructor(
    batchId: string,
    outputs: BatchOutput,
    errors: BatchOutput,
    lines: number,
    journal: AnswerJournal | undefined,
  ) {
    this.#batchId = batchId;
    this.#outputs = outputs;
    this.#errors = errors;
    this.#done = new DoneLines(lines);
    this.#journal = journal;
  }

  /**
   * Opens the files, or creates them, and reads what is in them.
   * @param paths of the answers, and of the errors
   * @param lines of the input, blank ones included
   * @param journal with the signal that ends the work; undefined = the files are all there is
   * @throws SluiceError BATCH_OUTPUT, or of the journal
   */
  static async open(
    batchId: string,
    paths: { readonly outputs: string; readonly errors: string },
    lines: number,
    breathe: () => Promise<void>,
    journal?: { readonly of: AnswerJournal; readonly signal: AbortSignal },
  ): Promise<AnswerFiles> {
    if (journal !== undefined) for (const path of [paths.outputs, paths.errors]) rmSync(path, { force: true });
    const outputs = new BatchOutput(paths.outputs);
    let errors: BatchOutput;
    try {
      errors = new BatchOutput(paths.errors);
    } catch (error) {
      outputs.close();
      throw error;
    }
    const files = new AnswerFiles(batchId, outputs, errors, lines, journal?.of);
    try {
      for (const file of [outputs, errors]) await file.scan((line) => files.#read(line), breathe);
      outputs.syncFolder();
      if (journal !== undefined)
        for await (const text of journal.of.read(journal.signal)) {
          files.#replay(text);
          await breathe();
        }
    } catch (error) {
      files.close();
      throw error;
    }
    return files;
  }

  get counts(): BatchCounts {
    return this.#counts;
  }

  /** Whether a line has its answer. */
  isDone(line: number): boolean {
    return this.#done.has(line);
  }

  /**
   * Writes answers of lines that have none yet; an answer of another line is left out. One call at a time.
   * @throws SluiceError BATCH_OUTPUT, or of the journal
   */
  async append(answers: readonly LineAnswer[]): Promise<void> {
    const [outputs, errors]: [string[], string[]] = [[], []];
    const added: { line: number; good: boolean; left: boolean; usage: AnswerUsage | undefined }[] = [];
    const now = new Set<number>();
    for (const { line, customId, outcome } of answers) {
      if (this.#done.has(line) || now.has(line)) continue;
      now.add(line);
      const id = requestId(this.#batchId, line);
      const left = typeof outcome === "string" ? outcome : CODES[outcome.errorCode as ErrorCode];
      const good = typeof outcome !== "string" && succeeded(outcome);
      let usage: AnswerUsage | undefined;
      if (left !== undefined) errors.push(errorLine(id, customId, UNANSWERED[left]));
      else {
        const result = outcome as ResultMessage;
        const answer = answerBody(result.payload);
        if (good) usage = usageOf(answer.value);
        (good ? outputs : errors).push(answerLine(id, customId, result, answer));
      }
      added.push({ line, good, left: left !== undefined, usage });
    }
    if (added.length === 0) return;
    await this.#journal?.append([...outputs, ...errors]);
    this.#outputs.append(outputs);
    // When this fails, lines of the first file are written and not counted: the batch begins anew from its files.
    this.#errors.append(errors);
    for (const { line, good, left, usage } of added) this.#count(line, good, left, usage);
  }

  close(): void {
    this.#outputs.close();
    this.#errors.close();
  }

  /** Puts lines of the journal into the files; of several answers to one line, the first one. */
  #replay(text: string): void {
    const [outputs, errors]: [string[], string[]] = [[], []];
    for (const each of text.split("\n")) {
      const written = each === "" ? undefined : readWrittenLine(each);
      const line = written && lineOfRequest(written.id, this.#batchId);
      if (line === undefined || this.#done.has(line)) continue;
      (written!.succeeded ? outputs : errors).push(`${each}\n`);
      this.#read(written!);
    }
    this.#outputs.append(outputs);
    this.#errors.append(errors);
  }

  #read({ id, succeeded, code, body }: WrittenLine): void {
    const line = lineOfRequest(id, this.#batchId);
    if (line === undefined || this.#done.has(line)) return;
    this.#count(line, succeeded, code !== null && LEFT.has(code), succeeded ? usageOf(body) : undefined);
  }

  #count(line: number, good: boolean, left: boolean, usage: AnswerUsage | undefined): void {
    this.#done.add(line);
    const counts = this.#counts;
    this.#counts = {
      completed: counts.completed + (good ? 1 : 0),
      failed: counts.failed + (good ? 0 : 1),
      unanswered: counts.unanswered + (left ? 1 : 0),
      inputTokens: counts.inputTokens + (usage?.inputTokens ?? 0),
      cachedTokens: counts.cachedTokens + (usage?.cachedTokens ?? 0),
      outputTokens: counts.outputTokens + (usage?.outputTokens ?? 0),
      reasoningTokens: counts.reasoningTokens + (usage?.reasoningTokens ?? 0),
    };
  }
}

import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BatchFiles, openBatchFiles } from "../../../src/async/batch/batch-files.ts";
import type { BatchRecord } from "../../../src/async/batch/batch-journal.ts";
import type { BatchFigures } from "../../../src/async/batch/batch-progress.ts";
import { BatchRun } from "../../../src/async/batch/batch-run.ts";
import type { QueueClient } from "../../../src/async/brokers/queue-client.ts";
import { Harness, type HarnessOptions } from "../dispatch/harness.cases.ts";
import { memoryClient } from "./memory-client.cases.ts";

export interface RunOptions {
  readonly window?: number;
  readonly skipInvalid?: boolean;
  /** Seconds until what is submitted by this run is too late. */
  readonly deadline?: number;
  /** Changes what the run works with: to let it die somewhere. */
  wrap?(client: QueueClient, files: BatchFiles): QueueClient;
}

/** One run of a batch, from its start to its end. */
export interface StartedRun {
  readonly files: BatchFiles;
  readonly figures: BatchFigures;
  readonly notices: readonly string[];
  readonly abort: AbortController;
  /** Of the run; its files are closed by then. Never rejects. */
  readonly ended: Promise<unknown>;
  readonly state: { over: boolean; error: unknown };
}

/** A dispatcher and a gateway in virtual time, and a folder for the files of a batch. */
export class BatchHarness extends Harness {
  readonly folder = mkdtempSync(join(tmpdir(), "sluice-batch-"));
  readonly inputPath = join(this.folder, "in.jsonl");
  readonly outputPath = join(this.folder, "out.jsonl");

  constructor(options: HarnessOptions = {}) {
    super(options);
    this.gateway.latency = 20;
  }

  write(...lines: readonly (string | object)[]): void {
    writeFileSync(
      this.inputPath,
      lines.map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`).join(""),
    );
  }

  writeLines(count: number): void {
    this.write(...Array.from({ length: count }, (_, at) => batchLine(`c${at + 1}`)));
  }

  /** As a write that a killed machine has left. */
  tear(text: string): void {
    appendFileSync(this.outputPath, text);
  }

  open(skipInvalid = false): Promise<BatchFiles> {
    const { inputPath, outputPath } = this;
    return openBatchFiles({ inputPath, outputPath, skipInvalid, breathe: async () => {} });
  }

  async begin({ window = 7, skipInvalid = false, deadline = 86_400, wrap }: RunOptions = {}): Promise<StartedRun> {
    const files = await this.open(skipInvalid);
    if (files.journal.record === undefined) files.journal.begin(this.#record(files));
    const record = files.journal.record!;
    const plain = memoryClient(this.store);
    const client = wrap?.(plain, files) ?? plain;
    const figures = { total: files.total, done: files.done, failed: files.failed, underWay: 0 };
    const notices: string[] = [];
    const run = new BatchRun({
      ...{ client, files, record, window, figures, clock: this.clock },
      producer: await client.producer(record.queueName, record.resultQueueName),
      common: { metadata: { tenant: "t" } },
      deadline: this.in(deadline),
      notice: (text) => notices.push(text),
    });
    const abort = new AbortController();
    const state = { over: false, error: undefined as unknown };
    const ended = run.run(abort.signal).then(
      () => files.journal.remove(),
      (error: unknown) => {
        state.error = error;
        files.journal.close();
      },
    );
    return {
      ...{ files, figures, notices, abort, state },
      ended: ended.then(() => {
        state.over = true;
        files.input.close();
        files.output.close();
      }),
    };
  }

  /** Lets time pass until the run is over; at first in small steps, so that what it leaves behind is as it left it. */
  async finish(run: StartedRun): Promise<void> {
    for (let step = 0; !run.state.over && step < 4000; step++) await this.run(step < 100 ? 5 : 1000);
    if (!run.state.over) throw new Error(`not over: ${JSON.stringify([run.figures, run.notices])}`);
  }

  /** The answers, by custom id; a second one is an error. */
  answers(): Map<string | null, { readonly id: string; readonly response: unknown; readonly error: unknown }> {
    const lines = readFileSync(this.outputPath, "utf8").split("\n");
    if (lines.pop() !== "") throw new Error("the last line has no end");
    const answers = new Map();
    for (const line of lines) {
      const answer = JSON.parse(line);
      if (answers.has(answer.custom_id)) throw new Error(`two answers for ${answer.custom_id}`);
      answers.set(answer.custom_id, answer);
    }
    return answers;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true });
  }

  #record({ inputSha256 }: BatchFiles): BatchRecord {
    const batch = "0123456789abcdef";
    return { batch, inputSha256, place: "memory", queueName: "q", resultQueueName: `batch-${batch}-results` };
  }
}

export function batchLine(customId: string, over: object = {}): object {
  return { custom_id: customId, method: "POST", url: "/v1/chat/completions", body: { prompt: customId }, ...over };
}

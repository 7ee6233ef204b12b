import { randomBytes } from "node:crypto";
import type { Timer } from "../../base/clock/clock.ts";
import { realClock } from "../../base/clock/real.ts";
import { counted, grouped } from "../../base/document/words.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { interruptible } from "../../base/process/lifecycle.ts";
import { ProgressLine } from "../../base/process/screen.ts";
import { type BatchFiles, openBatchFiles } from "./batch-files.ts";
import type { BatchRecord } from "./batch-journal.ts";
import { type BatchFigures, BatchProgress, durationText } from "./batch-progress.ts";
import { BatchRun } from "./batch-run.ts";
import { deadlineSeconds, type RequestChoices } from "./enqueue.ts";
import { openQueueStore, type QueueStore, type QueueStoreLocation } from "./queue-store.ts";

export interface BatchOptions extends RequestChoices {
  readonly place: QueueStoreLocation;
  readonly queue: string | undefined;
  readonly inputPath: string;
  readonly outputPath: string;
  /** Most requests queued or running at a time. */
  readonly window: number;
  readonly skipInvalid: boolean;
}

/** Milliseconds between two lines of progress: on a terminal, and in a log. */
const WATCHED = 500;
const LOGGED = 5000;

/**
 * Gets an answer for every line of a batch file. Started again with the same files, it goes on where it ended.
 * @returns the exit status: 0 when all lines succeeded, 1 when some ended in errors
 * @throws SluiceError for a problem that stops the batch
 */
export function runBatch(options: BatchOptions): Promise<number> {
  const screen = new ProgressLine(process.stderr);
  return interruptible(
    async (signal) => {
      const deadline = deadlineSeconds(options.deadline);
      let told = realClock.now();
      const files = await openBatchFiles({
        ...options,
        async breathe(what, share) {
          await new Promise<void>((resolve) => realClock.soon(resolve));
          signal.throwIfAborted();
          if (realClock.now() - told < (screen.terminal ? WATCHED : LOGGED)) return;
          told = realClock.now();
          screen.show(`${what}: ${Math.floor(100 * share)} %`);
        },
      });
      try {
        return await withFiles(files, options, deadline, screen, signal);
      } finally {
        screen.clear();
        files.close();
      }
    },
    () => screen.tell("interrupted; to continue, run the same command again"),
  );
}

async function withFiles(
  files: BatchFiles,
  options: BatchOptions,
  deadline: number,
  screen: ProgressLine,
  signal: AbortSignal,
): Promise<number> {
  const figures: BatchFigures = { total: files.total, done: files.done, failed: files.failed, underWay: 0 };
  if (files.done < files.total || files.journal.record !== undefined) {
    const place = await openQueueStore(options.place, true);
    try {
      const record = await recordOf(files, place, options);
      if (files.done > 0 || files.journal.submitted > 0)
        screen.tell(`continuing: ${grouped(files.done)} of ${grouped(files.total)} lines already have an answer`);
      await run(files, place, record, options, deadline, figures, screen, signal);
    } finally {
      place.close();
    }
    files.journal.remove();
  }
  const { total, failed } = figures;
  const outcome = failed === 0 ? "all succeeded" : `${grouped(failed)} ended in errors`;
  screen.tell(`${counted(total, "line")} answered in ${options.outputPath}, ${outcome}`);
  return failed === 0 ? 0 : 1;
}

/** The record that the batch began with, or begins with now. @throws SluiceError BATCH_CHANGED, BATCH_RESULTS, QUEUE_UNKNOWN */
async function recordOf(files: BatchFiles, place: QueueStore, { queue }: BatchOptions): Promise<BatchRecord> {
  const { journal, inputSha256 } = files;
  const begun = journal.record;
  const chosen = await place.requestQueue(queue ?? begun?.queueName);
  if (chosen.resultsFixed)
    throw new SluiceError(
      "BATCH_RESULTS",
      `queue ${chosen.name} sends all its results to ${chosen.resultQueueName} (result_queue_name), but a batch needs its own result queue: name another queue, or remove result_queue_name`,
    );
  if (begun !== undefined) {
    if (begun.queueName === chosen.name && begun.place === place.client.place) return begun;
    throw new SluiceError(
      "BATCH_CHANGED",
      `the batch began in queue ${begun.queueName} of ${begun.place}, not ${chosen.name} of ${place.client.place}, and requests may wait in ${begun.queueName}. Name ${begun.queueName}; or remove ${journal.path} to submit all unanswered requests to ${chosen.name}`,
    );
  }
  const batch = randomBytes(8).toString("hex");
  const record = {
    ...{ batch, inputSha256, place: place.client.place, queueName: chosen.name },
    resultQueueName: `batch-${batch}-results`,
  };
  journal.begin(record);
  return record;
}

async function run(
  files: BatchFiles,
  place: QueueStore,
  record: BatchRecord,
  { metadata, headers, labels, window }: BatchOptions,
  deadline: number,
  figures: BatchFigures,
  screen: ProgressLine,
  signal: AbortSignal,
): Promise<void> {
  const producer = await place.client.producer(record.queueName, record.resultQueueName);
  const progress = new BatchProgress(figures);
  const started = realClock.now();
  let timer: Timer | undefined;
  const show = (): void => {
    screen.show(progress.line(realClock.now() / 1000));
    timer = realClock.after(screen.terminal ? WATCHED : LOGGED, show, true);
  };
  try {
    show();
    const batch = new BatchRun({
      ...{ files, record, deadline, window, figures, producer, client: place.client, clock: realClock },
      common: { metadata, headers, labels },
      notice: (text) => screen.tell(text),
    });
    await batch.run(signal);
    screen.show(`${progress.line(realClock.now() / 1000)}, ${durationText((realClock.now() - started) / 1000)}`);
    screen.keep();
  } finally {
    timer?.cancel();
    await producer.close();
  }
}

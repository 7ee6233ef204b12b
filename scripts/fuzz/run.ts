import { Worker } from "node:worker_threads";
import type { Failure } from "./fuzzer.ts";
import { SharedInput } from "./shared-input.ts";
import type { WorkerReport, WorkerTask } from "./worker.ts";

/** Milliseconds; no input may take as long, however busy the machine is. */
const HANG = 20_000;

/** How a target fared. */
export interface FuzzResult {
  readonly runs: number;
  readonly outcomes: number;
  /** Undefined = nothing was found. */
  readonly failure: Failure | undefined;
}

/**
 * Fuzzes one target in a thread of its own, so that an input that hangs or exhausts the heap is found like one that throws.
 *
 * @param onProgress told every ten seconds
 */
export function fuzz(
  target: string,
  options: { readonly seed: number; readonly milliseconds: number },
  onProgress: (report: WorkerReport) => void,
): Promise<FuzzResult> {
  const shared = new SharedInput();
  const task: WorkerTask = { target, ...options, memory: shared.memory };
  const worker = new Worker(new URL("./worker.ts", import.meta.url), {
    workerData: task,
    resourceLimits: { maxOldGenerationSizeMb: 768 },
  });
  return new Promise((resolve) => {
    let last = { runs: 0, outcomes: 0 };
    let seen = -1;
    const finish = (failure: Failure | undefined): void => {
      clearInterval(watch);
      void worker.terminate();
      resolve({ ...last, failure });
    };
    const watch = setInterval(() => {
      if (shared.shown === seen) finish({ input: shared.current, message: `hangs: no end after ${HANG / 1000} s` });
      seen = shared.shown;
    }, HANG);
    worker.on("message", (report: WorkerReport) => {
      last = report;
      if (!report.over) onProgress(report);
      else if (report.failure === undefined) finish(undefined);
      else finish({ ...report.failure, input: Buffer.from(report.failure.input) });
    });
    worker.on("error", (error) => finish({ input: shared.current, message: `the thread died: ${error}` }));
  });
}

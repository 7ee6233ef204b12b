import { Worker } from "node:worker_threads";
import { type Clock, expireAfter } from "../../base/clock/clock.ts";
import type { Answer, Job, Load, WorkerSettings } from "./worker-messages.ts";

/** Milliseconds that a job may take, with a tokenizer in memory and without. Then the worker counts as hung. */
export const JOB_LIMIT = 10_000;
export const LOAD_LIMIT = 60_000;
/** Milliseconds before a worker that died before its first answer is started again; they double up to the second value. */
const RESTART_AFTER = 1000;
const RESTART_AT_MOST = 30_000;
/** The most MiB of a worker's heap. One that needs more ends, and the process goes on. */
const MAX_HEAP_MB = 2048;

/** A message for a worker, and who gets its answer. */
export interface Work {
  readonly message: Job | Load;
  /** Called once. @param lost why there is no answer: the worker ended, or was ended because it hung */
  done(answer: Answer | undefined, lost: "died" | "hung" | undefined): void;
}

export interface SlotParts {
  readonly clock: Clock;
  readonly settings: WorkerSettings;
  /** The program of the threads. */
  readonly program: URL;
  /** The slot has nothing to do. */
  onFree(slot: WorkerSlot): void;
}

/** The place of one worker thread, which does one thing at a time. A thread that ends or hangs is replaced. */
export class WorkerSlot {
  /** Threads that were replaced. */
  replaced = 0;
  readonly #parts: SlotParts;
  readonly #loaded = new Set<string>();
  #worker: Worker | undefined;
  #work: Work | undefined;
  #timer: { cancel(): void } | undefined;
  #answered = false;
  #restartAfter = RESTART_AFTER;
  #closed = false;

  constructor(parts: SlotParts) {
    this.#parts = parts;
    this.#start();
  }

  get free(): boolean {
    return this.#worker !== undefined && this.#work === undefined;
  }

  /** Gives a free slot something to do. */
  run(work: Work): void {
    this.#work = work;
    const { message } = work;
    const limit = this.#loaded.has(message.path) ? JOB_LIMIT : LOAD_LIMIT;
    this.#timer = expireAfter(this.#parts.clock, limit, () => this.#lose("hung"));
    this.#worker!.postMessage(message, "body" in message ? [message.body.buffer] : []);
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#end();
  }

  #start(): void {
    const { program, settings } = this.#parts;
    this.#answered = false;
    this.#loaded.clear();
    let worker: Worker;
    try {
      worker = new Worker(program, {
        workerData: settings,
        resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
        // The flags of the process may not be allowed in a worker.
        execArgv: [],
      });
    } catch {
      // There is no memory or no thread for it now.
      this.#lose("died");
      return;
    }
    this.#worker = worker;
    worker.unref();
    worker.on("message", (answer: Answer) => this.#answer(worker, answer));
    worker.on("error", () => this.#died(worker));
    worker.on("exit", () => this.#died(worker));
  }

  #answer(worker: Worker, answer: Answer): void {
    const work = this.#work;
    if (worker !== this.#worker || work === undefined || answer.id !== work.message.id) return;
    this.#answered = true;
    this.#restartAfter = RESTART_AFTER;
    if (!("fault" in answer && answer.fault === "file")) this.#loaded.add(work.message.path);
    this.#timer?.cancel();
    this.#work = undefined;
    work.done(answer, undefined);
    this.#parts.onFree(this);
  }

  #died(worker: Worker): void {
    if (worker === this.#worker) this.#lose("died");
  }

  /** Replaces the worker: at once when it has worked before, else after a while. */
  #lose(why: "died" | "hung"): void {
    const wait = this.#answered || why === "hung" ? 0 : this.#restartAfter;
    this.#restartAfter = Math.min(2 * this.#restartAfter, RESTART_AT_MOST);
    const work = this.#work;
    this.#work = undefined;
    this.#end();
    this.replaced++;
    const again = (): void => {
      if (this.#closed) return;
      this.#start();
      this.#parts.onFree(this);
    };
    if (wait === 0) this.#start();
    else this.#timer = this.#parts.clock.after(wait, again);
    work?.done(undefined, why);
    if (wait === 0) this.#parts.onFree(this);
  }

  #end(): void {
    this.#timer?.cancel();
    const worker = this.#worker;
    this.#worker = undefined;
    worker?.removeAllListeners();
    // A worker that is being ended may still report an error.
    worker?.on("error", () => {});
    worker?.terminate().catch(() => {});
  }
}

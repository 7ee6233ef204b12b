import { Worker } from "node:worker_threads";
import type { Clock } from "../../base/clock/clock.ts";
import type { SluiceErrorCode } from "../../base/inference/error-codes/table.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { limitThreads } from "../../base/process/garbage.ts";
import type { ExpositionFormat } from "../../base/telemetry/exposition.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { LoggerOptions } from "../../base/telemetry/logging.ts";
import type { BatchPlace } from "./batch-place.ts";
import type { BatchServiceOptions } from "./batch-service.ts";

/** The program of the thread, beside this file. */
const PROGRAM = new URL(import.meta.url.endsWith(".ts") ? "./batch-worker.ts" : "./batch-worker.js", import.meta.url);
/** Milliseconds before a thread that ended by itself is started again. */
const AGAIN = 5000;
/** Milliseconds that a page of metrics waits for the thread, and the most pages that wait. */
const ASKED = 2000;
const MOST_ASKED = 16;
/** Milliseconds for the last writes of a thread that ends. */
const LAST_MOMENTS = 10_000;

/** What the thread gets at its start. */
export interface ThreadData extends Omit<BatchServiceOptions, "gate"> {
  readonly place: BatchPlace;
  readonly logging: Pick<LoggerOptions, "level" | "encoder">;
  /** The shared array holds the requests that the gateway leaves to batches, the size of the pool, and the time of both. */
  readonly gate: { readonly baseline: number; readonly room: SharedArrayBuffer };
}

/** An error of the thread. */
export interface ThreadProblem {
  readonly code: SluiceErrorCode | undefined;
  readonly message: string;
}

/** What the thread is told. */
export type ThreadOrder =
  | { readonly kind: "wake" }
  | { readonly kind: "metrics"; readonly number: number; readonly format: ExpositionFormat }
  | { readonly kind: "upload"; readonly number: number; readonly id: string; readonly path: string }
  | { readonly kind: "stop"; readonly drainTimeout: number };

/** What the thread tells. */
export type ThreadReport =
  | { readonly kind: "started" }
  | ({ readonly kind: "failed" } & ThreadProblem)
  | { readonly kind: "uploaded"; readonly number: number; readonly problem: ThreadProblem | undefined }
  | { readonly kind: "metrics"; readonly number: number; readonly page: string }
  | { readonly kind: "stopped" };

const ENDED: ThreadProblem = { code: "BATCH_STORE", message: "the batch thread has ended; send the file again" };

/**
 * The work on batches in a thread of its own, so that neither its computing nor its disk holds up the requests of the process. A
 * thread that ends by itself is replaced: all it knew is in the store.
 */
export class BatchThread {
  readonly #data: ThreadData;
  readonly #clock: Clock;
  readonly #log: Logger;
  #worker: Worker | undefined;
  #stopping = false;
  #stopped: (() => void) | undefined;
  #asked = 0;
  readonly #answers = new Map<number, (page: string) => void>();
  readonly #uploads = new Map<number, (problem: ThreadProblem | undefined) => void>();

  private constructor(data: ThreadData, clock: Clock, log: Logger) {
    this.#data = data;
    this.#clock = clock;
    this.#log = log;
  }

  /** Resolves when the thread works. @throws SluiceError of the service */
  static async start(data: ThreadData, clock: Clock, log: Logger): Promise<BatchThread> {
    const thread = new BatchThread(data, clock, log);
    await thread.#begin();
    return thread;
  }

  /** Batches are new or cancelled. */
  wake(): void {
    this.#send({ kind: "wake" });
  }

  /** The metrics of the thread's dispatcher; "" when the thread does not tell them within 2 s. */
  metrics(format: ExpositionFormat): Promise<string> {
    if (this.#worker === undefined || this.#answers.size >= MOST_ASKED) return Promise.resolve("");
    const number = ++this.#asked;
    return new Promise((resolve) => {
      const late = this.#clock.after(ASKED, () => answer(""), true);
      const answer = (page: string): void => {
        late.cancel();
        this.#answers.delete(number);
        resolve(page);
      };
      this.#answers.set(number, answer);
      this.#send({ kind: "metrics", number, format });
    });
  }

  /** Makes an object of a file, as `FileObjects.put` does. @throws SluiceError BATCH_BUCKET, BATCH_STORE */
  upload(id: string, path: string): Promise<void> {
    if (this.#worker === undefined) return Promise.reject(errorOf(ENDED));
    const number = ++this.#asked;
    return new Promise((resolve, reject) => {
      this.#uploads.set(number, (problem) => {
        this.#uploads.delete(number);
        if (problem === undefined) resolve();
        else reject(errorOf(problem));
      });
      this.#send({ kind: "upload", number, id, path });
    });
  }

  /** @param drainTimeout milliseconds for requests under way */
  async stop(drainTimeout: number): Promise<void> {
    this.#stopping = true;
    const worker = this.#worker;
    if (worker === undefined) return;
    await new Promise<void>((resolve) => {
      const late = this.#clock.after(drainTimeout + LAST_MOMENTS, () => {
        this.#log.warn({}, "the batch thread does not end in time, so the process stops the thread");
        resolve();
      });
      this.#stopped = () => {
        late.cancel();
        resolve();
      };
      this.#send({ kind: "stop", drainTimeout });
    });
    await worker.terminate();
  }

  #send(order: ThreadOrder): void {
    this.#worker?.postMessage(order);
  }

  #begin(): Promise<void> {
    return new Promise((resolve, reject) => {
      const worker = new Worker(PROGRAM, {
        workerData: this.#data,
        // The flags of the process may not be allowed in a worker.
        execArgv: [],
        resourceLimits: limitThreads(),
      });
      this.#worker = worker;
      worker.on("message", (report: ThreadReport) => {
        if (report.kind === "started") resolve();
        else if (report.kind === "stopped") this.#stopped?.();
        else if (report.kind === "metrics") this.#answers.get(report.number)?.(report.page);
        else if (report.kind === "uploaded") this.#uploads.get(report.number)?.(report.problem);
        else reject(errorOf(report));
      });
      worker.on("error", (error) => {
        this.#log.error({ error: messageOf(error) }, "the batch thread failed");
        reject(error);
      });
      worker.on("exit", () => {
        this.#worker = undefined;
        this.#stopped?.();
        for (const end of this.#uploads.values()) end(ENDED);
        reject(new SluiceError("BATCH_STORE", "the batch thread ended before it was ready"));
        if (this.#stopping) return;
        this.#log.error({}, `the batch thread ended; Sluice starts a new thread in ${AGAIN / 1000} s`);
        this.#clock.after(AGAIN, () => void this.#begin().catch(() => {}), true);
      });
    });
  }
}

function errorOf({ code = "BATCH_STORE", message }: ThreadProblem): SluiceError {
  return new SluiceError(code, message);
}

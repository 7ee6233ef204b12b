import type { Clock } from "../../base/clock/clock.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { TokenizedPrompt } from "../../base/plugin/keys.ts";
import { LARGE_BYTES, Lanes } from "./lanes.ts";
import type { Answer, Job, WorkerCounts, WorkerSettings } from "./worker-messages.ts";
import { type Work, WorkerSlot } from "./worker-slot.ts";

/** Milliseconds for which a model is left alone whose files cannot be used, or whose tokenizer has cost workers. */
const REST = 60_000;
/** Workers that the tokenizer of a model may cost in a row before the model rests. */
const STRIKES = 2;
/** The most models with a state. */
const MAX_STATES = 256;

/** What is known of a model's tokenizer, by its path. */
interface PathState {
  /** Workers lost in a row. */
  strikes: number;
  /** Monotonic milliseconds up to which the model rests; 0 = it does not. */
  restsUntil: number;
  /** Why it rests. */
  why: string;
}

/** A request that waits for a worker. */
interface Waiting extends Work {
  readonly bytes: number;
  readonly large: boolean;
}

export interface WorkerPoolOptions {
  readonly clock: Clock;
  readonly workers: number;
  readonly settings: WorkerSettings;
  /** The program of the threads; default `worker.ts` beside this file. */
  readonly program?: URL;
}

const WORKER = new URL(import.meta.url.endsWith(".ts") ? "./worker.ts" : "./worker.js", import.meta.url);

/**
 * Worker threads that tokenize. Requests wait in bounded lanes, so that large ones do not hold up small ones. A worker that dies or
 * hangs is replaced, and costs only the request that it had. A model whose tokenizer costs workers rests for a minute, so it does
 * not disturb the other models.
 */
export class WorkerPool {
  readonly #clock: Clock;
  readonly #slots: readonly WorkerSlot[];
  readonly #lanes = new Lanes<Waiting>();
  readonly #paths = new Map<string, PathState>();
  readonly #counts = new Map<WorkerSlot, WorkerCounts>();
  #largeRunning = 0;
  #nextId = 1;
  #closed = false;

  constructor({ clock, workers, settings, program = WORKER }: WorkerPoolOptions) {
    this.#clock = clock;
    const onFree = (slot: WorkerSlot): void => this.#feed(slot);
    this.#slots = Array.from({ length: workers }, () => new WorkerSlot({ clock, settings, program, onFree }));
  }

  /** Loads a tokenizer in every worker. Resolves when the first one has it, or has failed to get it. */
  async load(path: string): Promise<void> {
    const loads = this.#slots.map(
      (slot) =>
        new Promise<void>((resolve) => {
          const work = {
            message: { id: this.#nextId++, path },
            done: this.#noting(slot, path, false, () => resolve()),
          };
          if (slot.free) slot.run(work);
          else resolve();
        }),
    );
    await Promise.race(loads);
  }

  /**
   * @param model its name, for messages
   * @returns undefined for a request without tokens
   * @throws SluiceError TOKENIZER_FILE, TOKENIZER_REQUEST, TOKENIZER_LIMIT, TOKENIZER_FAILED; the signal's reason
   */
  tokens(model: string, job: Omit<Job, "id">, signal: AbortSignal): Promise<TokenizedPrompt | undefined> {
    const { path } = job;
    const state = this.#paths.get(path);
    if (state !== undefined && state.restsUntil > this.#clock.now())
      return Promise.reject(
        new SluiceError("TOKENIZER_FILE", `the tokenizer of ${model} is not used for one minute: ${state.why}`),
      );
    return new Promise((resolve, reject) => {
      const bytes = job.body.length;
      const waiting: Waiting = {
        bytes,
        large: bytes > LARGE_BYTES,
        message: { ...job, id: this.#nextId++ },
        done: (answer, lost) => {
          signal.removeEventListener("abort", abandon);
          if (answer === undefined)
            reject(new SluiceError("TOKENIZER_FAILED", `the tokenizer of ${model} ${LOST[lost!]}`));
          else if ("fault" in answer) reject(faultOf(model, answer));
          else resolve("tokens" in answer ? tokensOf(answer) : undefined);
        },
      };
      // A request that a worker has already goes on there: its beginning is then remembered.
      const abandon = (): void => {
        this.#lanes.remove(waiting);
        reject(signal.reason);
      };
      if (signal.aborted || this.#closed)
        return reject(signal.reason ?? new SluiceError("TOKENIZER_FAILED", "it is closed"));
      if (!this.#lanes.add(waiting))
        return reject(new SluiceError("TOKENIZER_LIMIT", "too many prompts wait for a tokenizer"));
      signal.addEventListener("abort", abandon, { once: true });
      for (const slot of this.#slots) if (slot.free) this.#feed(slot);
    });
  }

  close(): void {
    this.#closed = true;
    for (const slot of this.#slots) slot.close();
  }

  state() {
    const counts = [...this.#counts.values()];
    const sum = (of: (one: WorkerCounts) => number): number => counts.reduce((total, one) => total + of(one), 0);
    return {
      workers: this.#slots.length,
      busy: this.#slots.filter(({ free }) => !free).length,
      replaced: this.#slots.reduce((total, { replaced }) => total + replaced, 0),
      waiting: this.#lanes.waiting,
      cache: {
        hits: sum(({ hits }) => hits),
        misses: sum(({ misses }) => misses),
        bytes: sum((one) => one.cacheBytes),
      },
      resting: [...this.#paths]
        .filter(([, { restsUntil }]) => restsUntil > this.#clock.now())
        .map(([path, { why }]) => ({ path, why })),
    };
  }

  #feed(slot: WorkerSlot): void {
    if (!slot.free || this.#closed) return;
    const waiting = this.#lanes.take(this.#largeRunning, this.#slots.length);
    if (waiting === undefined) return;
    if (waiting.large) this.#largeRunning++;
    const { message } = waiting;
    const done = this.#noting(slot, message.path, waiting.large, (answer, lost) => {
      if (waiting.large) this.#largeRunning--;
      waiting.done(answer, lost);
      // The end of a large one may let another one go to a worker that was kept free.
      if (waiting.large) for (const other of this.#slots) this.#feed(other);
    });
    slot.run({ message, done });
  }

  /** Keeps what an answer tells about the worker and the model. */
  #noting(slot: WorkerSlot, path: string, large: boolean, then: Work["done"]): Work["done"] {
    return (answer, lost) => {
      if (answer !== undefined) this.#counts.set(slot, answer.counts);
      else this.#counts.delete(slot);
      if (answer === undefined) {
        // A large prompt may take too long because of its length: that tells nothing of the model.
        if (lost === "died" || !large) this.#strike(path, `it made a worker ${lost === "hung" ? "hang" : "end"}`);
      } else if ("fault" in answer && answer.fault === "file") this.#rest(path, answer.message);
      else this.#paths.delete(path);
      then(answer, lost);
    };
  }

  #strike(path: string, why: string): void {
    const strikes = (this.#paths.get(path)?.strikes ?? 0) + 1;
    if (strikes >= STRIKES) this.#rest(path, why);
    this.#remember(path, { strikes, restsUntil: this.#paths.get(path)?.restsUntil ?? 0, why });
  }

  #rest(path: string, why: string): void {
    const strikes = this.#paths.get(path)?.strikes ?? 0;
    this.#remember(path, { strikes, restsUntil: this.#clock.now() + REST, why });
  }

  #remember(path: string, state: PathState): void {
    this.#paths.delete(path);
    this.#paths.set(path, state);
    for (const oldest of this.#paths.keys()) {
      if (this.#paths.size <= MAX_STATES) return;
      this.#paths.delete(oldest);
    }
  }
}

const LOST = { died: "made its worker end", hung: "took too long, so its worker was replaced" } as const;

function faultOf(
  model: string,
  { fault, message }: Answer & { readonly fault: string; readonly message: string },
): SluiceError {
  if (fault === "file")
    return new SluiceError("TOKENIZER_FILE", `the tokenizer of ${model} cannot be used: ${message}`);
  return new SluiceError("TOKENIZER_REQUEST", `no tokens for a request to ${model}: ${message}`);
}

function tokensOf({ tokens, prompts, count }: Extract<Answer, { readonly count: number }>): TokenizedPrompt {
  return { tokens, prompts, count };
}

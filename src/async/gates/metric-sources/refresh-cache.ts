import type { Clock } from "../../../base/clock/clock.ts";
import { SluiceError } from "../../../base/inference/errors.ts";

/**
 * Runs `task` for at most `limit` milliseconds, and no longer than until `signal` is aborted. The limit holds for the caller
 * even when a task ignores its signal.
 * @throws SluiceError METRIC_SOURCE when the time is up; the reason of `signal`; the errors of the task
 */
export function withDeadline<T>(
  clock: Clock,
  limit: number,
  signal: AbortSignal,
  task: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const own = new AbortController();
    const giveUp = (reason: unknown): void => {
      done();
      reject(reason);
      own.abort(reason);
    };
    const timer = clock.after(limit, () => giveUp(new SluiceError("METRIC_SOURCE", `no answer within ${limit} ms`)));
    const onAbort = (): void => giveUp(signal.reason);
    const done = (): void => {
      timer.cancel();
      signal.removeEventListener("abort", onAbort);
    };
    signal.addEventListener("abort", onAbort);
    task(own.signal).then(
      (value) => {
        done();
        resolve(value);
      },
      (error: unknown) => {
        done();
        reject(error);
      },
    );
  });
}

/**
 * Milliseconds for which an old value is still served after its end, while another caller waits for a new one. Longer than a
 * question to Prometheus may take, so that a server that hangs delays one caller and not all of them.
 */
const SERVED_WHILE_ASKING = 5000;

interface RefreshCacheOptions<T> {
  readonly clock: Clock;
  /** Milliseconds from the start of a question for which its answer is served again; 0 = never. */
  readonly ttl: number;
  /** Milliseconds that a question may take. */
  readonly limit: number;
  ask(signal: AbortSignal): Promise<T>;
  /** Makes an answer of a failure; it is kept like any other answer. */
  failed(error: unknown): T;
}

interface Answer<T> {
  readonly value: T;
  readonly startedAt: number;
}

/**
 * Keeps the latest answer to one question, and never asks twice at a time (async-processor 3.7, cache). Time counts from the
 * start of the question, and failures are kept, too. With a time of 0, callers still share the question that is under way. A
 * caller that finds the answer too old asks and waits; callers that come meanwhile get the old answer.
 */
export class RefreshCache<T> {
  readonly #options: RefreshCacheOptions<T>;
  readonly #closed = new AbortController();
  #last: Answer<T> | undefined;
  #asking: Promise<T> | undefined;

  constructor(options: RefreshCacheOptions<T>) {
    this.#options = options;
  }

  /** The answer that needs no question; undefined when there is none, or it is too old. */
  get kept(): T | undefined {
    return this.#within(this.#options.ttl);
  }

  /** Never rejects: a failure is an answer. @param fresh true ignores the kept answer, but not a question that is under way */
  async read(fresh: boolean): Promise<T> {
    const { ttl } = this.#options;
    if (!fresh) {
      const known = this.kept;
      if (known !== undefined) return known;
      if (this.#asking !== undefined && ttl > 0) {
        const old = this.#within(ttl + SERVED_WHILE_ASKING);
        if (old !== undefined) return old;
      }
    }
    this.#asking ??= this.#ask();
    return this.#asking;
  }

  /** Ends a question that is under way; later questions fail. */
  close(): void {
    this.#closed.abort(new SluiceError("METRIC_SOURCE", "closed"));
    this.#last = undefined;
  }

  #within(age: number): T | undefined {
    const last = this.#last;
    return last !== undefined && this.#options.clock.now() - last.startedAt < age ? last.value : undefined;
  }

  async #ask(): Promise<T> {
    const { clock, limit, ask, failed } = this.#options;
    const startedAt = clock.now();
    let value: T;
    try {
      value = await withDeadline(clock, limit, this.#closed.signal, ask);
    } catch (error) {
      value = failed(error);
    }
    this.#asking = undefined;
    this.#last = { value, startedAt };
    return value;
  }
}

/** Waits for `answer` until `signal` is aborted at the latest; other callers that wait for it are not affected. */
export function whileWanted<T>(answer: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    void answer.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

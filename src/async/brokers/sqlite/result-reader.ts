import type { Timer } from "../../../base/clock/clock.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import type { ResultMessage } from "../messages/message.ts";
import { parseResult } from "../messages/result.ts";
import { type Doorbell, resultBell } from "./doorbell.ts";
import { isBusy, type QueueFile, type SqliteDeps } from "./queue-file.ts";
import type { QueueTables } from "./tables.ts";

/** Results that one transaction takes at most. */
const BATCH = 512;
/** Milliseconds between looks while somebody waits and nobody rings. */
const POLL = 1000;
/** Milliseconds until the next look when another process holds the lock. */
const PAUSE = 2;

/** Somebody who waits for a result. */
interface Waiter {
  resolve(result: ResultMessage): void;
  reject(error: unknown): void;
}

/** Takes results out of a queue for those who wait; none is taken that nobody waits for. */
export class ResultReader {
  readonly #file: QueueFile;
  readonly #tables: QueueTables;
  readonly #queueName: string;
  readonly #deps: SqliteDeps;
  readonly #bell: Doorbell;
  /** In the order they asked. */
  readonly #waiters = new Set<Waiter>();
  #listening = false;
  #looking = false;
  #polling: Timer | undefined;

  constructor(file: QueueFile, tables: QueueTables, queueName: string, deps: SqliteDeps) {
    this.#file = file;
    this.#tables = tables;
    this.#queueName = queueName;
    this.#deps = deps;
    this.#bell = resultBell(file.path, deps);
  }

  /** @throws SluiceError RESULT_INVALID, BROKER_UNAVAILABLE, QUEUE_FILE_CORRUPT; the signal's reason */
  next(signal?: AbortSignal): Promise<ResultMessage> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const end = (): void => {
        this.#waiters.delete(waiter);
        signal?.removeEventListener("abort", onAbort);
        if (this.#waiters.size === 0) this.#stopPolling();
      };
      const waiter: Waiter = {
        resolve(result) {
          end();
          resolve(result);
        },
        reject(error) {
          end();
          reject(error);
        },
      };
      const onAbort = (): void => waiter.reject(signal?.reason);
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#waiters.add(waiter);
      // Before the first look, so that nothing is written between the look and the watch.
      if (!this.#listening) this.#bell.listen(() => this.#look());
      this.#listening = true;
      this.#look();
    });
  }

  close(): void {
    this.#bell.close();
    this.#rejectAll(new SluiceError("BROKER_UNAVAILABLE", "the producer was closed"));
  }

  /** Callers and rings of one turn share one look, and one transaction. */
  #look(): void {
    if (this.#looking || this.#waiters.size === 0) return;
    this.#looking = true;
    this.#deps.clock.soon(() => {
      this.#looking = false;
      this.#hand();
    });
  }

  #hand(): void {
    let texts: readonly string[] = [];
    let pause = POLL;
    try {
      texts = this.#take();
    } catch (error) {
      pause = PAUSE;
      if (!isBusy(error)) this.#rejectAll(error);
    }
    const waiters = [...this.#waiters].slice(0, texts.length);
    for (const [at, waiter] of waiters.entries()) {
      try {
        waiter.resolve(parseResult(texts[at]!));
      } catch (error) {
        waiter.reject(error);
      }
    }
    if (texts.length > 0) this.#look();
    else if (this.#waiters.size > 0) this.#poll(pause);
  }

  #take(): readonly string[] {
    const wanted = Math.min(this.#waiters.size, BATCH);
    if (wanted === 0 || !this.#file.read(() => this.#tables.hasResults(this.#queueName))) return [];
    return this.#file.writeNow(() => this.#tables.takeResults(this.#queueName, wanted));
  }

  #rejectAll(error: unknown): void {
    for (const waiter of [...this.#waiters]) waiter.reject(error);
  }

  #poll(ms: number): void {
    this.#stopPolling();
    this.#polling = this.#deps.clock.after(ms, () => {
      this.#bell.renew();
      this.#look();
    });
  }

  #stopPolling(): void {
    this.#polling?.cancel();
    this.#polling = undefined;
  }
}

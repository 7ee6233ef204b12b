import type { Timer } from "../../../base/clock/clock.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import { ResultWaiters } from "../result-waiters.ts";
import { isBusy, type QueueFile, type SqliteDeps } from "./queue-file.ts";
import type { QueueTables } from "./tables.ts";
import { resultSignal, type WakeupSignal } from "./wakeup-signal.ts";

/** Most results that one transaction takes. */
const BATCH = 512;
/** Milliseconds between polls while a caller waits and no ring comes. */
const POLL = 1000;
/** Milliseconds until the next poll when another process holds the lock. */
const PAUSE = 2;

/** Takes results out of a queue for waiting callers, and none without a waiting caller. */
export class TableResultReader {
  readonly #file: QueueFile;
  readonly #tables: QueueTables;
  readonly #queueName: string;
  readonly #deps: SqliteDeps;
  readonly #signal: WakeupSignal;
  readonly #waiters = new ResultWaiters(() => this.#stopPolling());
  #listening = false;
  #looking = false;
  #polling: Timer | undefined;

  constructor(file: QueueFile, tables: QueueTables, queueName: string, deps: SqliteDeps) {
    this.#file = file;
    this.#tables = tables;
    this.#queueName = queueName;
    this.#deps = deps;
    this.#signal = resultSignal(file.path, deps);
  }

  /** The next result as the file has it. @throws SluiceError BROKER_UNAVAILABLE, QUEUE_FILE_CORRUPT; the signal's reason */
  next(signal?: AbortSignal): Promise<string> {
    const result = this.#waiters.next(signal);
    if (this.#waiters.size === 0) return result;
    // Before the first poll, so that no write falls between the poll and the watch.
    if (!this.#listening) this.#signal.listen(() => this.#look());
    this.#listening = true;
    this.#look();
    return result;
  }

  close(): void {
    this.#signal.close();
    this.#stopPolling();
    this.#waiters.rejectAll(new SluiceError("BROKER_UNAVAILABLE", "the producer was closed"));
  }

  /** Callers and rings of one turn share one poll, and one transaction. */
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
      if (!isBusy(error)) this.#waiters.rejectAll(error);
    }
    for (const text of texts) this.#waiters.give(text);
    if (this.#waiters.size === 0) this.#stopPolling();
    else if (texts.length > 0) this.#look();
    else this.#poll(pause);
  }

  #take(): readonly string[] {
    const wanted = Math.min(this.#waiters.size, BATCH);
    if (wanted === 0 || !this.#file.read(() => this.#tables.hasResults(this.#queueName))) return [];
    return this.#file.writeNow(() => this.#tables.takeResults(this.#queueName, wanted));
  }

  #poll(ms: number): void {
    this.#stopPolling();
    this.#polling = this.#deps.clock.after(ms, () => {
      this.#signal.renew();
      this.#look();
    });
  }

  #stopPolling(): void {
    this.#polling?.cancel();
    this.#polling = undefined;
  }
}

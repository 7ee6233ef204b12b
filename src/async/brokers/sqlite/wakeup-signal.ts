import { type FSWatcher, utimesSync, watch, writeFileSync } from "node:fs";
import type { Clock } from "../../../base/clock/clock.ts";
import { messageOf } from "../../../base/inference/errors.ts";
import type { Logger } from "../../../base/telemetry/logger.ts";
import type { SqliteDeps } from "./queue-file.ts";

/**
 * Wakes up other processes with an empty file beside the queue file: a writer sets the time of this file, and waiting processes
 * watch it. Watching the database itself would wake a process up for its own writes too. Opening the database a second time
 * drops the locks that SQLite holds on it (POSIX locks belong to the process). The signal is a hint: a listener must also poll.
 */
export class WakeupSignal {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #log: Logger;
  #watcher: FSWatcher | undefined;
  #listener: (() => void) | undefined;
  #toldUnwatchable = false;

  constructor(path: string, clock: Clock, log: Logger) {
    this.#path = path;
    this.#clock = clock;
    this.#log = log;
  }

  send(): void {
    const seconds = this.#clock.wall() / 1000;
    try {
      utimesSync(this.#path, seconds, seconds);
    } catch {
      // The file does not exist yet, or was removed. Making it also rings, for the processes that watch it.
      this.#make();
    }
  }

  /** Calls `listener` when another process rings; the watch alone keeps no process alive. One listener at a time. */
  listen(listener: () => void): void {
    this.#listener = listener;
    this.#watch();
  }

  /** Begins to watch where that was not possible before. */
  renew(): void {
    if (this.#listener !== undefined && this.#watcher === undefined) this.#watch();
  }

  close(): void {
    this.#listener = undefined;
    this.#unwatch();
  }

  #watch(): void {
    this.#unwatch();
    this.#make();
    try {
      this.#watcher = watch(this.#path, { persistent: false }, (event) => {
        // The file was removed or replaced: this watch will stay silent.
        if (event === "rename") this.#unwatch();
        this.#listener?.();
      });
      this.#watcher.on("error", (error) => this.#lost(error));
    } catch (error) {
      this.#lost(error);
    }
  }

  #unwatch(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #make(): void {
    try {
      writeFileSync(this.#path, "", { flag: "a" });
    } catch {
      // A waiting process also polls after the poll interval.
    }
  }

  #lost(error: unknown): void {
    this.#unwatch();
    if (this.#toldUnwatchable) return;
    this.#toldUnwatchable = true;
    this.#log.warn(
      { path: this.#path, error: messageOf(error) },
      "queue file cannot be watched: Sluice finds new entries only at the next poll",
    );
  }
}

/** Rung when the queues may hold messages that they did not hold before. */
export function requestSignal(path: string, { clock, log }: SqliteDeps): WakeupSignal {
  return new WakeupSignal(`${path}-requests`, clock, log);
}

/** Rung when a result was written. */
export function resultSignal(path: string, { clock, log }: SqliteDeps): WakeupSignal {
  return new WakeupSignal(`${path}-results`, clock, log);
}

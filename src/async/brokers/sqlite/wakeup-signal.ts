import { type FSWatcher, utimesSync, watch, writeFileSync } from "node:fs";
import type { Clock } from "../../../base/clock/clock.ts";
import { messageOf } from "../../../base/inference/errors.ts";
import type { Logger } from "../../../base/telemetry/logger.ts";
import type { SqliteDeps } from "./queue-file.ts";

/**
 * Wakes other processes up: an empty file beside the queue file whose time is set by whoever has written something, and
 * watched by those who wait. Watching the database itself would wake a process up for its own writes too, and opening it a
 * second time drops the locks that SQLite holds on it (POSIX locks belong to the process). It is a hint: whoever listens
 * must look now and then anyway.
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
      // Not there yet, or removed: making it rings as well, for those who watch it.
      this.#make();
    }
  }

  /** Calls `listener` when somebody rings; the watch alone keeps no process alive. One listener at a time. */
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
      // Whoever waits looks by itself after the poll interval.
    }
  }

  #lost(error: unknown): void {
    this.#unwatch();
    if (this.#toldUnwatchable) return;
    this.#toldUnwatchable = true;
    this.#log.warn(
      { path: this.#path, error: messageOf(error) },
      "queue file cannot be watched: new entries are found after the poll interval",
    );
  }
}

/** Rung when something can be claimed that was not there before. */
export function requestSignal(path: string, { clock, log }: SqliteDeps): WakeupSignal {
  return new WakeupSignal(`${path}-requests`, clock, log);
}

/** Rung when a result was written. */
export function resultSignal(path: string, { clock, log }: SqliteDeps): WakeupSignal {
  return new WakeupSignal(`${path}-results`, clock, log);
}

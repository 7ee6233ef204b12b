import { type FSWatcher, watch } from "node:fs";
import type { Clock, Timer } from "../clock/clock.ts";

export interface FolderSignsOptions {
  readonly folder: string;
  readonly clock: Clock;
  /** Milliseconds from the first event to the check of the folder: one save is several events. */
  readonly settle: number;
  /** Milliseconds between two checks where no event arrives: network file systems, a replaced folder, targets of symlinks. */
  readonly every: number;
  /** Checks the folder. Must not fail. */
  check(): void;
  /** Called once when the folder cannot be watched; the checks without events go on. */
  unwatchable(error: unknown): void;
}

/**
 * Calls for a check of a folder soon after any event in it, and from time to time without one. Every file name counts: so a file
 * that a rename replaces and the symlinks of a mounted ConfigMap count like a file written in place. Its timers keep no process alive.
 */
export class FolderSigns {
  readonly #options: FolderSignsOptions;
  #watcher: FSWatcher | undefined;
  #saidUnwatchable = false;
  #settling: Timer | undefined;
  #waiting: Timer | undefined;
  #closed = false;

  /** Begins to watch. */
  constructor(options: FolderSignsOptions) {
    this.#options = options;
    this.#attach();
    this.#wait();
  }

  /** Calls for a check, as an event does. */
  sign(): void {
    if (this.#closed || this.#settling !== undefined) return;
    const { clock, settle, check } = this.#options;
    this.#settling = clock.after(
      settle,
      () => {
        this.#settling = undefined;
        check();
      },
      true,
    );
  }

  close(): void {
    this.#closed = true;
    this.#detach();
    this.#settling?.cancel();
    this.#waiting?.cancel();
  }

  #attach(): void {
    const lost = (error: unknown): void => {
      this.#detach();
      if (this.#saidUnwatchable) return;
      this.#saidUnwatchable = true;
      this.#options.unwatchable(error);
    };
    try {
      this.#watcher = watch(this.#options.folder, { persistent: false }, () => this.sign());
      this.#watcher.on("error", lost);
    } catch (error) {
      lost(error);
    }
  }

  #detach(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #wait(): void {
    this.#waiting = this.#options.clock.after(
      this.#options.every,
      () => {
        // Renewed at every check: the watch of a folder that was removed and created again stays silent for ever.
        this.#detach();
        this.#attach();
        this.#options.check();
        this.#wait();
      },
      true,
    );
  }
}

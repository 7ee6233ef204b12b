import { type FSWatcher, watch } from "node:fs";
import { stat } from "node:fs/promises";
import type { Clock, Timer } from "../clock/clock.ts";
import { messageOf } from "../inference/errors.ts";

/** Milliseconds from the first sign of a change to the check of the folder: one save is several events. */
const SETTLE = 100;
/** Milliseconds between two checks where no event arrives: network file systems, a replaced folder, targets of symlinks. */
const LOOK_AGAIN = 5000;

export interface FolderWatchOptions {
  readonly folder: string;
  readonly clock: Clock;
  /** The signature of the folder: a text that differs after any change. Must not fail. */
  signature(): Promise<string>;
  /** Called after a change, one call at a time. Must not fail. */
  changed(): Promise<void>;
  /** Called once when the folder cannot be watched. The watch then checks the folder every 5 s. */
  unwatchable(text: string): void;
}

/**
 * Follows a folder. Every event in the folder counts, for any file name. So a file that a rename replaces and the symlinks of a
 * mounted ConfigMap count like a file written in place. The signature then decides whether the folder has changed.
 */
export class FolderWatch {
  readonly #options: FolderWatchOptions;
  #watcher: FSWatcher | undefined;
  #toldUnwatchable = false;
  #settling: Timer | undefined;
  #looking: Timer | undefined;
  #running = false;
  #again = false;
  #closed = false;
  #seen = "";

  constructor(options: FolderWatchOptions) {
    this.#options = options;
  }

  /** Begins to follow. @param seen the signature of the last read of the folder; the watch reports a change since then */
  async start(seen: string): Promise<void> {
    if (this.#closed) return;
    this.#seen = seen;
    this.#attach();
    this.#lookAgain();
    if ((await this.#options.signature()) !== this.#seen) this.#sign();
  }

  close(): void {
    this.#closed = true;
    this.#watcher?.close();
    this.#watcher = undefined;
    this.#settling?.cancel();
    this.#looking?.cancel();
  }

  #attach(): void {
    const lost = (error: unknown): void => {
      this.#watcher?.close();
      this.#watcher = undefined;
      if (this.#toldUnwatchable) return;
      this.#toldUnwatchable = true;
      const every = `checking every ${LOOK_AGAIN / 1000} s instead`;
      this.#options.unwatchable(`cannot watch ${this.#options.folder}, ${every}: ${messageOf(error)}`);
    };
    try {
      this.#watcher = watch(this.#options.folder, { persistent: false }, () => this.#sign());
      this.#watcher.on("error", lost);
    } catch (error) {
      lost(error);
    }
  }

  /** A sign of a change. */
  #sign(): void {
    if (this.#closed || this.#settling !== undefined) return;
    this.#settling = this.#options.clock.after(
      SETTLE,
      () => {
        this.#settling = undefined;
        void this.#look();
      },
      true,
    );
  }

  /** One check at a time, so that changes are reported in their order. */
  async #look(): Promise<void> {
    this.#again = true;
    if (this.#running) return;
    this.#running = true;
    while (this.#again && !this.#closed) {
      this.#again = false;
      const signature = await this.#options.signature();
      if (this.#closed || signature === this.#seen) continue;
      this.#seen = signature;
      await this.#options.changed();
    }
    this.#running = false;
  }

  #lookAgain(): void {
    this.#looking = this.#options.clock.after(
      LOOK_AGAIN,
      () => {
        // Renewed at every check: the watch of a folder that was removed and created again stays silent for ever.
        this.#watcher?.close();
        this.#watcher = undefined;
        this.#attach();
        void this.#look();
        this.#lookAgain();
      },
      true,
    );
  }
}

/**
 * The signature of a file: device, inode, size, times; "" when the file cannot be found. Any change of the content changes it.
 */
export async function fileSignature(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;
  } catch {
    return "";
  }
}

import { stat } from "node:fs/promises";
import type { Clock } from "../clock/clock.ts";
import { messageOf } from "../inference/errors.ts";
import { FolderSigns } from "./folder-signs.ts";

/** Milliseconds from the first event to the check of the folder. */
const SETTLE = 100;
/** Milliseconds between two checks where no event arrives. */
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

/** Follows a folder. After any event in it, the signature decides whether the folder has changed. */
export class FolderWatch {
  readonly #options: FolderWatchOptions;
  #signs: FolderSigns | undefined;
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
    const { folder, clock, signature, unwatchable } = this.#options;
    this.#seen = seen;
    const signs = new FolderSigns({
      ...{ folder, clock, settle: SETTLE, every: LOOK_AGAIN },
      check: () => void this.#look(),
      unwatchable: (error) =>
        unwatchable(`cannot watch ${folder}, checking every ${LOOK_AGAIN / 1000} s instead: ${messageOf(error)}`),
    });
    this.#signs = signs;
    if ((await signature()) !== this.#seen) signs.sign();
  }

  close(): void {
    this.#closed = true;
    this.#signs?.close();
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

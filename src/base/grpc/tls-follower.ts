import type { Clock } from "../clock/clock.ts";
import { FolderSigns } from "../document/folder-signs.ts";
import { messageOf } from "../inference/errors.ts";
import type { Logger } from "../telemetry/logger.ts";

/** Milliseconds from the first event to reading the files: one renewal is several events (epp-protocol 15.2). */
const SETTLE = 250;
/** Milliseconds between two checks of the files where no event arrives. */
const LOOK_AGAIN = 60_000;

/** The followed files, as the log names them. */
export const FOLLOWED = {
  pair: {
    name: "certificate",
    again: "the files contain the certificate in use again",
    used: "new connections get the new certificate",
    kept: "the new certificate or key cannot be used; the old certificate stays in use",
  },
  clientCa: {
    name: "client authorities",
    again: "the file contains the authorities in use again",
    used: "the new authorities apply to new connections",
    kept: "the new authorities cannot be used; the old ones stay in use",
  },
  servers: {
    name: "TLS of the model servers",
    again: "the files contain the content in use again",
    used: "new connections use the new files",
    kept: "the new files cannot be used; the old ones stay in use",
  },
} as const;

export interface TlsFollowerOptions<T> {
  readonly what: (typeof FOLLOWED)[keyof typeof FOLLOWED];
  /** The directory of the files. */
  readonly directory: string;
  /** Reads the files; throws when their content is not valid. */
  readonly load: () => T;
  /** The value in use. */
  readonly inUse: T;
  /** Puts another value in use; may throw. */
  readonly use: (loaded: T) => void;
  readonly clock: Clock;
  readonly log: Logger;
  /** The level of the line about files that are not usable; default `warn`. */
  readonly level?: "warn" | "error";
}

/**
 * Follows PEM files in a directory: a pair, or authorities. It watches the directory and not the files, because a mounted
 * secret changes when a symlink beside them is renamed. When the files are broken or half written, the old value stays in use,
 * and the log gets one line.
 */
export class TlsFollower<T> {
  readonly #options: TlsFollowerOptions<T>;
  /** The value in use, as a text for comparison. */
  #inUse: string;
  readonly #signs: FolderSigns;
  /** The present fault of the files, as the log has it. */
  #told = "";

  /** Begins to follow. */
  constructor(options: TlsFollowerOptions<T>) {
    this.#options = options;
    this.#inUse = JSON.stringify(options.inUse);
    const { directory, clock, log, what } = options;
    this.#signs = new FolderSigns({
      ...{ folder: directory, clock, settle: SETTLE, every: LOOK_AGAIN },
      check: () => this.#reload(),
      unwatchable: (error) =>
        log.warn(
          { directory, cause: messageOf(error) },
          `${what.name}: the directory cannot be watched; checking it every ${LOOK_AGAIN / 1000} s instead`,
        ),
    });
  }

  close(): void {
    this.#signs.close();
  }

  #reload(): void {
    const { directory, log, use, load, what, level = "warn" } = this.#options;
    try {
      const loaded = load();
      const text = JSON.stringify(loaded);
      const problemGone = this.#told !== "";
      this.#told = "";
      if (text === this.#inUse) {
        if (problemGone) log.info({ directory }, `${what.name}: ${what.again}`);
        return;
      }
      use(loaded);
      this.#inUse = text;
      log.info({ directory }, `${what.name}: ${what.used}`);
    } catch (error) {
      const problem = messageOf(error);
      if (problem === this.#told) return;
      this.#told = problem;
      log[level]({ directory, cause: problem }, `${what.name}: ${what.kept}`);
    }
  }
}

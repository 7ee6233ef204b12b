import { type FSWatcher, watch } from "node:fs";
import type { Clock, Timer } from "../clock/clock.ts";
import { messageOf } from "../inference/errors.ts";
import type { Logger } from "../telemetry/logger.ts";

/** Milliseconds from the first sign of a change to reading the files: one renewal is several events (epp-protocol 15.2). */
const SETTLE = 250;
/** Milliseconds between looks at the files where no event comes: network file systems, a directory that was replaced. */
const LOOK_AGAIN = 60_000;

/** What is followed, as the log says it. */
export const FOLLOWED = {
  pair: {
    name: "certificate",
    again: "the files hold the pair in use again",
    used: "new connections are shown the new one",
    kept: "the new pair is not usable, the old one stays in use",
  },
  clientCa: {
    name: "client authorities",
    again: "the file holds those in use again",
    used: "new connections are judged by the new ones",
    kept: "the new ones are not usable, the old ones stay in use",
  },
} as const;

export interface TlsFollowerOptions<T> {
  readonly what: (typeof FOLLOWED)[keyof typeof FOLLOWED];
  /** Where the files are. */
  readonly directory: string;
  /** Reads them; throws when they do not hold what they should. */
  readonly load: () => T;
  /** What is in use. */
  readonly inUse: T;
  /** Puts something else in use; may throw. */
  readonly use: (loaded: T) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Follows PEM files in a directory: a pair, or authorities. It watches the directory and not the files, because a mounted secret
 * changes by the renaming of a symlink beside them. What is broken, or half written, leaves the old in use and is told once.
 */
export class TlsFollower<T> {
  readonly #options: TlsFollowerOptions<T>;
  /** What is in use, as a text to compare with. */
  #inUse: string;
  #watcher: FSWatcher | undefined;
  #settling: Timer | undefined;
  #looking: Timer | undefined;
  /** What is wrong with the files at present, as it was told. */
  #told = "";
  #closed = false;

  /** Begins to follow. */
  constructor(options: TlsFollowerOptions<T>) {
    this.#options = options;
    this.#inUse = JSON.stringify(options.inUse);
    this.#watch();
    this.#look();
  }

  close(): void {
    this.#closed = true;
    this.#watcher?.close();
    this.#watcher = undefined;
    this.#settling?.cancel();
    this.#looking?.cancel();
  }

  #watch(): void {
    const { directory, log, what } = this.#options;
    const lost = (error: unknown): void => {
      this.#watcher?.close();
      this.#watcher = undefined;
      log.warn(
        { directory, cause: messageOf(error) },
        `${what.name}: the directory cannot be watched, it is looked at every ${LOOK_AGAIN / 1000} s instead`,
      );
    };
    try {
      this.#watcher = watch(directory, { persistent: false }, () => this.#changed());
      this.#watcher.on("error", lost);
    } catch (error) {
      lost(error);
    }
  }

  #look(): void {
    this.#looking = this.#options.clock.after(
      LOOK_AGAIN,
      () => {
        this.#reload();
        this.#look();
      },
      true,
    );
  }

  #changed(): void {
    if (this.#closed || this.#settling !== undefined) return;
    this.#settling = this.#options.clock.after(
      SETTLE,
      () => {
        this.#settling = undefined;
        this.#reload();
      },
      true,
    );
  }

  #reload(): void {
    const { directory, log, use, load, what } = this.#options;
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
      log.warn({ directory, cause: problem }, `${what.name}: ${what.kept}`);
    }
  }
}

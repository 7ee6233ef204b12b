import { type FSWatcher, watch } from "node:fs";
import type { Clock, Timer } from "../clock/clock.ts";
import { messageOf } from "../inference/errors.ts";
import type { Logger } from "../telemetry/logger.ts";
import { loadTlsPair, type TlsPair } from "./tls.ts";

/** Milliseconds from the first sign of a change to reading the files: one renewal is several events (epp-protocol 15.2). */
const SETTLE = 250;
/** Milliseconds between looks at the files where no event comes: network file systems, a directory that was replaced. */
const LOOK_AGAIN = 60_000;

export interface TlsFollowerOptions {
  readonly directory: string;
  /** The pair in use. */
  readonly pair: TlsPair;
  /** Puts another pair in use; may throw. */
  readonly use: (pair: TlsPair) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Follows the pair in a directory. It watches the directory and not the files, because a mounted secret changes by the
 * renaming of a symlink beside them. A pair that is broken, or half written, leaves the old one in use and is told once.
 */
export class TlsFollower {
  readonly #options: TlsFollowerOptions;
  #pair: TlsPair;
  #watcher: FSWatcher | undefined;
  #settling: Timer | undefined;
  #looking: Timer | undefined;
  /** What is wrong with the files at present, as it was told. */
  #told = "";
  #closed = false;

  /** Begins to follow. */
  constructor(options: TlsFollowerOptions) {
    this.#options = options;
    this.#pair = options.pair;
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
    const { directory, log } = this.#options;
    const lost = (error: unknown): void => {
      this.#watcher?.close();
      this.#watcher = undefined;
      log.warn(
        { directory, cause: messageOf(error) },
        `certificate: the directory cannot be watched, it is looked at every ${LOOK_AGAIN / 1000} s instead`,
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
    const { directory, log, use } = this.#options;
    try {
      const pair = loadTlsPair(directory);
      const problemGone = this.#told !== "";
      this.#told = "";
      if (pair.cert === this.#pair.cert && pair.key === this.#pair.key) {
        if (problemGone) log.info({ directory }, "certificate: the files hold the pair in use again");
        return;
      }
      use(pair);
      this.#pair = pair;
      log.info({ directory }, "certificate: new connections are shown the new one");
    } catch (error) {
      const problem = messageOf(error);
      if (problem === this.#told) return;
      this.#told = problem;
      log.warn({ directory, cause: problem }, "certificate: the new pair is not usable, the old one stays in use");
    }
  }
}

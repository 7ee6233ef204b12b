import type { Clock } from "../../base/clock/clock.ts";
import { readText } from "../../base/document/read.ts";

/** Milliseconds for which what was read counts: projected tokens are replaced long before they expire. */
const READ_EVERY = 10_000;
const MAX_BYTES = 1024 * 1024;

/**
 * A small text file that somebody replaces from time to time, such as a service account's token. Read when it is asked for, at
 * most every 10 s; while it cannot be read, the last content counts.
 */
export class RereadFile {
  readonly path: string;
  readonly #clock: Clock;
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<string> | undefined;
  #text: string | undefined;

  constructor(path: string, clock: Clock) {
    this.path = path;
    this.#clock = clock;
  }

  /** What was read last, without white space at the ends; undefined before the first time. */
  get last(): string | undefined {
    return this.#text;
  }

  /** @throws SluiceError as `readText`, when it has never been read */
  text(): Promise<string> {
    if (this.#text !== undefined && this.#clock.now() - this.#readAt < READ_EVERY) return Promise.resolve(this.#text);
    this.#reading ??= this.#read();
    return this.#reading;
  }

  /** The next call of `text` reads. */
  expire(): void {
    this.#readAt = Number.NEGATIVE_INFINITY;
  }

  async #read(): Promise<string> {
    this.#readAt = this.#clock.now();
    try {
      this.#text = (await readText(this.path, { maxBytes: MAX_BYTES })).trim();
    } catch (error) {
      if (this.#text === undefined) throw error;
    } finally {
      this.#reading = undefined;
    }
    return this.#text;
  }
}

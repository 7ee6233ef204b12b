import { close, constants, fstatSync, open, openSync, stat, write } from "node:fs";
import type { Writable } from "node:stream";
import type { Clock } from "../clock/clock.ts";
import type { LineTarget } from "./line-writer.ts";

/** Without O_NONBLOCK, a named pipe that nobody reads would block a thread of the process, and so its end. */
const FLAGS = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK;
/** Requests tell who asked for which model: the group may read them, others may not. */
const MODE = 0o640;
/** Milliseconds between two looks whether the file was renamed. */
const LOOK = 1000;
const NEWLINE = Uint8Array.of(0x0a);

type Done = (error: NodeJS.ErrnoException | undefined, written: number) => void;

/**
 * Opens the place that lines go to: `-` is the standard output, anything else a file, which is appended to.
 * @throws the error of the system
 */
export function openLineTarget(path: string, clock: Clock): LineTarget & { reopen?(): void } {
  if (path !== "-") return new LineFile(clock, openSync(path, FLAGS, MODE), path);
  // Node writes without blocking to a standard output that is a pipe or a socket, and to a file in the calling thread.
  const kind = fstatSync(1);
  const isStream = kind.isFIFO() || kind.isSocket() || process.stdout.isTTY;
  return isStream ? new LineStream(process.stdout) : new LineFile(clock, 1);
}

/** Lines to a file, written by the threads of the process. Follows a rename of the file: the next line begins a new file. */
class LineFile implements LineTarget {
  readonly #clock: Clock;
  /** Undefined for the standard output, which is never opened again. */
  readonly #path: string | undefined;
  #fd: number;
  #lookedAt: number;
  #closed = false;
  /** The file ends in the middle of a line, because a write failed there. */
  #torn = false;
  #busy = false;

  constructor(clock: Clock, fd: number, path?: string) {
    this.#clock = clock;
    this.#fd = fd;
    this.#path = path;
    this.#lookedAt = clock.now();
  }

  /** The next write first looks whether the file was renamed. */
  reopen(): void {
    this.#lookedAt = Number.NEGATIVE_INFINITY;
  }

  write(bytes: Uint8Array, atStart: boolean, done: Done): void {
    this.#busy = true;
    const end: Done = (error, written) => {
      this.#busy = false;
      if (this.#closed) this.#release();
      else done(error, written);
    };
    if (!atStart) this.#put(bytes, end);
    else if (this.#path === undefined || this.#clock.now() - this.#lookedAt < LOOK) this.#begin(bytes, end);
    else this.#follow(this.#path, (error) => (error === undefined ? this.#begin(bytes, end) : end(error, 0)));
  }

  close(): void {
    this.#closed = true;
    if (!this.#busy) this.#release();
  }

  #release(): void {
    if (this.#path !== undefined) close(this.#fd, () => {});
  }

  /** Writes the bytes as new lines. */
  #begin(bytes: Uint8Array, done: Done): void {
    if (!this.#torn) {
      this.#put(bytes, done);
      return;
    }
    this.#put(NEWLINE, (error) => (error === undefined ? this.#put(bytes, done) : done(error, 0)));
  }

  #put(bytes: Uint8Array, done: Done): void {
    write(this.#fd, bytes, 0, bytes.length, null, (error, written) => {
      if (error === null) this.#torn = bytes[written - 1] !== NEWLINE[0];
      done(error ?? undefined, error === null ? written : 0);
    });
  }

  /** Opens the path again if it leads to another file than before, or to none. */
  #follow(path: string, done: (error: NodeJS.ErrnoException | undefined) => void): void {
    this.#lookedAt = this.#clock.now();
    stat(path, (error, found) => {
      if (error === null) {
        const now = fstatSync(this.#fd);
        if (found.ino === now.ino && found.dev === now.dev) {
          done(undefined);
          return;
        }
      }
      open(path, FLAGS, MODE, (failed, fd) => {
        if (failed !== null) {
          this.reopen();
          done(failed);
          return;
        }
        close(this.#fd, () => {});
        this.#fd = fd;
        this.#torn = false;
        done(undefined);
      });
    });
  }
}

/** Lines to a pipe, a socket or a terminal. */
class LineStream implements LineTarget {
  readonly #stream: Writable;
  /** Each failed write gets its error; without a listener the event would end the process. */
  readonly #ignore = (): void => {};

  constructor(stream: Writable) {
    this.#stream = stream;
    stream.on("error", this.#ignore);
  }

  write(bytes: Uint8Array, _atStart: boolean, done: Done): void {
    this.#stream.write(bytes, (error) => done(error ?? undefined, error ? 0 : bytes.length));
  }

  /** The listener stays: a write may be under way. */
  close(): void {}
}

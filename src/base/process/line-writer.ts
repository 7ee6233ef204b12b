import type { Clock, Timer } from "../clock/clock.ts";

/** The place that lines go to. The writer has one write under way at a time. */
export interface LineTarget {
  /**
   * Writes bytes without blocking the process.
   * @param atStart the bytes begin with a new line; false = they continue the line of the previous write
   * @param done called once, after `write` has returned, with the number of written bytes: 0 with an error, else 1 or more
   */
  write(
    bytes: Uint8Array,
    atStart: boolean,
    done: (error: NodeJS.ErrnoException | undefined, written: number) => void,
  ): void;
  /** Frees the target. It may have a write under way that never ends. */
  close(): void;
}

/** What a writer reports. */
export interface LineWriterEvents {
  /** So many lines were not written and never will be. @param error the failure of the write; undefined = there was no room */
  dropped(lines: number, error?: NodeJS.ErrnoException): void;
  /** A write failed. Its lines wait for the next try. */
  failed(error: NodeJS.ErrnoException): void;
}

/** Default bytes of waiting lines. */
const LIMIT = 4 * 1024 * 1024;
/** Most bytes of one write, unless one line has more. */
const BATCH = 64 * 1024;
/** Milliseconds before the next write: after a failure, and while the target takes no bytes. */
const PAUSE = 1000;
const SHORT_PAUSE = 20;
/**
 * Milliseconds from the end of a write to the next one. Every write occupies a thread of the process and wakes it twice, which
 * costs more than a hundred lines: lines that come in between go out together (bench/peers.ts).
 */
const GATHER = 100;

/** Errors after which nobody will read what was written to this target. */
const GONE: ReadonlySet<string> = new Set([
  "EPIPE",
  "ECONNRESET",
  "ERR_STREAM_DESTROYED",
  "ERR_STREAM_WRITE_AFTER_END",
]);

const NEWLINE = 0x0a;
const NOTHING = new Uint8Array(0);

/** Lines that go out together: at most `BATCH` bytes, or one line that is longer. */
interface Block {
  readonly data: Buffer;
  used: number;
  lines: number;
}

/**
 * `gathering`: lines wait until the last write is `GATHER` ago. `pausing`: a write failed, and a timer begins the next one.
 * `closed`: further lines are dropped.
 */
type State = "idle" | "gathering" | "writing" | "pausing" | "closed";

/**
 * Writes lines to a target that may be slow, full or gone, and never makes the caller wait. Waiting lines take a bounded number
 * of bytes; further lines are dropped and reported. While writes fail, the lines wait. A reader that is gone (EPIPE) gets nothing:
 * its lines are dropped at once.
 */
export class LineWriter {
  readonly #clock: Clock;
  readonly #target: LineTarget;
  readonly #events: LineWriterEvents;
  readonly #limit: number;
  #state: State = "idle";
  /** The lines that wait. A line becomes bytes at once: an object for each would live until the next write. */
  #blocks: Block[] = [];
  /** A block that was written, for the next lines. */
  #spare: Buffer | undefined;
  /** Bytes of the lines that wait and of the batch. */
  #bytes = 0;
  /** The block of the write under way, its lines, and how many of their bytes are written. */
  #batch: Block | undefined;
  #data: Uint8Array = NOTHING;
  #written = 0;
  #pause: Timer | undefined;
  /** End of the last write, monotonic milliseconds. */
  #wroteAt = Number.NEGATIVE_INFINITY;
  #emptied: (() => void) | undefined;

  /** @param limit bytes of waiting lines */
  constructor(clock: Clock, target: LineTarget, events: LineWriterEvents, limit = LIMIT) {
    this.#clock = clock;
    this.#target = target;
    this.#events = events;
    this.#limit = limit;
  }

  /** Bytes that wait, at most the limit. */
  get waiting(): number {
    return this.#bytes;
  }

  /** @param line without its newline */
  add(line: string): void {
    const size = Buffer.byteLength(line) + 1;
    if (this.#state === "closed" || this.#bytes + size > this.#limit) {
      this.#events.dropped(1);
      return;
    }
    this.#bytes += size;
    const block = this.#blockFor(size);
    block.data.write(line, block.used);
    block.used += size;
    block.data[block.used - 1] = NEWLINE;
    block.lines++;
    if (this.#state === "idle") this.#gather();
  }

  /** The last block, or a new one where it has no room. */
  #blockFor(size: number): Block {
    const last = this.#blocks.at(-1);
    if (last !== undefined && last.used + size <= last.data.length) return last;
    const spare = size <= BATCH ? this.#spare : undefined;
    if (spare !== undefined) this.#spare = undefined;
    const block = { data: spare ?? Buffer.allocUnsafeSlow(Math.max(size, BATCH)), used: 0, lines: 0 };
    this.#blocks.push(block);
    return block;
  }

  /** Writes the waiting lines within `ms` milliseconds, drops the others, and closes the target. */
  async close(ms: number): Promise<void> {
    if (this.#state === "closed") return;
    let timer: Timer | undefined;
    if (this.#bytes > 0)
      await new Promise<void>((resolve) => {
        this.#emptied = resolve;
        timer = this.#clock.after(ms, resolve, true);
        if (this.#state === "gathering") this.#write();
      });
    timer?.cancel();
    this.#pause?.cancel();
    this.#state = "closed";
    this.#dropAll();
    this.#target.close();
  }

  /** Begins the next write, now or when more lines may have come. */
  #gather(): void {
    const wait = this.#wroteAt + GATHER - this.#clock.now();
    const isWorthIt = this.#emptied === undefined && this.#bytes > 0 && this.#bytes < BATCH;
    if (wait <= 0 || !isWorthIt) {
      this.#write();
      return;
    }
    this.#state = "gathering";
    this.#pause = this.#clock.after(wait, () => this.#write(), true);
  }

  #write(): void {
    this.#pause?.cancel();
    if (this.#batch === undefined) this.#nextBatch();
    if (this.#batch === undefined) {
      this.#state = "idle";
      this.#emptied?.();
      return;
    }
    this.#state = "writing";
    this.#target.write(this.#data.subarray(this.#written), this.#atLineStart, (error, written) =>
      this.#wrote(error, written),
    );
  }

  #nextBatch(): void {
    const block = this.#blocks.shift();
    if (block === undefined) return;
    this.#batch = block;
    this.#data = block.data.subarray(0, block.used);
    this.#written = 0;
  }

  #wrote(error: NodeJS.ErrnoException | undefined, written: number): void {
    if (this.#state !== "writing") return;
    if (error !== undefined) {
      this.#failed(error);
      return;
    }
    this.#written += written;
    this.#bytes -= written;
    if (this.#written < this.#data.length) {
      this.#write();
      return;
    }
    if (this.#batch?.data.length === BATCH) this.#spare = this.#batch.data;
    this.#endBatch();
    this.#wroteAt = this.#clock.now();
    this.#gather();
  }

  #failed(error: NodeJS.ErrnoException): void {
    if (error.code === "EAGAIN") {
      this.#pauseFor(SHORT_PAUSE);
      return;
    }
    if (GONE.has(error.code ?? "")) this.#dropAll(error);
    else {
      this.#events.failed(error);
      this.#dropTornLine(error);
    }
    this.#pauseFor(PAUSE);
  }

  #pauseFor(ms: number): void {
    this.#state = "pausing";
    this.#pause = this.#clock.after(
      ms,
      () => {
        this.#state = "idle";
        this.#write();
      },
      true,
    );
  }

  get #atLineStart(): boolean {
    return this.#written === 0 || this.#data[this.#written - 1] === NEWLINE;
  }

  /** The rest of a line may come to another file than its beginning, where it is no line of its own. */
  #dropTornLine(error: NodeJS.ErrnoException): void {
    if (this.#atLineStart) return;
    const end = this.#data.indexOf(NEWLINE, this.#written) + 1;
    this.#bytes -= end - this.#written;
    this.#written = end;
    if (end === this.#data.length) this.#endBatch();
    this.#events.dropped(1, error);
  }

  #endBatch(): void {
    this.#batch = undefined;
    this.#data = NOTHING;
    this.#written = 0;
  }

  #dropAll(error?: NodeJS.ErrnoException): void {
    let lines = 0;
    for (const block of this.#blocks) lines += block.lines;
    for (let at = this.#data.indexOf(NEWLINE, this.#written); at >= 0; at = this.#data.indexOf(NEWLINE, at + 1))
      lines++;
    this.#blocks = [];
    this.#endBatch();
    this.#bytes = 0;
    if (lines > 0) this.#events.dropped(lines, error);
  }
}

import { createReadStream } from "node:fs";
import { LineSplitter, lineText, type TextLine } from "../../../base/document/line-splitter.ts";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import { formatOf, KNOWN_FORMATS, type TraceFormat } from "./trace-format.ts";
import { HASH_BLOCK, type TraceRow, UNUSABLE, type Unusable } from "./trace-row.ts";

/** The longest line, bytes: a prompt of millions of tokens. */
const MAX_LINE = 1 << 20;
/** The most requests, and the most hash ids in all of them, that are kept. */
const LIMITS = { requests: 1_000_000, blocks: 4_000_000 };
/** The longest time that is played, in milliseconds. */
const MAX_SPAN = 24 * 3_600_000;
/** The most characters of a file that a message repeats. */
const MAX_REPEATED = 80;

/** The part of a trace, in milliseconds after its first row. */
export interface TraceWindow {
  readonly from: number;
  /** Not included; Infinity = to the end. */
  readonly to: number;
}

/** What is read of a trace. */
export interface TraceOptions {
  readonly window: TraceWindow;
  /** Factor on time, > 0: with 2, requests come twice as fast. */
  readonly speed: number;
  /** Tokens of the longest prompt with its answer. */
  readonly contextLength: number;
  /** Default `LIMITS`. */
  readonly limits?: typeof LIMITS | undefined;
}

/** One request to play. */
export interface TraceRequest {
  /** Milliseconds after the start of the window, with the speed. */
  readonly at: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** The blocks of the prompt, numbered from 0 in the order of their first use; absent = its text is its own. */
  readonly blocks?: Uint32Array | undefined;
}

/** Why the reading ended before the file did, with the words for it. */
export const STOPPED = {
  window: "it does not read rows after the window",
  span: "it stopped at the limit of 24 hours: name another part with --window",
  requests: `it stopped at the limit of ${LIMITS.requests} requests: name a part with --window`,
  blocks: `it stopped at the limit of ${LIMITS.blocks} hash ids: name a part with --window`,
} as const;

/** What was read of a trace, and what was not used. */
export interface TraceSummary {
  readonly file: string;
  readonly format: string;
  /** Rows that were read, without the header. */
  readonly rows: number;
  readonly requests: number;
  /** Rows before the window. */
  readonly before: number;
  /** The rows that cannot be used, by reason, the most frequent first. */
  readonly unusable: readonly UnusableRows[];
  readonly stopped: keyof typeof STOPPED | undefined;
  /** Factor on time. */
  readonly speed: number;
  /** Tokens of the longest prompt with its answer. */
  readonly contextLength: number;
  /** Share of the prompt tokens whose blocks an earlier request had, 0..1; undefined where the trace has lengths only. */
  readonly repeated: number | undefined;
}

/** Rows with the same fault. */
export interface UnusableRows {
  readonly why: Unusable;
  readonly count: number;
  /** The line of the first one, from 1. */
  readonly line: number;
}

/** A trace that was read. */
export interface Trace {
  /** At least one, in the order of their times. */
  readonly requests: readonly TraceRequest[];
  readonly summary: TraceSummary;
}

/**
 * Reads a trace once from start to end; it may be a pipe. Holds one line, and the requests that are played.
 * @param file path
 * @throws SluiceError TRACE_INPUT when the format is unknown or no row can be used; DOCUMENT_MISSING, DOCUMENT_UNREADABLE
 */
export async function readTrace(file: string, options: TraceOptions): Promise<Trace> {
  const reading = new Reading(file, options);
  for await (const line of linesOf(file)) {
    reading.take(line);
    if (reading.stopped !== undefined) break;
  }
  return reading.result();
}

async function* linesOf(file: string): AsyncGenerator<TextLine> {
  const splitter = new LineSplitter(MAX_LINE);
  const stream = createReadStream(file);
  try {
    for await (const chunk of stream) yield* splitter.push(chunk as Buffer);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === "ENOENT") throw new SluiceError("DOCUMENT_MISSING", `${file} does not exist`, { cause });
    const why = code === "EISDIR" ? "is a directory, not a file" : `cannot be read: ${messageOf(cause)}`;
    throw new SluiceError("DOCUMENT_UNREADABLE", `${file} ${why}`, { cause });
  } finally {
    stream.destroy();
  }
  yield* splitter.end();
}

class Reading {
  readonly #file: string;
  readonly #options: TraceOptions;
  readonly #requests: TraceRequest[] = [];
  readonly #unusable = new Map<Unusable, { count: number; line: number }>();
  readonly #numbers = new Map<number, number>();
  #format: TraceFormat | undefined;
  #rows = 0;
  #before = 0;
  /** The time of the first row, and of the latest one in order; NaN before it. */
  #first = Number.NaN;
  #latest = Number.NaN;
  #blocks = 0;
  #promptTokens = 0;
  #repeatedTokens = 0;
  stopped: keyof typeof STOPPED | undefined;

  constructor(file: string, options: TraceOptions) {
    this.#file = file;
    this.#options = options;
  }

  take({ number, bytes }: TextLine): void {
    const text = bytes === undefined ? undefined : lineText(bytes)?.trim();
    if (text === "") return;
    if (this.#format === undefined) {
      this.#format = text === undefined ? undefined : formatOf(text);
      if (this.#format === undefined) throw this.#unknown(number, text);
      if (this.#format.headed) return;
    }
    const row = text === undefined ? (bytes === undefined ? "lineLength" : "encoding") : this.#format.row(text);
    const why = typeof row === "string" ? row : this.#use(row);
    if (this.stopped !== undefined) return;
    this.#rows++;
    if (why === undefined) return;
    const known = this.#unusable.get(why);
    if (known === undefined) this.#unusable.set(why, { count: 1, line: number });
    else known.count++;
  }

  /** @returns why the row cannot be used; undefined when it is kept, before the window, or the end of the reading */
  #use(row: TraceRow): Unusable | undefined {
    const { window, speed, contextLength, limits = LIMITS } = this.#options;
    if (Number.isNaN(this.#first)) this.#first = row.at;
    if (row.at < this.#latest) return "timeBack";
    this.#latest = row.at;
    const offset = row.at - this.#first;
    if (offset < window.from) {
      this.#before++;
      return undefined;
    }
    const at = (offset - window.from) / speed;
    if (offset >= window.to) this.stopped = "window";
    else if (at >= MAX_SPAN) this.stopped = "span";
    else if (row.promptTokens < 1) return "noPrompt";
    else if (row.outputTokens < 1) return "noAnswer";
    else if (row.promptTokens + row.outputTokens > contextLength) return "contextLength";
    else if (this.#requests.length >= limits.requests) this.stopped = "requests";
    else if (this.#blocks + (row.hashIds?.length ?? 0) > limits.blocks) this.stopped = "blocks";
    else this.#keep(at, row);
    return undefined;
  }

  #keep(at: number, { promptTokens, outputTokens, hashIds }: TraceRow): void {
    this.#promptTokens += promptTokens;
    const blocks = hashIds && Uint32Array.from(hashIds, (id, i) => this.#numberOf(id, promptTokens - i * HASH_BLOCK));
    this.#blocks += blocks?.length ?? 0;
    this.#requests.push({ at, promptTokens, outputTokens, blocks });
  }

  /** @param left tokens of the prompt from the beginning of the block */
  #numberOf(id: number, left: number): number {
    const known = this.#numbers.get(id);
    if (known !== undefined) {
      this.#repeatedTokens += Math.min(HASH_BLOCK, left);
      return known;
    }
    this.#numbers.set(id, this.#numbers.size);
    return this.#numbers.size - 1;
  }

  result(): Trace {
    const unusable = [...this.#unusable].map(([why, where]) => ({ why, ...where }));
    if (this.#requests.length === 0) throw this.#nothing(unusable);
    return {
      requests: this.#requests,
      summary: {
        ...{ file: this.#file, format: this.#format!.name, rows: this.#rows, requests: this.#requests.length },
        ...{ before: this.#before, stopped: this.stopped },
        ...{ speed: this.#options.speed, contextLength: this.#options.contextLength },
        unusable: unusable.sort((a, b) => b.count - a.count || a.line - b.line),
        repeated: this.#blocks === 0 ? undefined : this.#repeatedTokens / this.#promptTokens,
      },
    };
  }

  #unknown(line: number, text: string | undefined): SluiceError {
    const shown = text === undefined ? "not text, or far too long" : JSON.stringify(text.slice(0, MAX_REPEATED));
    return new SluiceError(
      "TRACE_INPUT",
      `${this.#file} is not a known trace: line ${line} is ${shown}. There are ${KNOWN_FORMATS}`,
    );
  }

  #nothing(unusable: readonly UnusableRows[]): SluiceError {
    const first = unusable.reduce<UnusableRows | undefined>(
      (found, one) => (found === undefined || one.line < found.line ? one : found),
      undefined,
    );
    const has = `${this.#file} has no row to play`;
    if (first !== undefined)
      return new SluiceError("TRACE_INPUT", `${has}; the first is line ${first.line}: ${UNUSABLE[first.why]}`);
    const why = this.#before > 0 || this.stopped !== undefined ? "no row is in the window" : "the file has no rows";
    return new SluiceError("TRACE_INPUT", `${has}: ${why}`);
  }
}

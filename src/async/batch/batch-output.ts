import { closeSync, fdatasyncSync, fstatSync, fsyncSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { LineSplitter, lineText, type TextLine } from "../../base/document/line-splitter.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { readWrittenLine, type WrittenLine } from "./answer-line.ts";

const CHUNK = 1024 * 1024;
/** Bytes of the longest line that is read again. */
const MAX_LINE = 256 * 1024 * 1024;

/** The file of a batch's answers: only ever appended to, and what `append` has returned from is on the disk. */
export class BatchOutput {
  readonly path: string;
  readonly #file: number;
  #size: number;

  /** Opens the file, or makes it. @throws SluiceError BATCH_OUTPUT */
  constructor(path: string) {
    this.path = path;
    try {
      this.#file = openSync(path, "a+");
    } catch (cause) {
      throw new SluiceError("BATCH_OUTPUT", `${path} cannot be written: ${messageOf(cause)}`, { cause });
    }
    const status = fstatSync(this.#file);
    this.#size = status.size;
    if (status.isFile()) return;
    this.close();
    throw new SluiceError("BATCH_OUTPUT", `${path} is no file; answers are read again when a batch goes on`);
  }

  /**
   * Reads what is there. A last line without an end is mended when it is whole, and else cut off: what it answered still
   * stands in the result queue, since results leave that only after `append`.
   * @param breathe is awaited now and then, with the share that was read (0..1)
   * @throws SluiceError BATCH_OUTPUT for a line that is no answer
   */
  async scan(
    each: (line: WrittenLine, number: number) => void,
    breathe: (share: number) => Promise<void>,
  ): Promise<void> {
    const splitter = new LineSplitter(MAX_LINE);
    const size = this.#size;
    for (let at = 0; at < size; ) {
      const chunk = Buffer.allocUnsafe(CHUNK);
      const read = readSync(this.#file, chunk, 0, Math.min(CHUNK, size - at), at);
      if (read === 0) break;
      at += read;
      for (const line of splitter.push(chunk.subarray(0, read))) this.#scanned(line, each);
      await breathe(at / size);
    }
    for (const line of splitter.end()) this.#scanned(line, each);
  }

  /** Appends lines and has them on the disk. @throws SluiceError BATCH_OUTPUT; then none of them is there */
  append(lines: readonly string[]): void {
    if (lines.length === 0) return;
    const bytes = Buffer.from(lines.join(""));
    try {
      for (let at = 0; at < bytes.length; ) at += writeSync(this.#file, bytes, at);
      fdatasyncSync(this.#file);
    } catch (cause) {
      this.#cut(this.#size);
      throw new SluiceError("BATCH_OUTPUT", `${this.path} cannot be written: ${messageOf(cause)}`, { cause });
    }
    this.#size += bytes.length;
  }

  /** Has the file's name on the disk, too. */
  syncFolder(): void {
    const folder = openSync(dirname(this.path), "r");
    try {
      fsyncSync(folder);
    } finally {
      closeSync(folder);
    }
  }

  close(): void {
    closeSync(this.#file);
  }

  #scanned({ number, start, bytes, ended }: TextLine, each: (line: WrittenLine, number: number) => void): void {
    if (bytes?.length === 0) return;
    const text = bytes === undefined ? undefined : lineText(bytes);
    const line = text === undefined ? undefined : readWrittenLine(text);
    if (line !== undefined) {
      if (!ended) this.append(["\n"]);
      each(line, number);
      return;
    }
    if (ended)
      throw new SluiceError(
        "BATCH_OUTPUT",
        `${this.path}:${number} is no answer to a line of a batch: name another file, or remove that line (what it answered is asked for again)`,
      );
    this.#cut(start);
    this.#size = start;
  }

  #cut(size: number): void {
    try {
      ftruncateSync(this.#file, size);
    } catch {
      // The next start finds the torn line and tries again.
    }
  }
}

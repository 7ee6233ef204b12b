import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { LineSplitter, lineText, type TextLine } from "../../../base/document/line-splitter.ts";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import { isLogLine } from "./access-text.ts";

/** The longest line, bytes: a full record of some ten thousand endpoints. */
const MAX_LINE = 16 << 20;

/** The most bytes that are read of a file, and of a JSON document over several lines. */
const LIMITS = { file: 4 * 1024 ** 3, document: 64 << 20 };

/** One item of a file: a JSON value, a line of text, or the problem with a broken item. */
export type Item = { /** `line 7`, or `member 7` of an array. */ readonly place: string } & (
  | { readonly kind: "value"; readonly value: unknown }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "broken"; readonly problem: string }
);

/** An item with its line. */
interface Line {
  readonly item: Item;
  readonly text: string;
}

/** Reads a file once from start to end: it may be a pipe. */
export class ItemFile {
  readonly name: string;
  readonly #limits: typeof LIMITS;
  /** Bytes read so far. */
  bytes = 0;
  items = 0;
  /** Whether the file is longer than the limit. */
  cut = false;

  /** @param name path */
  constructor(name: string, limits = LIMITS) {
    this.name = name;
    this.#limits = limits;
  }

  /**
   * The items of a file of any size, one after the other: JSON lines, lines of an access log, or one JSON document over several
   * lines. An array yields its members. Skips empty lines and lines that begin with `#`.
   * @throws SluiceError DOCUMENT_MISSING, DOCUMENT_UNREADABLE
   */
  async *read(): AsyncGenerator<Item> {
    for await (const item of this.#unwrapped()) {
      this.items++;
      yield item;
    }
  }

  async *#unwrapped(): AsyncGenerator<Item> {
    let held: Item[] = [];
    let text: string[] | undefined;
    let size = 0;
    let first = true;
    for await (const bytes of this.#lines()) {
      const line = lineOf(bytes);
      if (line === undefined) continue;
      // A document may continue in the next line: only the whole file shows that.
      if (first && line.item.kind === "broken") text = [];
      if (first && line.item.kind === "value" && Array.isArray(line.item.value)) yield* members(line.item.value);
      else if (text === undefined) yield line.item;
      else {
        held.push(line.item);
        text.push(line.text);
        size += line.text.length;
        if (size > this.#limits.document) {
          yield* held;
          [held, text] = [[], undefined];
        }
      }
      first = false;
    }
    if (text !== undefined) yield* documentIn(held, text);
  }

  async *#lines(): AsyncGenerator<TextLine> {
    const splitter = new LineSplitter(MAX_LINE);
    try {
      if ((await stat(this.name)).isDirectory())
        throw new SluiceError("DOCUMENT_UNREADABLE", `${this.name} is a directory, not a file`);
      // Reads one byte beyond the limit, to learn whether the file is longer.
      for await (const chunk of createReadStream(this.name, { end: this.#limits.file })) {
        const room = this.#limits.file - this.bytes;
        const bytes = (chunk as Buffer).subarray(0, room);
        this.cut = (chunk as Buffer).length > room;
        this.bytes += bytes.length;
        yield* splitter.push(bytes);
      }
    } catch (error) {
      throw error instanceof SluiceError ? error : unreadable(this.name, error);
    }
    // A line that the limit cuts is not a fault of the file.
    if (!this.cut) yield* splitter.end();
  }
}

/** @returns undefined for a skipped line */
function lineOf({ number, bytes }: TextLine): Line | undefined {
  const place = `line ${number}`;
  const broken = (problem: string, text = ""): Line => ({ item: { place, kind: "broken", problem }, text });
  if (bytes === undefined) return broken(`longer than ${MAX_LINE >> 20} MiB`);
  const text = lineText(bytes)?.trim();
  if (text === undefined) return broken("not UTF-8");
  if (text === "" || text.startsWith("#")) return undefined;
  if (isLogLine(text) || !/^[{[]/.test(text)) return { item: { place, kind: "text", text }, text };
  try {
    return { item: { place, kind: "value", value: JSON.parse(text) as unknown }, text };
  } catch (error) {
    return broken(`not JSON: ${messageOf(error)}`, text);
  }
}

/** The lines together as one document if that is valid JSON, else each line separately. */
function* documentIn(lines: readonly Item[], text: readonly string[]): Generator<Item> {
  let whole: unknown;
  try {
    // Unreadable lines must not be lost.
    if (text.includes("")) throw new SyntaxError("one of its lines is not text");
    whole = JSON.parse(text.join("\n"));
  } catch {
    yield* lines;
    return;
  }
  if (Array.isArray(whole)) yield* members(whole);
  else yield { place: lines[0]!.place, kind: "value", value: whole };
}

function* members(values: readonly unknown[]): Generator<Item> {
  for (const [at, value] of values.entries()) yield { place: `member ${at + 1}`, kind: "value", value };
}

function unreadable(path: string, cause: unknown): SluiceError {
  if ((cause as NodeJS.ErrnoException).code === "ENOENT")
    return new SluiceError("DOCUMENT_MISSING", `${path} does not exist`, { cause });
  return new SluiceError("DOCUMENT_UNREADABLE", `${path} cannot be read: ${messageOf(cause)}`, { cause });
}

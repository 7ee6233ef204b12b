import { createHash } from "node:crypto";
import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { isObject } from "../../base/document/json-object.ts";
import { LineSplitter, lineText, type TextLine } from "../../base/document/line-splitter.ts";
import { nearest } from "../../base/document/nearest.ts";
import { unreadable } from "../../base/document/read.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { memberRanges } from "../brokers/messages/json-members.ts";
import { BAD, BLANK, LineIndex, OPEN } from "./line-index.ts";

/** A line of a batch file, in the format of OpenAI's batch API. */
interface BatchLine {
  readonly problem?: undefined;
  readonly customId: string;
  /** A path. */
  readonly url: string;
  /** JSON text of the body, exactly as the line has it. */
  readonly body: string;
}

/** A line that is not a valid line of a batch. */
interface BadLine {
  readonly problem: string;
  /** The custom id, where it can be read. */
  readonly customId?: string;
}

const MEMBERS = ["custom_id", "method", "url", "body"] as const;
const LONGEST_ID = 1024;

/** Reads `{"custom_id", "method": "POST", "url": "/v1/...", "body": {...}}`; unknown members are ignored. */
export function readBatchLine(text: string): BatchLine | BadLine {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { problem: `not valid JSON: ${messageOf(error)}` };
  }
  if (!isObject(value)) return { problem: "it must be a JSON object with custom_id, method, url and body" };
  const { custom_id: customId, method, url, body } = value;
  const missing = MEMBERS.find((name) => value[name] === undefined || value[name] === null);
  const known = typeof customId === "string" && customId !== "" && customId.length <= LONGEST_ID ? { customId } : {};
  if (missing !== undefined) return { ...known, problem: `${missing} is missing${meant(value, missing)}` };
  if (known.customId === undefined)
    return { problem: `custom_id must be a string of 1 to ${LONGEST_ID} characters, unique in the file` };
  if (method !== "POST") return { ...known, problem: `method must be "POST", not ${shown(method)}` };
  if (typeof url !== "string" || !/^\/[^\s?#]*$/.test(url))
    return { ...known, problem: `url must be a path such as "/v1/chat/completions", not ${shown(url)}` };
  if (!isObject(body)) return { ...known, problem: `body must be an object, not ${shown(body)}` };
  if (body["stream"] === true)
    return { ...known, problem: "body.stream is true, but a batch cannot stream its answers: remove body.stream" };
  const { start, end } = memberRanges(text).get("body")!;
  return { customId: known.customId, url, body: text.slice(start, end) };
}

/** A hint when another member looks like the missing one, misspelt; else "". */
function meant(value: Readonly<Record<string, unknown>>, missing: string): string {
  const other = Object.keys(value).find(
    (name) => !(MEMBERS as readonly string[]).includes(name) && nearest(name, [missing]) !== undefined,
  );
  return other === undefined ? "" : `; did you mean \`${missing}\` instead of ${JSON.stringify(other)}?`;
}

function shown(value: unknown): string {
  return String(JSON.stringify(value)).slice(0, 100);
}

/** Bytes of the longest line: the largest body that gateways take, and the rest of the line. */
const MAX_LINE = 33 * 1024 * 1024;
const CHUNK = 1024 * 1024;
/** Most bad lines that an error lists. */
const TOLD = 20;

/** The result of reading the whole file. */
interface InputCheck {
  /** Lines that can be sent. */
  readonly good: number;
  readonly bad: number;
  /** Of the first bad lines: `line N: problem`. */
  readonly problems: readonly string[];
  /** Of the content of the file. */
  readonly sha256: string;
}

/** The file of a batch: read once as a whole, then line by line on demand. */
export class BatchInput {
  readonly path: string;
  readonly index: LineIndex;
  readonly #file: number;
  #size = 0;

  /** @throws SluiceError BATCH_INPUT */
  constructor(path: string) {
    this.path = path;
    this.index = new LineIndex((line) => this.read(line).customId);
    try {
      this.#file = openSync(path, "r");
    } catch (cause) {
      throw new SluiceError("BATCH_INPUT", unreadable(path, cause).message, { cause });
    }
    if (!fstatSync(this.#file).isFile()) {
      this.close();
      throw new SluiceError("BATCH_INPUT", `${path} is not a regular file: a batch reads its input more than once`);
    }
  }

  /**
   * Reads the file and fills the index.
   * @param breathe is awaited regularly, with the share that was read (0..1)
   * @throws SluiceError BATCH_TOO_LONG
   */
  async check(breathe: (share: number) => Promise<void>): Promise<InputCheck> {
    const { size } = fstatSync(this.#file);
    const sum = createHash("sha256");
    const splitter = new LineSplitter(MAX_LINE);
    const found = { good: 0, bad: 0, problems: [] as string[] };
    for (;;) {
      const chunk = Buffer.allocUnsafe(CHUNK);
      const read = readSync(this.#file, chunk, 0, CHUNK, this.#size);
      if (read === 0) break;
      const part = chunk.subarray(0, read);
      sum.update(part);
      this.#size += read;
      for (const line of splitter.push(part)) this.#enter(line, found);
      await breathe(Math.min(1, this.#size / size));
    }
    for (const line of splitter.end()) this.#enter(line, found);
    return { ...found, sha256: sum.digest("hex") };
  }

  /** Reads a checked line; for a bad line, the problem. @throws SluiceError BATCH_INPUT when the file has changed since */
  read(line: number): BatchLine | BadLine {
    const start = this.index.start(line);
    const end = line < this.index.count ? this.index.start(line + 1) : this.#size;
    if (end - start > MAX_LINE + 2) return readBytes(undefined);
    const bytes = Buffer.allocUnsafe(end - start);
    const got = readSync(this.#file, bytes, 0, bytes.length, start);
    if (got < bytes.length) throw this.#changed(line);
    return readBytes(bytes);
  }

  /** Reads a line that was good. @throws SluiceError BATCH_INPUT when it is bad now */
  readGood(line: number): BatchLine {
    const read = this.read(line);
    if (read.problem !== undefined) throw this.#changed(line);
    return read;
  }

  /** Whether the path leads to this file. */
  isSame(path: string): boolean {
    const [ours, other] = [fstatSync(this.#file), statSync(path)];
    return ours.ino === other.ino && ours.dev === other.dev;
  }

  /** The problem of a bad line. */
  problemOf(line: number): string {
    const { problem, customId } = this.read(line);
    return problem ?? this.#twin(customId, this.index.find(customId!)!);
  }

  close(): void {
    closeSync(this.#file);
  }

  #enter({ number, start, bytes }: TextLine, found: { good: number; bad: number; problems: string[] }): void {
    if (bytes?.length === 0) {
      this.index.add(start, BLANK);
      return;
    }
    const line = readBytes(bytes);
    this.index.add(start, line.problem === undefined ? OPEN : BAD);
    const twin = line.customId === undefined ? undefined : this.index.enter(line.customId, number);
    const problem = line.problem ?? (twin === undefined ? undefined : this.#twin(line.customId, twin));
    if (problem === undefined) {
      found.good++;
      return;
    }
    this.index.mark(number, BAD);
    if (found.bad++ < TOLD) found.problems.push(`line ${number}: ${problem}`);
  }

  #twin(customId: string | undefined, first: number): string {
    return `custom_id ${JSON.stringify(customId)} is also on line ${first}`;
  }

  #changed(line: number): SluiceError {
    return new SluiceError("BATCH_INPUT", `${this.path} changed while the batch ran: line ${line} is different now`);
  }
}

function readBytes(bytes: Buffer | undefined): BatchLine | BadLine {
  if (bytes === undefined) return { problem: `it is longer than ${MAX_LINE / 1024 / 1024} MiB` };
  const text = lineText(bytes);
  return text === undefined ? { problem: "it is not UTF-8" } : readBatchLine(text);
}

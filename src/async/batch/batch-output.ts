import { isUtf8 } from "node:buffer";
import { closeSync, fdatasyncSync, fstatSync, fsyncSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { isObject } from "../../base/document/json-object.ts";
import { LineSplitter, lineText, type TextLine } from "../../base/document/line-splitter.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { ResultMessage } from "../brokers/messages/message.ts";

/** Why a line ended without an answer of the gateway: an error code of results, or one of the batch command. */
interface LineError {
  readonly code: string;
  readonly message: string;
}

/**
 * A line of the answer file, in the format of OpenAI's batch API. `response` is the gateway's answer, with any status. A line
 * without an answer has `error`. A body that is not JSON becomes a text; a body that is not UTF-8 either becomes base64.
 * @param id of the request, also sent as `x-request-id`
 */
export function answerLine(
  id: string,
  customId: string,
  result: ResultMessage,
  body: AnswerBody = answerBody(result.payload),
): string {
  const response =
    result.statusCode === 0
      ? "null"
      : `{"status_code":${result.statusCode},"request_id":${JSON.stringify(id)},"body":${body.text}}`;
  const error = result.errorCode === "" ? null : { code: result.errorCode, message: result.errorMessage };
  return line(id, customId, response, error);
}

/** The same for a line that was never sent. @param customId null where the line has no custom id of its own */
export function errorLine(id: string, customId: string | null, error: LineError): string {
  return line(id, customId, "null", error);
}

/** Whether the line ended with an answer that reports success. */
export function succeeded({ statusCode, errorCode }: ResultMessage): boolean {
  return statusCode >= 200 && statusCode < 300 && errorCode === "";
}

/** The parts of an answer line that a later run needs. */
export interface WrittenLine {
  readonly id: string;
  readonly customId: string | null;
  readonly succeeded: boolean;
  /** Of the error; null = none. */
  readonly code: string | null;
  /** The body of the answer, read; undefined = no answer. */
  readonly body: unknown;
}

/**
 * Reads lines of `answerLine`, of `errorLine` and of other programs with this format; undefined when the text is no answer to a
 * line.
 */
export function readWrittenLine(text: string): WrittenLine | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isObject(value)) return undefined;
  const { id, custom_id: customId, response, error } = value;
  if (typeof id !== "string" || (typeof customId !== "string" && customId !== null)) return undefined;
  const status = isObject(response) ? Number(response["status_code"]) : 0;
  return {
    ...{ id, customId, succeeded: status >= 200 && status < 300 && (error ?? null) === null },
    code: isObject(error) ? String(error["code"]) : null,
    body: isObject(response) ? response["body"] : undefined,
  };
}

function line(id: string, customId: string | null, response: string, error: LineError | null): string {
  return `{"id":${JSON.stringify(id)},"custom_id":${JSON.stringify(customId)},"response":${response},"error":${JSON.stringify(error)}}\n`;
}

/** The body of an answer. */
export interface AnswerBody {
  /** A JSON text without line breaks. */
  readonly text: string;
  /** What the body says; undefined when it is no JSON. */
  readonly value: unknown;
}

/** Reads the body of an answer. */
export function answerBody(payload: Uint8Array): AnswerBody {
  const bytes = Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength);
  if (!isUtf8(bytes)) return { text: JSON.stringify(bytes.toString("base64")), value: undefined };
  const text = bytes.toString();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { text: JSON.stringify(text), value: undefined };
  }
  // Between the tokens of a JSON text a line break is white space; a string contains none.
  return { text: text.trim().replace(/[\r\n]+/g, " "), value };
}

const CHUNK = 1024 * 1024;
/** Bytes of the longest line that `scan` reads. */
const MAX_LINE = 256 * 1024 * 1024;

/** The file of a batch's answers. Lines are only ever appended, and are on the disk when `append` returns. */
export class BatchOutput {
  readonly path: string;
  readonly #file: number;
  #size: number;

  /** Opens the file, or creates it. @throws SluiceError BATCH_OUTPUT */
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
    throw new SluiceError(
      "BATCH_OUTPUT",
      `${path} is not a regular file: a batch that continues reads its answers again`,
    );
  }

  /**
   * Reads the answers that exist. A last line without a line end is completed when it is whole, and else cut off. A result of a
   * cut line is still in the result queue: results leave that queue only after `append`.
   * @param breathe is awaited regularly, with the share that was read (0..1)
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

  /** Appends lines and syncs them to the disk. @throws SluiceError BATCH_OUTPUT; then none of them is in the file */
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

  /** Syncs the name of the file to the disk, too. */
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
        `${this.path}:${number} is not an answer to a line of a batch: name another file, or remove this line; Sluice then requests the answer again`,
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

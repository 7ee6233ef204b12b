import type { TextLine } from "../../base/document/line-splitter.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { memberRanges } from "../brokers/messages/json-members.ts";
import type { BodyPlace } from "./batch-queue.ts";
import { inputLines, isBlank, withoutMark } from "./input-lines.ts";

/** A line of a checked input. */
export interface RequestLine {
  readonly line: number;
  readonly customId: string;
  readonly url: string;
  /** JSON text of the body, exactly as the line has it. */
  readonly body: string;
  readonly place: BodyPlace;
}

/**
 * The lines of a checked input that are not blank, one after the other. The file is read as far as the lines are taken.
 * @param wanted whether a line is to be read; others are passed over
 * @throws SluiceError BATCH_INPUT when the file has changed since its check
 */
export function* requestLines(path: string, wanted: (line: number) => boolean): Generator<RequestLine> {
  for (const texts of inputLines(path))
    for (const text of texts) if (wanted(text.number) && !isBlank(text)) yield requestOf(path, text);
}

function requestOf(path: string, { number: line, start: lineStart, bytes }: TextLine): RequestLine {
  const whole = bytes?.toString() ?? "";
  const text = withoutMark(whole);
  try {
    const { custom_id: customId, url, body: value } = JSON.parse(text) as Record<string, unknown>;
    if (typeof customId === "string" && typeof url === "string" && typeof value === "object") {
      const { start, end } = memberRanges(text).get("body")!;
      const body = text.slice(start, end);
      const before = Buffer.byteLength(whole.slice(0, whole.length - text.length + start));
      return { line, customId, url, body, place: { path, start: lineStart + before, length: Buffer.byteLength(body) } };
    }
  } catch {
    // The error below says it.
  }
  throw new SluiceError("BATCH_INPUT", `line ${line} of ${path} changed after the check of the input`);
}

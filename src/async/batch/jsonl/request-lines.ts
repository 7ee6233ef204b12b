import { LineSplitter, lineText, type TextLine } from "../../../base/document/line-splitter.ts";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import type { SubmitRequest } from "../../brokers/producer.ts";
import { type RequestDefaults, readRequestText } from "./request-text.ts";

/** Bytes of the longest request: what gateways take as a body, and the rest of it. */
export const LONGEST_REQUEST = 33 * 1024 * 1024;

/** Requests, and bytes of them, of one portion. */
const STEP = 100;
const STEP_SIZE = 4 * 1024 * 1024;

/**
 * The requests of a file of JSON lines, in portions that fit one submission. Empty lines are passed over.
 * @throws SluiceError REQUEST_INVALID naming the line, after the portion with the requests in front of it
 */
export async function* requestPortions(
  source: AsyncIterable<Buffer>,
  defaults: RequestDefaults,
): AsyncGenerator<readonly SubmitRequest[]> {
  let portion: SubmitRequest[] = [];
  let size = 0;
  let problem: SluiceError | undefined;
  for await (const line of linesOf(source)) {
    try {
      const text = textOf(line);
      if (text === "") continue;
      portion.push(readRequestText(text, defaults));
      size += text.length;
    } catch (error) {
      problem = new SluiceError("REQUEST_INVALID", `line ${line.number}: ${messageOf(error)}`);
      break;
    }
    if (portion.length < STEP && size < STEP_SIZE) continue;
    yield portion;
    portion = [];
    size = 0;
  }
  if (portion.length > 0) yield portion;
  if (problem !== undefined) throw problem;
}

async function* linesOf(source: AsyncIterable<Buffer>): AsyncGenerator<TextLine> {
  const splitter = new LineSplitter(LONGEST_REQUEST);
  for await (const chunk of source) yield* splitter.push(chunk);
  yield* splitter.end();
}

function textOf({ bytes }: TextLine): string {
  if (bytes === undefined)
    throw new SluiceError("REQUEST_INVALID", `it is longer than ${LONGEST_REQUEST / 1024 / 1024} MiB`);
  const text = lineText(bytes);
  if (text === undefined) throw new SluiceError("REQUEST_INVALID", "it is no UTF-8");
  return text.trim();
}

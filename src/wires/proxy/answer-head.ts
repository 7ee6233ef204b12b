import { STATUS_CODES } from "node:http";
import type { HeaderList } from "../../base/inference/headers.ts";

const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const NO_VALUE = /[^\t\x20-\x7e\x80-\xff]/;

/** What the lines of an answer say about its frame. */
interface Lines {
  text: string;
  /** They have the length of the body. */
  measured: boolean;
  dated: boolean;
}

/** The connection, as the head of an answer shows it. */
export interface AnswerFrame {
  /** The client can read chunks, and takes a connection as kept without a word. */
  readonly http11: boolean;
  /** The answer may have a body. */
  readonly hasBody: boolean;
  /** The connection may go on, if both sides know where the answer ends. */
  readonly keepAlive: boolean;
  /** Milliseconds for which the connection then waits for a request. */
  readonly keptFor: number;
  /** Wall-clock milliseconds. */
  readonly wall: number;
}

/** The head of an answer. */
export interface AnswerHead {
  /** With the empty line that ends it; every character is a byte. */
  readonly text: string;
  /** The body leaves in chunks. */
  readonly chunked: boolean;
  /** The connection goes on after the answer. */
  readonly keepAlive: boolean;
  /** The end of the connection is the end of the body. */
  readonly closeDelimited: boolean;
}

/** The head of an answer with headers of a list. @throws Error for a header that is not valid HTTP */
export function listedHead(status: number, headers: HeaderList, frame: AnswerFrame): AnswerHead {
  const lines: Lines = { text: "", measured: false, dated: false };
  for (let i = 0; i < headers.length; i++) add(lines, headers.keys[i]!, headers.values[i]!);
  return framed(status, lines, frame);
}

/** The head of an answer. @param headers name, value, name, value @throws Error for a header that is not valid HTTP */
export function flatHead(status: number, headers: readonly string[], frame: AnswerFrame): AnswerHead {
  const lines: Lines = { text: "", measured: false, dated: false };
  for (let i = 0; i < headers.length; i += 2) add(lines, headers[i]!, headers[i + 1]!);
  return framed(status, lines, frame);
}

function add(lines: Lines, name: string, value: string): void {
  if (!NAME.test(name)) throw new Error(`the name of the header ${JSON.stringify(name)} is not valid HTTP`);
  if (NO_VALUE.test(value)) throw new Error(`the value of the header ${name} is not valid HTTP`);
  if (name.length === 14 && name.toLowerCase() === "content-length") lines.measured = true;
  else if (name.length === 4 && name.toLowerCase() === "date") lines.dated = true;
  lines.text += `${name}: ${value}\r\n`;
}

/** The lines that node:http writes, in its order. */
function framed(status: number, { text, measured, dated }: Lines, frame: AnswerFrame): AnswerHead {
  const { http11, hasBody, keptFor } = frame;
  const unmeasured = hasBody && !measured;
  const keepAlive = frame.keepAlive && (measured || http11);
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "unknown"}\r\n${text}`;
  if (!dated) head += dateLine(frame.wall);
  if (!keepAlive) head += "Connection: close\r\n";
  else if (keptFor > 0) head += `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keptFor / 1000)}\r\n`;
  else head += "Connection: keep-alive\r\n";
  if (unmeasured && http11) head += "Transfer-Encoding: chunked\r\n";
  return { text: `${head}\r\n`, chunked: unmeasured && http11, keepAlive, closeDelimited: unmeasured && !http11 };
}

let second = Number.NaN;
let date = "";

/** The header `Date`, which is made once a second. */
function dateLine(wall: number): string {
  const now = Math.floor(wall / 1000);
  if (now !== second) {
    second = now;
    date = `Date: ${new Date(wall).toUTCString()}\r\n`;
  }
  return date;
}

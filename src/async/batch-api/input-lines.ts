import { closeSync, openSync, readSync } from "node:fs";
import { LineSplitter, type TextLine } from "../../base/document/line-splitter.ts";

/** Bytes of the longest line: the largest body that gateways take, and the rest of the line. */
export const MAX_LINE = 33 * 1024 * 1024;
/** Bytes of one read, which is one stretch of work. */
const CHUNK = 256 * 1024;

/** The lines of an input file, those of one read together. They may share its memory: use them before the next ones. */
export function* inputLines(path: string): Generator<Iterable<TextLine>> {
  const file = openSync(path, "r");
  try {
    const splitter = new LineSplitter(MAX_LINE);
    for (;;) {
      const chunk = Buffer.allocUnsafe(CHUNK);
      const read = readSync(file, chunk, 0, CHUNK, null);
      yield read === 0 ? splitter.end() : splitter.push(chunk.subarray(0, read));
      if (read === 0) return;
    }
  } finally {
    closeSync(file);
  }
}

/** Whether a line has nothing but white space. */
export function isBlank({ bytes }: TextLine): boolean {
  if (bytes === undefined) return false;
  for (const byte of bytes) {
    if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0d) return false;
  }
  return true;
}

/** The text without a byte order mark. */
export function withoutMark(text: string): string {
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
}

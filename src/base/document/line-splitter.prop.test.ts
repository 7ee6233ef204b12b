import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LineSplitter, lineText, type TextLine } from "./line-splitter.ts";

function split(chunks: readonly Buffer[], limit = 1000): TextLine[] {
  const splitter = new LineSplitter(limit);
  return [...chunks.flatMap((chunk) => [...splitter.push(chunk)]), ...splitter.end()];
}

/** Cuts `bytes` into pieces at the given places. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [0, ...places.map((place) => place % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
  return at.slice(1).map((end, i) => bytes.subarray(at[i]!, end));
}

describe("LineSplitter", () => {
  it("finds the same lines with the same places, wherever the file is cut into chunks", () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: fc.constantFrom("a", "é", "{", "\r", " ") })),
        fc.boolean(),
        fc.array(fc.nat(500)),
        (texts, ended, places) => {
          const file = Buffer.from(texts.join("\n") + (ended ? "\n" : ""));
          const lines = split(cut(file, places));
          const wanted = file.toString().split("\n");
          if (wanted.at(-1) === "") wanted.pop();
          const last = wanted.length - 1;
          const endedAt = (at: number): boolean => at < last || file.at(-1) === 0x0a;
          expect(lines.map(({ bytes }) => bytes?.toString())).toEqual(
            wanted.map((text, at) => (endedAt(at) ? text.replace(/\r$/, "") : text)),
          );
          for (const [at, line] of lines.entries()) {
            expect(line.number).toBe(at + 1);
            expect(line.ended).toBe(endedAt(at));
            expect(file.subarray(line.start, line.start + line.bytes!.length).equals(line.bytes!)).toBe(true);
          }
        },
      ),
    );
  });

  it("skips a line that is too long without keeping it, and goes on behind it", () => {
    const lines = split([Buffer.from("ab\n"), Buffer.alloc(50, "x"), Buffer.from("x\nabcd\r\nabcde\nend")], 4);
    expect(lines.map(({ number, start, bytes }) => [number, start, bytes?.toString()])).toEqual([
      [1, 0, "ab"],
      [2, 3, undefined],
      [3, 55, "abcd"],
      [4, 61, undefined],
      [5, 67, "end"],
    ]);
  });

  it("knows text from what is not UTF-8, and leaves a byte order mark out", () => {
    expect(lineText(Buffer.from("\ufeff{}"))).toBe("{}");
    expect(lineText(Buffer.from([0x22, 0xff, 0x22]))).toBeUndefined();
  });
});

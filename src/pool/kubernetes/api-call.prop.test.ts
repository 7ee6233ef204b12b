import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { WatchLineSplitter } from "./api-call.ts";

function pieces(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const at = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...at].map((start, i) => bytes.subarray(start, at[i] ?? bytes.length));
}

describe("LineSplitter", () => {
  it("gives the lines of the text wherever its bytes are cut, characters of several bytes included", () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: "binary", maxLength: 20 }), { maxLength: 20 }),
        fc.array(fc.nat(), { maxLength: 20 }),
        (texts, cuts) => {
          const text = texts.map((each) => Buffer.from(each).toString()).join("\n");
          const lines: string[] = [];
          const splitter = new WatchLineSplitter(
            1_000_000,
            (line) => lines.push(line),
            () => new Error("too long"),
          );
          for (const piece of pieces(Buffer.from(text), cuts)) splitter.push(piece);
          splitter.end();
          expect(lines).toEqual(text.split("\n").filter((line) => line !== ""));
        },
      ),
    );
  });

  it("takes a line of exactly the bound and refuses a longer one, in whatever pieces (bound)", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 20 }), fc.array(fc.nat()), (size, cuts) => {
        const lines: string[] = [];
        const splitter = new WatchLineSplitter(
          10,
          (line) => lines.push(line),
          () => new Error("too long"),
        );
        const feed = () => {
          for (const piece of pieces(Buffer.from(`ab\n${"x".repeat(size)}\nc\n`), cuts)) splitter.push(piece);
        };
        if (size > 10) expect(feed).toThrow("too long");
        else {
          feed();
          expect(lines).toEqual(["ab", "x".repeat(size), "c"].filter((line) => line !== ""));
        }
      }),
    );
  });
});

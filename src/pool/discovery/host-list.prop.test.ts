import fc from "fast-check";
import { describe, it } from "vitest";
import { expandHosts } from "./host-list.ts";

/** A name as its parts: a text, or ranges of numbers with the width that they are written in. */
type Range = { readonly low: number; readonly more: number; readonly width: number };
type Piece = string | readonly Range[];

const text = fc.stringMatching(/^[a-z][a-z0-9]{0,3}$/);
const range = fc.record({
  low: fc.nat(120),
  more: fc.nat(4),
  width: fc.nat(5),
});
const name = fc.tuple(
  text,
  fc.array(fc.oneof(text, fc.array(range, { minLength: 1, maxLength: 3 })), { maxLength: 3 }),
);

const padded = (n: number, width: number): string => `${"0".repeat(Math.max(0, width - `${n}`.length))}${n}`;

function written(pieces: readonly Piece[]): string {
  let out = "";
  for (const piece of pieces) {
    if (typeof piece === "string") out += piece;
    else
      out += `[${piece
        .map(({ low, more, width }) =>
          more === 0 ? padded(low, width) : `${padded(low, width)}-${padded(low + more, width)}`,
        )
        .join(",")}]`;
  }
  return out;
}

/** The slow and obvious way: one piece after the other, from the back. */
function expanded([first, ...rest]: readonly Piece[]): string[] {
  if (first === undefined) return [""];
  const tails = expanded(rest);
  const found: string[] = [];
  if (typeof first === "string") for (const tail of tails) found.push(first + tail);
  else
    for (const { low, more, width } of first)
      for (let n = low; n <= low + more; n++) for (const tail of tails) found.push(padded(n, width) + tail);
  return found;
}

describe("expandHosts", () => {
  it("agrees with a naive expander", () => {
    const separator = fc.constantFrom(",", " ", ", ", "\n");
    const same = fc.property(fc.array(name, { minLength: 1, maxLength: 4 }), separator, (names, between) => {
      const lists = names.map(([first, rest]) => [first, ...rest] as readonly Piece[]);
      const expected = [...new Set(lists.flatMap(expanded))];
      const list = expandHosts(lists.map(written).join(between));
      if (!("hosts" in list)) return expected.length > 4096 || lists.flatMap(expanded).length > 4096;
      return JSON.stringify(list.hosts) === JSON.stringify(expected);
    });
    fc.assert(same, { numRuns: 500 });
  });

  it("never throws, and names a place in the text", () => {
    const alphabet = fc.constantFrom("a", "1", "0", "9", "-", "[", "]", ",", " ", ".", "/");
    const total = fc.property(fc.array(alphabet, { maxLength: 24 }), (letters) => {
      const text = letters.join("");
      const list = expandHosts(text);
      return "hosts" in list ? list.hosts.length > 0 : list.at >= 0 && list.at <= text.length;
    });
    fc.assert(total, { numRuns: 2000 });
  });
});

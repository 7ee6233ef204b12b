import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { JsonMembers, kindOf } from "./members.ts";
import { decodeString, isTokenList } from "./ranges.ts";
import { JsonScanner } from "./scanner.ts";

const none = new JsonMembers([]);

/** The text at an offset of a larger allocation, so that every alignment of the word view is met. */
function placed(text: string | Uint8Array, offset: number): Uint8Array {
  const bytes = typeof text === "string" ? Buffer.from(text) : text;
  const memory = new Uint8Array(bytes.length + offset + 5).fill(0x22);
  memory.set(bytes, offset);
  return memory.subarray(offset, offset + bytes.length);
}

function acceptedByOracle(bytes: Uint8Array): boolean {
  try {
    JSON.parse(Buffer.from(bytes).toString());
    return true;
  } catch {
    return false;
  }
}

function accepted(bytes: Uint8Array): boolean {
  const error = none.read(new JsonScanner(bytes));
  if (error !== undefined) expect(error).toMatch(/^(invalid character '|unexpected end of JSON input$|json: cannot)/);
  return error === undefined || error.startsWith("json: cannot unmarshal");
}

/** JSON of the same value in which a character is escaped where `choose` says so: short, as \\u in small or in capital letters. */
function escapedJson(value: string, choose: (at: number) => number): string {
  const short: Readonly<Record<string, string>> = { "\n": "\\n", "/": "\\/", "\t": "\\t", '"': '\\"', "\\": "\\\\" };
  let out = "";
  for (let at = 0; at < value.length; at++) {
    const unit = value.charCodeAt(at).toString(16).padStart(4, "0");
    const way = choose(at);
    const must = JSON.stringify(value[at]).length > 3 && !/[\ud800-\udfff]/.test(value[at]!);
    if (way === 1 || (must && way === 0)) out += `\\u${unit}`;
    else if (way === 2) out += `\\u${unit.toUpperCase()}`;
    else out += short[value[at]!] ?? (must ? `\\u${unit}` : value[at]!);
  }
  return `"${out}"`;
}

const offset = fc.integer({ min: 0, max: 4 });
const text = fc.string({ unit: "binary", maxLength: 300 });
const value = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    text,
    fc.double(),
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 6 }),
    fc.dictionary(fc.string({ unit: "binary", maxLength: 12 }), tie("value"), { maxKeys: 6 }),
  ),
})).value;
const indent = fc.constantFrom("", " ", "\t", "  ");
/** White space that makes even a tiny document long enough for the word view. */
const padding = fc.constantFrom("", " ".repeat(140));
/** Pieces of JSON in any order: close to valid more often than random bytes are. */
const pieces = fc.array(
  fc.constantFrom(
    ..."{}[],:".split(""),
    ...['"', '"a"', "\\", "\\n", "\\u00e9", "\\u00", "é", " ", "\n", "\u0001", "x"],
    ...["0", "1", "-", ".", "e", "E+", "true", "false", "null", "nul", '"model":', "a".repeat(140)],
  ),
  { maxLength: 14 },
);

/** Long strings, which the scan searches with native code: plain text with some other pieces at any place. */
const longString = fc
  .array(
    fc.tuple(
      fc.oneof(fc.integer({ min: 0, max: 8 }), fc.integer({ min: 500, max: 1200 })),
      fc.constantFrom("", '\\"', "\\\\", "\\n", "\\u00e9", "\\x", "é", "\u001f", "\u0000", '"', " ", "\u007f"),
    ),
    { minLength: 1, maxLength: 6 },
  )
  .map((parts) => `"${parts.map(([plain, piece]) => "a".repeat(plain) + piece).join("")}"`);

describe("JSON scanner against JSON.parse", () => {
  it("agrees on long strings, at every alignment", () => {
    fc.assert(
      fc.property(longString, offset, (text, at) => {
        const bytes = placed(text, at);
        expect(accepted(bytes)).toBe(acceptedByOracle(bytes));
      }),
      { numRuns: 600 },
    );
  });

  it("ends each of several long strings at its own quote", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 400, max: 2000 }), { minLength: 1, maxLength: 5 }),
        offset,
        (lengths, at) => {
          const values = lengths.map((length, i) => (i % 2 === 0 ? "b" : "\n").repeat(length));
          const bytes = placed(JSON.stringify(values), at);
          const scanner = new JsonScanner(bytes);
          const found: unknown[] = [];
          for (let start = scanner.firstElement(0); start >= 0; ) {
            const end = scanner.skipValue(start);
            found.push(JSON.parse(Buffer.from(bytes.subarray(start, end)).toString()));
            start = scanner.nextElement(end);
          }
          expect(found).toEqual(values);
        },
      ),
    );
  });

  it("accepts what JSON.stringify writes, at every alignment", () => {
    fc.assert(
      fc.property(value, indent, offset, (document, space, at) => {
        expect(accepted(placed(JSON.stringify(document, null, space), at))).toBe(true);
      }),
      { numRuns: 400 },
    );
  });

  it("agrees on documents with a byte changed, added or cut", () => {
    const change = fc.record({ at: fc.nat(), byte: fc.integer({ min: 0, max: 255 }), how: fc.constantFrom(0, 1, 2) });
    fc.assert(
      fc.property(value, indent, offset, change, (document, space, at, { how, ...edit }) => {
        const bytes = [...Buffer.from(JSON.stringify(document, null, space))];
        bytes.splice(edit.at % (bytes.length + 1), how === 0 ? 0 : 1, ...(how === 2 ? [] : [edit.byte]));
        const changed = placed(Uint8Array.from(bytes), at);
        expect(accepted(changed)).toBe(acceptedByOracle(changed));
      }),
      { numRuns: 2000 },
    );
  });

  it("agrees on shuffled pieces of JSON", () => {
    fc.assert(
      fc.property(pieces, padding, offset, (parts, pad, at) => {
        const bytes = placed(parts.join("") + pad, at);
        expect(accepted(bytes)).toBe(acceptedByOracle(bytes));
      }),
      { numRuns: 6000 },
    );
  });

  it("agrees on arbitrary bytes and never throws", () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 40 }),
      fc.tuple(fc.string({ unit: "grapheme-ascii", maxLength: 6 }), fc.string({ maxLength: 6 })).map(([key, text]) => {
        return new Uint8Array(Buffer.from(`{"${key}":"${text}"}${" ".repeat(140)}`));
      }),
      fc.uint8Array({ minLength: 100, maxLength: 200 }).map((body) => Uint8Array.of(0x22, ...body, 0x22)),
    );
    fc.assert(
      fc.property(bytes, offset, (body, at) => {
        const changed = placed(body, at);
        expect(accepted(changed)).toBe(acceptedByOracle(changed));
      }),
      { numRuns: 2000 },
    );
  });

  it("gives ranges that hold exactly the members' values", () => {
    const object = fc.dictionary(fc.string({ unit: "binary", maxLength: 12 }), value, { maxKeys: 8 });
    fc.assert(
      fc.property(object, indent, offset, (document, space, at) => {
        const json = JSON.stringify(document, null, space);
        const oracle = JSON.parse(json) as Record<string, unknown>;
        const names = Object.keys(oracle);
        const members = new JsonMembers([...names, "not there, longer than any"]);
        const bytes = placed(json, at);
        expect(members.read(new JsonScanner(bytes))).toBeUndefined();
        for (const name of names) {
          const { start, end } = members.range(name);
          expect(JSON.parse(Buffer.from(bytes).toString("utf8", start, end))).toEqual(oracle[name]);
          expect(members.kind(name)).toBe(kindOf(bytes[start]!));
          if (members.kind(name) === "string") expect(decodeString(bytes, start, end)).toBe(oracle[name]);
        }
        expect(members.kind("not there, longer than any")).toBeUndefined();
      }),
      { numRuns: 500 },
    );
  });

  it("walks over the elements of an array", () => {
    fc.assert(
      fc.property(fc.array(value, { maxLength: 8 }), indent, offset, (elements, space, at) => {
        const bytes = placed(JSON.stringify(elements, null, space), at);
        const scanner = new JsonScanner(bytes);
        const seen: unknown[] = [];
        for (let start = scanner.firstElement(0); start >= 0; ) {
          const end = scanner.skipValue(start);
          seen.push(JSON.parse(Buffer.from(bytes).toString("utf8", start, end)));
          start = scanner.nextElement(end);
        }
        expect(seen).toEqual(JSON.parse(Buffer.from(bytes).toString()));
      }),
    );
  });

  it("tells lists of token ids from other arrays", () => {
    const element = fc.oneof(
      { weight: 8, arbitrary: fc.nat() },
      fc.integer(),
      fc.double(),
      fc.constantFrom("1", null, [1], {}),
    );
    fc.assert(
      fc.property(fc.array(element, { maxLength: 6 }), indent, (elements, space) => {
        const bytes = Buffer.from(JSON.stringify(elements, null, space));
        const literals = elements.map((one) => JSON.stringify(one));
        expect(isTokenList(bytes, 0, bytes.length)).toBe(literals.every((literal) => /^\d+$/.test(literal)));
      }),
      { numRuns: 500 },
    );
  });
});

describe("the bytes that escapes add", () => {
  const members = new JsonMembers(["text", "other"]);

  it("are what a text has as received, less what it has in UTF-8, wherever it stands", () => {
    // A half of a surrogate pair is replaced by three bytes when it is decoded; whole ones stay whole here.
    const whole = fc.string({ unit: "grapheme", maxLength: 60 });
    const ways = fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1 });
    fc.assert(
      fc.property(whole, whole, ways, offset, padding, (text, other, choice, at, space) => {
        let pair = 0;
        const choose = (value: string) => (i: number) => {
          const low = /[\udc00-\udfff]/.test(value[i]!);
          if (!low) pair = choice[i % choice.length]!;
          return pair;
        };
        const one = escapedJson(text, choose(text));
        const two = escapedJson(other, choose(other));
        const body = placed(`{${space}"text":[${one},{${two}:1}],"other":${two}}`, at);
        const scanner = new JsonScanner(body);
        expect(members.read(scanner)).toBeUndefined();
        const added = (json: string, value: string): number => Buffer.byteLength(json) - 2 - Buffer.byteLength(value);
        const range = members.range("text");
        expect(members.escapeBytesOf([[{ start: range.start + 1, end: range.end }]])).toBe(
          added(one, text) + added(two, other),
        );
        expect(members.escapeBytesOf([[members.range("other")]])).toBe(added(two, other));
        expect(members.escapeBytesOf([[range, members.range("other")]])).toBe(added(one, text) + 2 * added(two, other));
        expect(members.escapeBytesOf([])).toBe(0);
      }),
    );
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { encodeEnvelope, NO_ROUTING, parseEnvelope } from "./envelope.ts";
import { memberRanges } from "./json-members.ts";

const space = fc.string({ unit: fc.constantFrom(" ", "\n", "\r", "\t"), maxLength: 3 });
/** Numbers as people write them, most of which no re-encoding would keep. */
const number = fc.oneof(
  fc.constantFrom("-0", "1.0", "0.1e-7", "1E+21", "12345678901234567890", "9007199254740993", "1e400"),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
);
/** Texts with escapes that mean the same as the character itself, quotes and backslashes in any number. */
const string = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        '\\"',
        "\\\\",
        "\\/",
        "\\n",
        "\\u003c",
        "\\u00e9",
        "\\ud83d\\ude00",
        "<",
        "é",
        "\u2028",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "😀",
      ),
      fc.string({ maxLength: 4 }).map((text) => JSON.stringify(text.toWellFormed()).slice(1, -1)),
    ),
    { maxLength: 6 },
  )
  .map((pieces) => `"${pieces.join("")}"`);

/** The text of a JSON value with odd spacing. */
const { value } = fc.letrec<{ value: string; object: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    number,
    string,
    fc.constantFrom("true", "false", "null"),
    tie("object"),
    list(tie("value")),
  ),
  object: members(tie("value")).map((pairs) => `{${pairs.map(([name, text]) => `${name}${text}`).join(",")}}`),
}));

function list(element: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc
    .tuple(fc.array(fc.tuple(space, element, space), { maxLength: 4 }), space)
    .map(
      ([elements, blank]) => `[${elements.length === 0 ? blank : elements.map((parts) => parts.join("")).join(",")}]`,
    );
}

/** Names with their colon, and values, both with spaces around. */
function members(element: fc.Arbitrary<string>): fc.Arbitrary<(readonly [string, string])[]> {
  const pair = fc
    .tuple(space, string, space, space, element, space)
    .map(([a, name, b, c, text, d]) => [`${a}${name}${b}:`, `${c}${text}${d}`] as const);
  return fc.array(pair, { maxLength: 5 });
}

describe("the ranges of an object's members", () => {
  it("hold what JSON.parse reads", () => {
    fc.assert(
      fc.property(members(value), space, (pairs, blank) => {
        const text = `${blank}{${pairs.map((pair) => pair.join("")).join(",")}${pairs.length === 0 ? blank : ""}}${blank}`;
        const expected = JSON.parse(text) as Record<string, unknown>;
        const ranges = memberRanges(text);
        expect([...ranges.keys()].sort()).toEqual(Object.keys(expected).sort());
        for (const [name, { start, end }] of ranges) {
          const slice = text.slice(start, end);
          expect(slice).toBe(slice.trim());
          expect(JSON.parse(slice)).toEqual(expected[name]);
        }
      }),
      { numRuns: 500 },
    );
  });

  it("are found behind other text", () => {
    const text = '[1, {"a": "}"}';
    const { start, end } = memberRanges(text, 3).get("a")!;
    expect(text.slice(start, end)).toBe('"}"');
  });
});

describe("A-32: the payload's bytes", () => {
  it("are those of the producer, whatever they are", () => {
    fc.assert(
      fc.property(members(value), space, (pairs, blank) => {
        const payload = `{${pairs.map((pair) => pair.join("")).join(",")}}`;
        const data = `{"id":"a",${blank}"payload"${blank}:${blank}${payload}${blank},"deadline":5}`;
        const envelope = encodeEnvelope({ routing: NO_ROUTING, kind: "redis", text: data });
        const message = parseEnvelope(envelope);
        expect(Buffer.from(message.request.payload!).equals(Buffer.from(payload))).toBe(true);
        // Also after a retry has written the envelope anew.
        const retried = encodeEnvelope({ ...message, routing: { ...message.routing, retryCount: 1 } });
        expect(Buffer.from(parseEnvelope(retried).request.payload!).equals(Buffer.from(payload))).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { parseDocument } from "./parse.ts";

const parse = (text: string) => parseDocument(text, { file: "f" });
/** All of JSON but the key that is refused. */
const value = fc
  .jsonValue({ maxDepth: 5, noUnicodeString: false })
  .filter((given) => !JSON.stringify(given).includes('"__proto__":'));

describe("parseDocument on anything", () => {
  it("reads JSON as JSON.parse does, compact or indented", () => {
    fc.assert(
      fc.property(value, fc.constantFrom("", "  ", "\t"), (input, indent) => {
        const text = JSON.stringify(input, null, indent);
        expect(parse(text).value).toEqual(JSON.parse(text));
      }),
    );
  });

  it("reads what a YAML writer writes, and knows where every key stands", () => {
    const flat = fc.dictionary(
      fc.string({ unit: fc.constantFrom(..."abc-_"), minLength: 1, maxLength: 6 }).filter((key) => /^[a-c]/.test(key)),
      fc.oneof(fc.integer(), fc.boolean(), fc.array(fc.nat())),
    );
    fc.assert(
      fc.property(flat, (input) => {
        const text = stringify(input);
        const document = parse(text);
        expect(document.value).toEqual(input);
        for (const key of Object.keys(input)) {
          const { line, column } = document.positionOf([key]);
          expect(text.split("\n")[line - 1]!.slice(column - 1)).toMatch(new RegExp(`^${key}:`));
        }
      }),
    );
  });

  it("answers any text with a document or its own error", () => {
    const text = fc.array(
      fc.constantFrom(
        ..."ab1:-?,[]{}&*!|>'\"#%@ \t\n\r\u0000\u00e9",
        "- ",
        ": ",
        "\n  ",
        "---\n",
        "<<: ",
        "&a ",
        "*a ",
      ),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(text, (pieces) => {
        try {
          parse(pieces.join("")).positionOf(["a", 0]);
        } catch (error) {
          expect(error).toMatchObject({ code: "DOCUMENT_SYNTAX" });
          expect((error as Error).message).toMatch(/^f:\d+:\d+: /);
        }
      }),
      { numRuns: 2000 },
    );
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SluiceError } from "../../base/inference/errors.ts";
import { EPP_FLAGS } from "../epp/epp-flag-table.ts";
import { type FlagRow, parseGoFlags } from "./go-flags.ts";

const TABLE = [
  { name: "text", aliases: ["oldText"], type: "string", default: "", since: "", help: "" },
  { name: "count", aliases: ["oldCount"], type: "int", default: "0", since: "", help: "" },
  { name: "on", type: "bool", default: "false", since: "", help: "" },
  { name: "words", type: "list", default: "", since: "", help: "" },
] as const satisfies readonly FlagRow[];

const dashes = fc.constantFrom("-", "--");
const joint = fc.boolean();
const write = (dash: string, name: string, value: string, attached: boolean): string[] =>
  attached ? [`${dash}${name}=${value}`] : [`${dash}${name}`, value];
const textValue = fc.string({ maxLength: 8 }).filter((value) => !value.startsWith("-"));

const given = fc.oneof(
  fc
    .tuple(dashes, fc.constantFrom("text", "oldText"), textValue, joint)
    .map((parts) => ["text", parts[2], write(...parts)] as const),
  fc
    .tuple(dashes, fc.constantFrom("count", "oldCount"), fc.integer().map(String), joint)
    .map((parts) => ["count", Number(parts[2]), write(...parts)] as const),
  fc.tuple(dashes, fc.boolean()).map(([dash, value]) => ["on", value, [`${dash}on=${value}`]] as const),
  dashes.map((dash) => ["on", true, [`${dash}on`]] as const),
  fc
    .tuple(dashes, fc.array(fc.string({ unit: fc.constantFrom(..."ab1"), minLength: 1 }), { maxLength: 3 }), joint)
    .map(([dash, list, attached]) => ["words", list, write(dash, "words", list.join(), attached)] as const),
);

describe("parseGoFlags on any command line", () => {
  it("finds what was written, whatever the notation", () => {
    fc.assert(
      fc.property(fc.array(given, { maxLength: 8 }), (flags) => {
        const expected: Record<string, unknown> = { text: "", count: 0, on: false, words: [] };
        for (const [name, value] of flags)
          expected[name] = name === "words" ? [...(expected.words as string[]), ...(value as string[])] : value;
        const { values, explicit } = parseGoFlags(
          flags.flatMap(([, , words]) => words),
          TABLE,
          {},
        );
        expect(values).toEqual(expected);
        expect(explicit).toEqual(new Set(flags.map(([name]) => name)));
      }),
    );
  });

  it("answers anything with flags or an error of its own", () => {
    const names = EPP_FLAGS.flatMap((row: FlagRow) => [row.name, ...(row.aliases ?? [])]);
    const word = fc.oneof(
      fc.string({ maxLength: 10 }),
      fc
        .tuple(
          fc.constantFrom("", "-", "--"),
          fc.constantFrom(...names),
          fc.constantFrom("", "=", "=1", "=true", "=5s", "=x"),
        )
        .map((parts) => parts.join("")),
    );
    fc.assert(
      fc.property(fc.array(word, { maxLength: 6 }), (args) => {
        try {
          parseGoFlags(args, EPP_FLAGS, {});
        } catch (error) {
          expect(error).toBeInstanceOf(SluiceError);
          expect((error as SluiceError).code).toMatch(/^FLAG_/);
        }
      }),
    );
  });
});

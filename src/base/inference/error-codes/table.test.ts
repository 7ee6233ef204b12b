import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SluiceError } from "../errors.ts";
import { ERROR_AREAS, ERRORS, errorRow, type SluiceErrorCode } from "./table.ts";

const SRC = join(import.meta.dirname, "..", "..", "..");
const ROWS = Object.entries(ERRORS);
const CODE = /[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*/;

/** The text of every source file outside this folder, tests left out. */
const SOURCES = readdirSync(SRC, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".ts") && !/\.(test|cases)\.ts$/.test(name) && !name.includes("error-codes"))
  .map((name) => ({ name, text: readFileSync(join(SRC, name), "utf8") }));

/** The codes that a text gives to `new SluiceError` or, in a subclass, to `super`: as a literal or by the name of a constant. */
function thrownIn(text: string): string[] {
  const literals = [...text.matchAll(/\b(?:SluiceError|super)\(\s*"([A-Z0-9_]+)"/g)].map(([, code]) => code!);
  const named = [...text.matchAll(/\bSluiceError\(\s*([A-Z][A-Z0-9_]*)\b/g)].map(
    ([, name]) => new RegExp(`\\bconst ${name} = "(${CODE.source})"`).exec(text)?.[1] ?? name!,
  );
  return [...literals, ...named];
}

describe("the table of errors", () => {
  it("has a code in one area only", () => {
    const codes = Object.values(ERROR_AREAS).flatMap((rows) => Object.keys(rows));
    expect(codes.length).toBeGreaterThan(100);
    expect(codes).toEqual([...new Set(codes)]);
    expect(codes.sort()).toEqual(Object.keys(ERRORS).sort());
  });

  it.each(ROWS)("has one short sentence each for cause and remedy of %s", (code, row) => {
    expect(code).toMatch(new RegExp(`^${CODE.source}$`));
    expect([1, 2]).toContain(row.exit);
    for (const sentence of [row.cause, row.remedy]) {
      expect(sentence).toMatch(/^[A-Z][^|\n]*\.$/);
      expect(sentence, "one sentence").not.toMatch(/[.!?] [A-Z]/);
      expect(sentence.split(" ").length, "words").toBeLessThanOrEqual(25);
    }
  });

  it("ends a command with 2 for a wrong command line and wrong input, and with 1 for all else", () => {
    const flags = [
      "COMMAND_UNKNOWN",
      "ARGUMENT_UNEXPECTED",
      "FLAG_UNKNOWN",
      "FLAG_SYNTAX",
      "FLAG_VALUE",
      "FLAG_MISSING",
      "SIM_OPTION",
      "QUEUE_UNKNOWN",
    ];
    const input = ["ENQUEUE_INPUT", "REQUEST_INVALID", "BATCH_INPUT", "BATCH_INVALID", "REPLAY_INPUT", "TRACE_INPUT"];
    const two = ROWS.filter(([, { exit }]) => exit === 2).map(([code]) => code);
    expect(two.sort()).toEqual([...flags, ...input, "CHECK_UNREACHABLE"].sort());
  });

  it("says no cause and no remedy twice", () => {
    const sentences = ROWS.flatMap(([, { cause, remedy }]) => [cause, remedy]);
    expect(sentences.filter((sentence, at) => sentences.indexOf(sentence) !== at)).toEqual([]);
  });

  it("has exactly the codes that are thrown", () => {
    const thrown = new Set(SOURCES.flatMap(({ text }) => thrownIn(text)));
    expect([...thrown].sort()).toEqual(Object.keys(ERRORS).sort());
  });

  it("has every code that a comment says is thrown", () => {
    const stale = SOURCES.flatMap(({ name, text }) =>
      [...text.matchAll(/\bSluiceError ((?:[A-Z][A-Z0-9]*_[A-Z0-9_]*(?:\.\.\.)?(?:,? |;|$))+)/gm)]
        .flatMap(([, list]) => list!.match(/[A-Z][A-Z0-9_]*/g) ?? [])
        .filter(
          (code) =>
            !Object.keys(ERRORS).some((known) => (code.endsWith("_") ? known.startsWith(code) : known === code)),
        )
        .map((code) => `${name}: ${code}`),
    );
    expect(stale).toEqual([]);
  });

  it("is the type of the code", () => {
    const code: SluiceErrorCode = "FLAG_VALUE";
    expect(new SluiceError(code, "text").code).toBe("FLAG_VALUE");
    // @ts-expect-error: the table has no such code
    expect(errorRow(new SluiceError("NOT_IN_THE_TABLE", "text").code)).toBeUndefined();
    expect(errorRow("toString")).toBeUndefined();
  });
});

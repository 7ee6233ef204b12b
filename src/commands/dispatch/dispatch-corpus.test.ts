import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseDocument } from "../../base/document/parse.ts";
import { kindOf } from "../config/validate-file.ts";
import { validateDispatch } from "./validate-dispatch.ts";

// Files as the reference's repository has them: values of its chart, the files that its flags name, and every gate of its
// tests. A comment says what a check finds; a JSON file has none and is right.

const FOLDER = join(import.meta.dirname, "../../../test/corpus/dispatch");
const FILES = readdirSync(FOLDER).sort();

describe("files of the reference and of sluice", () => {
  it.each(FILES)("%s is what it says", async (file) => {
    const text = readFileSync(join(FOLDER, file), "utf8");
    const expected = [...text.matchAll(/Expect: (.*)/g)].map(([, wanted]) => wanted!);
    const document = parseDocument(text, { file });
    expect(kindOf(document.value)).toBe("dispatch");
    const { summary, error, warnings } = await validateDispatch(document, FOLDER);
    const found = [...(error?.message.split("\n") ?? []), ...warnings].map((line) => line.trim());
    if (expected.length === 0 || expected.includes("ok.")) {
      expect(error).toBeUndefined();
      expect(summary).toBeTruthy();
      expect(warnings.filter((warning) => warning.includes("unknown key"))).toEqual([]);
      return;
    }
    expect(error).toBeDefined();
    for (const wanted of expected)
      expect(found, `${wanted} in\n${found.join("\n")}`).toContainEqual(
        expect.stringContaining(/^\d/.test(wanted) ? `${file}:${wanted}` : wanted),
      );
  });

  it("are right ones and wrong ones of each sort", () => {
    for (const sort of ["chart-", "transport-", "list-", "pools", "merge", "transforms", "gates"])
      expect(FILES.filter((file) => file.startsWith(sort)).length, sort).toBeGreaterThan(1);
    expect(FILES.filter((file) => file.includes("refused")).length).toBeGreaterThan(6);
  });
});

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { mutantModules, planted } from "./mutants/list.ts";

const root = join(import.meta.dirname, "..");

describe.each(mutantModules())("mutants of $name", ({ mutants }) => {
  it("has twenty at least, no two alike", () => {
    expect(mutants.length).toBeGreaterThanOrEqual(20);
    expect(new Set(mutants.map((mutant) => `${mutant.file}\n${mutant.old}\n${mutant.new}`)).size).toBe(mutants.length);
  });

  it.each(mutants)("applies to the source as it is: $why", (mutant) => {
    const source = readFileSync(join(root, mutant.file), "utf8");
    expect(planted(mutant, source)).not.toBe(source);
    for (const name of mutant.tests) expect(existsSync(join(root, name)), name).toBe(true);
  });
});

describe("planting", () => {
  const mutant = { file: "a.ts", why: "", old: "1", new: "2", tests: ["a.test.ts"] };

  it("replaces the text, dollar signs as they are", () => {
    expect(planted({ ...mutant, new: "'$&'" }, "let a = 1;")).toBe("let a = '$&';");
  });

  it.each([
    ["is not there", "let a = 3;", {}],
    ["is there twice", "let a = 11;", {}],
    ["is replaced by itself", "let a = 1;", { new: "1" }],
    ["is replaced by what does not parse", "let a = 1;", { new: "(" }],
  ])("refuses a text that %s", (_, source, change) => {
    expect(() => planted({ ...mutant, ...change }, source)).toThrow();
  });
});

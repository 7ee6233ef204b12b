import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const root = join(import.meta.dirname, "..");

interface Step {
  readonly files: readonly string[];
  readonly functions: readonly string[];
}

const inTicks = (cell: string): string[] => [...cell.matchAll(/`([^`]+)`/g)].map((match) => match[1]!);

/** Rows of the tables of CONTRIBUTING.md that name files and functions: `| # | files | functions | what |`. */
function walks(): Step[] {
  const lines = readFileSync(join(root, "CONTRIBUTING.md"), "utf8").split("\n");
  const steps: Step[] = [];
  let isWalk = false;
  for (const line of lines) {
    const cells = line.split("|").map((cell) => cell.trim());
    if (cells.length < 6) isWalk = false;
    else if (cells[2] === "File" && cells[3] === "Function") isWalk = true;
    else if (isWalk && /^\d+$/.test(cells[1]!))
      steps.push({ files: inTicks(cells[2]!), functions: inTicks(cells[3]!) });
  }
  return steps;
}

/** The file or folder that a row means; a name without a folder is beside the one before it. */
function placeOf(name: string, before: string | undefined): string | undefined {
  const beside = before === undefined ? [] : [join(before, "..", name)];
  return [...beside, join(root, "src", name), join(root, "src", "async", name)].find((path) => existsSync(path));
}

function textOf(path: string): string {
  if (!statSync(path).isDirectory()) return readFileSync(path, "utf8");
  const names = readdirSync(path, { recursive: true, encoding: "utf8" });
  const sources = names.filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"));
  return sources.map((name) => readFileSync(join(path, name), "utf8")).join("\n");
}

describe("the walks in CONTRIBUTING.md", () => {
  const steps = walks();

  it("are there", () => {
    expect(steps.length).toBeGreaterThan(20);
  });

  it.each(steps)("$files hold $functions", ({ files, functions }) => {
    const places: string[] = [];
    for (const name of files) {
      const place = placeOf(name, places.at(-1));
      expect(place, name).toBeDefined();
      places.push(place!);
    }
    const text = places.map(textOf).join("\n");
    for (const name of functions) {
      const [last, owner] = name.split(".").reverse();
      expect(text, name).toMatch(new RegExp(`(?<![\\w#])${last}(<[^>]*>)?\\(`));
      if (owner !== undefined) expect(text, name).toMatch(new RegExp(`(class|interface|function) ${owner}\\b`));
    }
  });
});

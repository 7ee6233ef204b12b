import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const root = join(import.meta.dirname, "..");
const page = readFileSync(join(root, "docs", "extend", "plugins.md"), "utf8");

/** The members that an interface in `file` declares itself, sorted. */
function membersOf(file: string, name: string): string[] {
  const text = readFileSync(join(root, "src", "base", file), "utf8");
  const [, body] = new RegExp(`interface ${name}\\b[^{]*\\{\\n(.*?)\\n\\}`, "s").exec(text) ?? [];
  return [...(body ?? "").matchAll(/^ {2}(?:readonly )?(\w+)\??[:(<]/gm)].map((match) => match[1]!).sort();
}

/** The fields in the first column of the tables in a section, sorted. @param at which of its tables, from 0 */
function fieldsOf(section: string, at = 0): string[] {
  const [, text = ""] = page.split(`### \`${section}\`\n`);
  const tables = text.split(/\n##/)[0]!.match(/(?:^\|.*\n)+/gm) ?? [];
  const cells = (tables[at] ?? "").split("\n").map((row) => row.split("|")[1] ?? "");
  return cells
    .slice(2)
    .flatMap((cell) => [...cell.matchAll(/`(\w+)/g)].map((match) => match[1]!))
    .sort();
}

/** The names in one column of the first table below a line that begins with `lead`, sorted. */
function namesBelow(lead: string, column: number): string[] {
  const [, text = ""] = page.split(`\n${lead}`);
  const rows = (/(?:^\|.*\n)+/m.exec(text)?.[0] ?? "").split("\n").slice(2);
  return rows
    .flatMap((row) => [...(row.split("|")[column] ?? "").matchAll(/`(\w+)/g)].map((match) => match[1]!))
    .sort();
}

describe("the tables of docs/extend/plugins.md", () => {
  it("have every member that a define function takes", () => {
    const members = membersOf("plugin/define.ts", "PluginSource");
    expect(members).toContain("create");
    expect(namesBelow("Each `define...` function takes these members:", 1)).toEqual(members);
  });

  it("have every kind that people write, and each method that it must have", () => {
    const watched = readFileSync(join(root, "src/picker/core/plugins/user-definition.ts"), "utf8");
    const table = /const METHODS.*?\n\};/s.exec(watched)?.[0] ?? "";
    const needed = [...table.matchAll(/needed: \[([^\]]*)\]/g)].flatMap(([, list]) => list!.match(/\w+/g) ?? []);
    expect(needed.length).toBeGreaterThan(8);
    expect(namesBelow("## Kinds", 2)).toEqual(expect.arrayContaining(needed));
  });

  it("have every field of a request", () => {
    const members = ["ParsedBody", "InferenceRequest"].flatMap((name) => membersOf("inference/request.ts", name));
    expect(members.length).toBeGreaterThan(10);
    expect(fieldsOf("request")).toEqual(members.sort());
  });

  it("have every field of the candidates", () => {
    expect(fieldsOf("candidates")).toEqual(membersOf("plugin/decision-kinds.ts", "Candidates"));
  });

  it("have every field of an endpoint and of its metrics", () => {
    expect(fieldsOf("endpoints")).toEqual(membersOf("inference/endpoint.ts", "Endpoint"));
    expect(fieldsOf("endpoints", 1)).toEqual(membersOf("inference/endpoint.ts", "EndpointMetrics"));
  });
});

import { existsSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { buildDocs, docsSources } from "./docs-pages.ts";

const OUT = mkdtempSync(join(tmpdir(), "sluice-docs-"));
const read = (path: string): string => readFileSync(join(OUT, path), "utf8");

beforeAll(() => buildDocs(OUT));

it("builds each page for users, and a list of them", () => {
  const built = readdirSync(join(OUT, "docs"), { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".html"),
  );
  expect(built).toHaveLength(docsSources().length + 1);
  const list = read("docs/index.html");
  for (const page of docsSources()) expect(list).toContain(page.slice("docs/".length).replace(/\.md$/, ".html"));
});

it("has no link that leads nowhere, and no code or style inside", () => {
  let local = 0;
  for (const page of [...docsSources().map((source) => source.replace(/\.md$/, ".html")), "docs/index.html"]) {
    const text = read(page);
    expect(text).not.toMatch(/<script|<style|\sstyle=|\son\w+=/);
    for (const [, href] of text.matchAll(/<a href="([^"]+)"/g)) {
      const [path = "", anchor] = href!.split("#");
      // What the Vite build has beside the pages: the page itself.
      if (/^https?:/.test(href!) || /^(\.\.\/)+$/.test(path)) continue;
      local++;
      const target = path === "" ? page : join(dirname(page), path);
      expect([page, href, existsSync(join(OUT, target))]).toEqual([page, href, true]);
      if (anchor !== undefined)
        expect([page, href, read(target).includes(`id="${anchor}"`)]).toEqual([page, href, true]);
    }
  }
  expect(local).toBeGreaterThan(100);
});

it("shows what the sources say: tables, code as it is, and no comment for the checks", () => {
  const flags = read("docs/reference/flags.html");
  expect(flags).toContain("<code>--full-records-every</code>");
  expect(flags).toContain("<table>");
  expect(read("docs/operate/page-data.html")).not.toContain("not run:");
  expect(read("docs/operate/page.html")).toContain('<h2 id="which-server-is-slow">Which server is slow?</h2>');
});

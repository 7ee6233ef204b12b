import { expect, it } from "vitest";
import type { Cell } from "./figures.ts";
import { between, caption, casesTable, peersTable } from "./table.ts";

const cell = (perCore: number, others = 0): Cell => ({
  perCore,
  busy: 1,
  fullP99: 12_345,
  cpu: 1234,
  p50: 300,
  p99: 4500,
  errors: 0,
  error: "",
  overrun: false,
  mib: 99.6,
  others,
});

it("has a row for each subject, and leaves out rounds in which others used the machine", () => {
  const results = {
    ours: { "1 KB": [cell(4000), cell(9, 0.21)], "16 KB": [cell(1000)] },
    theirs: { "1 KB": [cell(2000), cell(2200), cell(1800)], "16 KB": [cell(1, 0.3)] },
  };
  expect(peersTable(results, ["1 KB", "16 KB"], "theirs").split("\n").slice(2)).toEqual([
    "| ours | 4,000 / 1,000 | 0.50 / - | 1,234 / 1,234 | 0.3 / 0.3 | 4.5 / 4.5 | 12 / 12 | 100 / 100 |",
    "| theirs | 2,000 / - | 1.00 / - | 1,234 / - | 0.3 / - | 4.5 / - | 12 / - | 100 / - |",
    "",
  ]);
});

it("names the subjects that the machine lacks", () => {
  const rows = peersTable({ theirs: { "1 KB": [cell(2000)] } }, ["1 KB"], "theirs", ["absent"]).split("\n");
  expect(rows[3]).toBe("| absent | not installed | - | - | - | - | - | - |");
  const cases = casesTable({}, ["1 KB"], "theirs", ["absent"]).split("\n");
  expect(cases[2]).toMatch(/^\| 1 KB \| absent \| not installed \| - \|/);
});

it("has a row for each case with ranges, and a dash for a tail of few answers", () => {
  const cells = [cell(2000, 0.1), cell(4000), cell(3000), cell(1, 0.9)];
  const rows = casesTable({ ours: { "1 KB": cells }, theirs: { "1 KB": [cell(1500)] } }, ["1 KB"], "theirs").split(
    "\n",
  );
  expect(rows.slice(2)).toEqual([
    "| 1 KB | ours | 3 | 0.50 | 3,000 (2,000 to 4,000) | 1,234 (1,234 to 1,234) | 0.3 (0.3 to 0.3) | 4.5 (4.5 to 4.5) | - | 12 (12 to 12) | - | 100 (100 to 100) | 0.00 (0.00 to 0.10) |",
    "| 1 KB | theirs | 1 | 1.00 | 1,500 | 1,234 | 0.3 | 4.5 | - | 12 | - | 100 | 0.00 |",
    "",
  ]);
});

it("says below a table how many rounds count", () => {
  const results = { ours: { "1 KB": [cell(1, 0.1), cell(1), cell(1, 0.9)] }, theirs: { "1 KB": [cell(1)] } };
  expect(caption(results, "node x", new Date(0))).toContain("Medians of 1 to 2 rounds (`node x`, 1970-01-01)");
  expect(caption(results, "node x", new Date(0))).toContain("at most 0.10 cores");
});

it("replaces what is between the marks, and nothing else", () => {
  const document = "a\n<!-- peers:begin -->\nold\n<!-- peers:end -->\nb\n";
  expect(between(document, "peers", "new\n")).toBe("a\n<!-- peers:begin -->\nnew\n<!-- peers:end -->\nb\n");
  expect(() => between("a", "peers", "")).toThrow("peers:begin");
});

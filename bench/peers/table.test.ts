import { expect, it } from "vitest";
import type { Cell } from "./figures.ts";
import { between, peersTable } from "./table.ts";

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

it("replaces what is between the marks, and nothing else", () => {
  const document = "a\n<!-- peers:begin -->\nold\n<!-- peers:end -->\nb\n";
  expect(between(document, "peers", "new\n")).toBe("a\n<!-- peers:begin -->\nnew\n<!-- peers:end -->\nb\n");
  expect(() => between("a", "peers", "")).toThrow("peers:begin");
});

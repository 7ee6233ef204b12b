import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import type { Cell } from "./figures.ts";
import { Kept } from "./kept.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-kept-"));
afterAll(() => rmSync(folder, { recursive: true }));

const cell = (perCore: number): Cell => ({ perCore }) as Cell;

it("goes on where the run before has stopped", () => {
  const file = join(folder, "cells.json");
  const first = new Kept(file);
  first.addCell("nginx", "1 KB", cell(1));
  first.addRatio("here / there", "1 KB", 0.9);
  const second = new Kept(file);
  second.addCell("nginx", "1 KB", cell(2));
  expect(new Kept(file).cellsOf("nginx", "1 KB")).toEqual([cell(1), cell(2)]);
  expect(new Kept(file).ratiosOf("here / there", "1 KB")).toEqual([0.9]);
  expect(new Kept(file).cellsOf("nginx", "16 KB")).toEqual([]);
});

it("keeps nothing without a file, and refuses a file of something else", () => {
  const kept = new Kept(undefined);
  kept.addCell("nginx", "1 KB", cell(1));
  expect(kept.cells).toEqual({ nginx: { "1 KB": [cell(1)] } });
  const other = join(folder, "other.json");
  writeFileSync(other, '{"name":"x"}');
  expect(() => new Kept(other)).toThrow("not a file of --keep");
  expect(readFileSync(other, "utf8")).toBe('{"name":"x"}');
});

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import type { Cell } from "./figures.ts";
import type { Results } from "./table.ts";

/** Figures by two names: of cells the subject and the case, of ratios the comparison and the case. */
type ByName<T> = Record<string, Record<string, T[]>>;

/** The figures of this run and, where a file is named, of the earlier runs that named it. Each new figure goes to the file at once. */
export class Kept {
  readonly #file: string | undefined;
  readonly #cells: ByName<Cell>;
  readonly #ratios: ByName<number>;

  /** @param file JSON; need not be there. @throws Error where it is not the file of such a run */
  constructor(file: string | undefined) {
    const read = file !== undefined && existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
    if (Object.keys(read).some((key) => key !== "cells" && key !== "ratios"))
      throw new Error(`${file} is not a file of --keep: it has more than cells and ratios`);
    this.#file = file;
    this.#cells = read.cells ?? {};
    this.#ratios = read.ratios ?? {};
  }

  /** All cells, by subject and case. */
  get cells(): Results {
    return this.#cells;
  }

  cellsOf(subject: string, name: string): readonly Cell[] {
    return this.#cells[subject]?.[name] ?? [];
  }

  ratiosOf(comparison: string, name: string): readonly number[] {
    return this.#ratios[comparison]?.[name] ?? [];
  }

  addCell(subject: string, name: string, cell: Cell): void {
    this.#add(this.#cells, subject, name, cell);
  }

  addRatio(comparison: string, name: string, ratio: number): void {
    this.#add(this.#ratios, comparison, name, ratio);
  }

  #add<T>(to: ByName<T>, first: string, second: string, figure: T): void {
    to[first] ??= {};
    to[first][second] ??= [];
    to[first][second].push(figure);
    if (this.#file !== undefined)
      writeFileSync(this.#file, JSON.stringify({ cells: this.#cells, ratios: this.#ratios }));
  }
}

import type { DecisionRow } from "../../../src/wires/admin/feed/decisions.ts";
import type { DecisionsBatch } from "../../../src/wires/admin/feed/feed.ts";

/** The most rows kept; the oldest go first. */
const MOST = 500;

/** The decisions of the list, the newest first. A row that comes again replaces the former one. */
export class DecisionList {
  #rows = new Map<number, DecisionRow>();
  #sorted: readonly DecisionRow[] | undefined;
  /** Decisions that passed the filter, and those among them that the process left out of the stream. */
  passed = 0;
  leftOut = 0;

  get rows(): readonly DecisionRow[] {
    this.#sorted ??= [...this.#rows.values()].sort((a, b) => b.sequence - a.sequence);
    return this.#sorted;
  }

  take({ rows, leftOut, passed }: DecisionsBatch): void {
    this.passed += passed;
    this.leftOut += leftOut;
    this.add(rows);
  }

  add(rows: readonly DecisionRow[]): void {
    for (const row of rows) this.#rows.set(row.sequence, row);
    this.#sorted = undefined;
    if (this.#rows.size <= MOST) return;
    this.#rows = new Map(this.rows.slice(0, MOST).map((row) => [row.sequence, row]));
    this.#sorted = undefined;
  }

  clear(): void {
    this.#rows.clear();
    this.#sorted = undefined;
    this.passed = 0;
    this.leftOut = 0;
  }
}

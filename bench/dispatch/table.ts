/** One line of the report. */
export interface Row {
  readonly what: string;
  readonly measured: string;
  /** P-1 to P-10 of the specification, or what is required. */
  readonly target: string;
  /** Undefined = no target. */
  readonly met: boolean | undefined;
  /** A requirement fails the run; any other target is told. */
  readonly required?: boolean;
  /** What the reference did on a machine like this. */
  readonly reference: string;
}

const HEADINGS = ["what", "measured", "target", "", "reference"] as const;

/** Prints rows as they come, the columns as wide as the widest cell that is expected. */
export class Table {
  readonly rows: Row[] = [];
  static readonly #widths = [50, 36, 34, 7] as const;

  constructor() {
    console.log(Table.#line(HEADINGS));
  }

  add(row: Row): void {
    this.rows.push(row);
    console.log(Table.#line([row.what, row.measured, row.target, verdict(row), row.reference]));
  }

  get failed(): readonly Row[] {
    return this.rows.filter(({ required, met }) => required === true && met === false);
  }

  get missed(): readonly Row[] {
    return this.rows.filter(({ required, met }) => required !== true && met === false);
  }

  static #line(cells: readonly string[]): string {
    return cells
      .map((cell, at) => cell.padEnd(Table.#widths[at] ?? 0))
      .join(" ")
      .trimEnd();
  }
}

function verdict({ met, required }: Row): string {
  if (met === undefined) return "";
  if (met) return required ? "holds" : "met";
  return required ? "FAILS" : "missed";
}

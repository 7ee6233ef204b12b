/** Where the demo's words go: a terminal that can be redrawn, or a plain stream. */
export interface Output {
  write(text: string): void;
  /** Whether lines can be overwritten. */
  readonly isTerminal: boolean;
}

/**
 * A few lines at the bottom that are redrawn in place, and above them lines that stay. On a plain stream every picture's
 * first line is written as a line of its own.
 */
export class Screen {
  readonly #out: Output;
  #drawn = 0;

  constructor(out: Output) {
    this.#out = out;
  }

  /** A line that stays. */
  say(line: string): void {
    this.#erase();
    this.#out.write(`${line}\n`);
  }

  /** @param lines the picture; @param summary the same in one line, for plain streams */
  draw(lines: readonly string[], summary: string): void {
    if (!this.#out.isTerminal) {
      this.#out.write(`${summary}\n`);
      return;
    }
    this.#erase();
    this.#out.write(`${lines.join("\n")}\n`);
    this.#drawn = lines.length;
  }

  #erase(): void {
    if (this.#drawn > 0) this.#out.write(`\u001b[${this.#drawn}A\u001b[0J`);
    this.#drawn = 0;
  }
}

/** Cells in columns, the first left-aligned, the others right-aligned. */
export function columns(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows)
    row.forEach((cell, i) => {
      widths[i] = Math.max(widths[i] ?? 0, cell.length);
    });
  return rows.map((row) =>
    row
      .map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)))
      .join("  ")
      .trimEnd(),
  );
}

/** Where the demo writes its text: a terminal that can be redrawn, or a plain stream. */
interface Output {
  write(text: string): void;
  /** Whether lines can be overwritten. */
  readonly isTerminal: boolean;
}

/**
 * A few lines at the bottom that are redrawn in place, and above them lines that stay. A plain stream gets the first line of
 * every picture as a line of its own.
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

/** Where progress is shown. */
export interface ProgressOut {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

/** On a terminal one line that changes; elsewhere a new line each time. Other messages appear above it. */
export class ProgressLine {
  readonly terminal: boolean;
  readonly #out: ProgressOut;
  /** The text of the last line of a terminal. */
  #shown = "";

  constructor(out: ProgressOut) {
    this.#out = out;
    this.terminal = out.isTTY === true;
  }

  show(text: string): void {
    if (!this.terminal) {
      this.#out.write(`${text}\n`);
      return;
    }
    // A line that wraps could not be overwritten.
    this.#shown = text.slice(0, Math.max(1, (this.#out.columns ?? 80) - 1));
    this.#out.write(`\r\u001b[2K${this.#shown}`);
  }

  /** Writes a line that stays. */
  tell(text: string): void {
    const shown = this.#shown;
    this.clear();
    this.#out.write(`sluice: ${text}\n`);
    if (shown !== "") this.show(shown);
  }

  /** Ends the progress; its last line stays on the terminal. */
  keep(): void {
    if (this.#shown !== "") this.#out.write("\n");
    this.#shown = "";
  }

  clear(): void {
    if (this.#shown !== "") this.#out.write("\r\u001b[2K");
    this.#shown = "";
  }
}

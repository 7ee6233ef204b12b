/** Where progress is shown. */
export interface ProgressOut {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

/** One line that changes on a terminal, and a line each time elsewhere; other messages stand above it. */
export class ProgressLine {
  readonly terminal: boolean;
  readonly #out: ProgressOut;
  /** What stands in the last line of a terminal. */
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

  /** Tells something that stays. */
  tell(text: string): void {
    const shown = this.#shown;
    this.clear();
    this.#out.write(`sluice: ${text}\n`);
    if (shown !== "") this.show(shown);
  }

  /** Leaves the line that is shown where it is. */
  keep(): void {
    if (this.#shown !== "") this.#out.write("\n");
    this.#shown = "";
  }

  clear(): void {
    if (this.#shown !== "") this.#out.write("\r\u001b[2K");
    this.#shown = "";
  }
}

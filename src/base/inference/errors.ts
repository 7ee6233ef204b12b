import type { SluiceErrorCode } from "./error-codes/table.ts";

/** The page with the cause and the remedy of every error: its path in the repository and in the package. */
export const ERRORS_PAGE = "docs/reference/errors.md";

/** Where in a file something is wrong: both 1-based. */
export interface Position {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/**
 * The base of every error that a person or a program can distinguish. `code` is a row of the table in `error-codes/`. The
 * message alone is enough to find the cause.
 */
export class SluiceError extends Error {
  readonly code: SluiceErrorCode;

  constructor(code: SluiceErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "SluiceError";
    this.code = code;
  }
}

/** The message of any thrown value for clients and logs, in one line of at most 1,024 characters. */
export function messageOf(error: unknown): string {
  try {
    return oneLine(String(error instanceof Error ? error.message : error));
  } catch {
    // An object without a message: plugins may throw any value.
    return `a thrown ${typeof error}`;
  }
}

/** `text` without control characters, cut at 1,024 characters: texts built from user input stay one bounded line. */
export function oneLine(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it removes
  const flat = text.replace(/[\u0000-\u001f\u007f]+/g, " ");
  return flat.length <= 1024 ? flat : `${flat.slice(0, 1021)}...`;
}

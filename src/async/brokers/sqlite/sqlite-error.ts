import { messageOf, SluiceError } from "../../../base/inference/errors.ts";

/** Primary result codes of SQLite for what may pass: trying again later makes sense. */
const PASSING: Readonly<Record<number, string>> = {
  5: "another process holds its lock",
  6: "another statement holds its lock",
  7: "no memory left",
  8: "it is read-only for this process: check the owner and the mode of the file and its folder",
  10: "input or output failed",
  13: "the disk is full",
  14: "it cannot be opened: check that its folder exists and may be written to",
  15: "another process holds its lock",
};
const BUSY: ReadonlySet<number> = new Set([5, 6, 15]);
const CORRUPT = 11;
const NOT_A_DATABASE = 26;

/** The primary result code of an error of node:sqlite; undefined for every other error. */
function codeOf(error: unknown): number | undefined {
  const code = error instanceof Error ? (error as { errcode?: unknown }).errcode : undefined;
  return typeof code === "number" ? code & 0xff : undefined;
}

/** Somebody else has the lock: the shortest of waits may help. */
export function isBusy(error: unknown): boolean {
  const code = codeOf(error instanceof SluiceError ? error.cause : error);
  return code !== undefined && BUSY.has(code);
}

/**
 * What an error of SQLite means: BROKER_UNAVAILABLE when trying again makes sense, QUEUE_FILE_CORRUPT or QUEUE_FILE_FOREIGN
 * when a person must look at the file, QUEUE_FILE_ERROR for a single statement that cannot be carried out.
 */
export function sqliteError(path: string, error: unknown): SluiceError {
  if (error instanceof SluiceError) return error;
  const code = codeOf(error);
  const passing = code === undefined ? undefined : PASSING[code];
  const options = { cause: error };
  if (passing !== undefined)
    return new SluiceError("BROKER_UNAVAILABLE", `queue file ${path}: ${passing} (${messageOf(error)})`, options);
  if (code === CORRUPT)
    return new SluiceError(
      "QUEUE_FILE_CORRUPT",
      `queue file ${path} is damaged (${messageOf(error)}): save what can be saved with "sqlite3 FILE .recover", then move it away`,
      options,
    );
  if (code === NOT_A_DATABASE)
    return new SluiceError("QUEUE_FILE_FOREIGN", `queue file ${path} is no SQLite database: it is left alone`, options);
  return new SluiceError("QUEUE_FILE_ERROR", `queue file ${path}: ${messageOf(error)}`, options);
}

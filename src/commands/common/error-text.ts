import { errorRow } from "../../base/inference/error-codes/table.ts";
import { ERRORS_PAGE, type SluiceError } from "../../base/inference/errors.ts";

/** What every command prints below the message of an error: the remedy where the message lacks it, the code, and its place in the docs. */
export function belowMessage({ code }: Pick<SluiceError, "code">): string {
  const row = errorRow(code);
  // A plugin without types can throw a code that the table does not have.
  if (row === undefined) return "";
  const remedy = row.hint === true ? `  ${row.remedy}\n` : "";
  return `${remedy}  ${code}: ${ERRORS_PAGE}#${code.toLowerCase()}\n`;
}

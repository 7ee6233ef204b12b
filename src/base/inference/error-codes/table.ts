import { ASYNC_ERRORS } from "./async.ts";
import { BASE_ERRORS } from "./base.ts";
import { COMMAND_ERRORS } from "./commands.ts";
import { PICKER_ERRORS } from "./picker.ts";
import { POOL_ERRORS } from "./pool.ts";
import type { ErrorRow } from "./row.ts";

/** The areas of the reference page, in its order. */
export const ERROR_AREAS = {
  "Command line": COMMAND_ERRORS,
  "Files, connections and telemetry": BASE_ERRORS,
  "Plugins and decisions": PICKER_ERRORS,
  "Endpoints, API objects and Kubernetes": POOL_ERRORS,
  "Queues, gates and batches": ASYNC_ERRORS,
} as const satisfies Record<string, Readonly<Record<string, ErrorRow>>>;

/**
 * Every code that a `SluiceError` may have. The table is on the base floor, although most codes belong to the floors above:
 * `SluiceError` takes no other code, so its type must see all of them, and no import leads up. The table holds sentences and no
 * behavior. Only the command line and the docs read it at run time; the other rooms use the type alone.
 */
export const ERRORS = {
  ...COMMAND_ERRORS,
  ...BASE_ERRORS,
  ...PICKER_ERRORS,
  ...POOL_ERRORS,
  ...ASYNC_ERRORS,
};

export type SluiceErrorCode = keyof typeof ERRORS;

/** The row of a code; undefined for a code outside the table, which a plugin without types can make. */
export function errorRow(code: string): ErrorRow | undefined {
  return Object.hasOwn(ERRORS, code) ? ERRORS[code as SluiceErrorCode] : undefined;
}

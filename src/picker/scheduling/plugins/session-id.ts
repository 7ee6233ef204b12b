import { firstHeader, type HeaderList } from "../../../base/inference/headers.ts";

/** Longer ids are ignored: clients choose them, and they are kept. */
export const MAX_SESSION_ID = 256;

/** What stands in one of `names`, in lower case, the first one that holds an id that is neither blank nor too long. */
export function sessionIdIn(headers: HeaderList, names: readonly string[]): string | undefined {
  for (const name of names) {
    const id = firstHeader(headers, name);
    if (id !== undefined && id.length <= MAX_SESSION_ID) return id;
  }
  return undefined;
}

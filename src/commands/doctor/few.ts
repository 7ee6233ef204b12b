import { counted, listed } from "../../base/document/words.ts";

/** The most names in one sentence. */
export const MAX_NAMED = 8;

/** Names in a sentence: at most eight, and the number of the others. */
export function few(names: readonly string[]): string {
  const more = names.length - MAX_NAMED;
  return more > 0 ? `${names.slice(0, MAX_NAMED).join(", ")} and ${counted(more, "more", "more")}` : listed(names);
}

import { shortened } from "../scheduling/record.ts";

/** Shortens a name or an id for spans: some come from clients, and spans wait in memory until they are sent. */
export function spanText(text: string): string {
  const kept = shortened(text);
  return kept === text ? text : kept.toWellFormed();
}

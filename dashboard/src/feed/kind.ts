import type { FeedHello } from "../../../src/wires/admin/feed/feed.ts";

/** Whether a process routes requests; the others dispatch messages, or lines of batches. */
export function routes({ kind }: FeedHello): boolean {
  return kind === "gateway" || kind === "epp";
}

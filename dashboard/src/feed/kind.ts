import type { FeedHello } from "../../../src/wires/admin/feed/feed.ts";

/**
 * Whether a process routes requests; the others dispatch messages, or lines of batches.
 * @param hello undefined = not known yet: it counts as routing, because most processes route
 */
export function routes(hello: FeedHello | undefined): boolean {
  return hello === undefined || hello.kind === "gateway" || hello.kind === "epp";
}

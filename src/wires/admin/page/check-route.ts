import type { Context, Hono } from "hono";
import type { Clock } from "../../../base/clock/clock.ts";
import type { ConfigDraft } from "../feed/config.ts";
import type { FeedError } from "../feed/feed.ts";
import type { FeedSource } from "./source.ts";

/** The one route below `/debug` that takes POST: the text is too long for an address. */
export const CHECK_PATH = "/debug/feed/check";
/** The longest body in bytes, and milliseconds between two checks: each one takes time from routing. */
const MAX_BODY = 64 * 1024;
const EVERY_MS = 250;

/** Serves what the process would read in the text of a configuration. */
export function checkRoute(app: Hono, check: NonNullable<FeedSource["check"]>, clock: Clock): void {
  let last = Number.NEGATIVE_INFINITY;
  const fail = (context: Context, status: 400 | 403 | 413 | 415 | 429, error: string): Response =>
    context.json({ error } satisfies FeedError, status);
  app.post(CHECK_PATH, async (context) => {
    context.header("cache-control", "no-store");
    // A page of another site can send neither this type nor its own origin.
    if (!/^application\/json\b/i.test(context.req.header("content-type") ?? ""))
      return fail(context, 415, "send content-type: application/json");
    const origin = context.req.header("origin");
    if (origin !== undefined && URL.parse(origin)?.host !== context.req.header("host"))
      return fail(context, 403, "only the page of this process checks configurations");
    if (Number(context.req.header("content-length") ?? Number.POSITIVE_INFINITY) > MAX_BODY)
      return fail(context, 413, `a text is checked up to ${MAX_BODY} bytes of JSON, with a content-length`);
    let draft: Partial<ConfigDraft> | null;
    try {
      draft = JSON.parse(await context.req.text()) as Partial<ConfigDraft> | null;
    } catch {
      return fail(context, 400, "the body is not JSON");
    }
    if (typeof draft?.text !== "string") return fail(context, 400, "the body is {text: ...}");
    const now = clock.now();
    if (now - last < EVERY_MS) return fail(context, 429, "another text was checked just now; try again");
    last = now;
    return context.json(check(draft.text));
  });
}

import type { Hono } from "hono";
import type { Clock } from "../../../base/clock/clock.ts";
import type { ConfigDraft } from "../feed/config.ts";
import { postedJson, refused } from "./posted-json.ts";
import type { FeedSource } from "./source.ts";

/** The method is POST, because the text is too long for a query. */
export const CHECK_PATH = "/debug/feed/check";
/** The longest body in bytes, and milliseconds between two checks: each one takes time from routing. */
const MAX_BODY = 64 * 1024;
const EVERY_MS = 250;

/** Serves what the process would read in the text of a configuration. */
export function checkRoute(app: Hono, check: NonNullable<FeedSource["check"]>, clock: Clock): void {
  let last = Number.NEGATIVE_INFINITY;
  app.post(CHECK_PATH, async (context) => {
    context.header("cache-control", "no-store");
    const posted = await postedJson(context, {
      maxBody: MAX_BODY,
      foreign: "only the page of this process checks configurations",
      tooLong: `a text is checked up to ${MAX_BODY} bytes of JSON, with a content-length`,
      notJson: "the body is not JSON",
    });
    if ("refusal" in posted) return posted.refusal;
    const draft = posted.json as Partial<ConfigDraft> | null;
    if (typeof draft?.text !== "string") return refused(context, 400, "the body must be {text: ...}");
    const now = clock.now();
    if (now - last < EVERY_MS) return refused(context, 429, "the process has just checked another text; try again");
    last = now;
    return context.json(check(draft.text));
  });
}

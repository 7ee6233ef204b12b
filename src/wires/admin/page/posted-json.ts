import type { Context } from "hono";
import type { FeedError } from "../feed/feed.ts";

/** What a route takes, and the sentences for what it does not take. */
interface Posting {
  /** Bytes of the longest body. */
  readonly maxBody: number;
  readonly foreign: string;
  readonly tooLong: string;
  readonly notJson: string;
}

/** Refuses a request. */
export function refused(
  context: Context,
  status: 400 | 403 | 404 | 409 | 413 | 415 | 429 | 503,
  error: string,
): Response {
  return context.json({ error } satisfies FeedError, status);
}

/** Reads the body of a POST that a page of this process, or a program, has sent. Any other one is refused. */
export async function postedJson(
  context: Context,
  { maxBody, foreign, tooLong, notJson }: Posting,
): Promise<{ readonly json: unknown } | { readonly refusal: Response }> {
  const { req } = context;
  const refuse = (status: 400 | 403 | 413 | 415, error: string) => ({ refusal: refused(context, status, error) });
  // Only a page of this server can send JSON: for any other page the browser asks first, and gets no permission.
  if (!/^application\/json\b/i.test(req.header("content-type") ?? ""))
    return refuse(415, "send content-type: application/json");
  const origin = req.header("origin");
  if (origin !== undefined && URL.parse(origin)?.host !== req.header("host")) return refuse(403, foreign);
  if (Number(req.header("content-length") ?? Number.POSITIVE_INFINITY) > maxBody) return refuse(413, tooLong);
  try {
    return { json: JSON.parse(await req.text()) };
  } catch {
    return refuse(400, notJson);
  }
}

/**
 * Reads the ID in the body of an order to cancel, which is `{id: ...}`.
 * @param maxBody bytes @param things what the order cancels, in the plural
 */
export async function postedId(
  context: Context,
  maxBody: number,
  things: string,
): Promise<{ readonly id: string } | { readonly refusal: Response }> {
  const posted = await postedJson(context, {
    maxBody,
    foreign: `only the page of this process cancels ${things}`,
    tooLong: `the order must have a content-length of at most ${maxBody} bytes`,
    notJson: "the body is not JSON",
  });
  if ("refusal" in posted) return posted;
  const { id } = (posted.json ?? {}) as { readonly id?: unknown };
  if (typeof id !== "string" || id === "") return { refusal: refused(context, 400, "the body must be {id: ...}") };
  return { id };
}

import type { Hono } from "hono";
import type { Clock } from "../../base/clock/clock.ts";
import { type Authorize, adminRequest, CANCEL_MESSAGE_PATH } from "./access.ts";
import type { MessageFeed, MessageMarked, MessagesFeed } from "./feed/messages.ts";
import { postedId, refused } from "./page/posted-json.ts";
import { fromStore } from "./store-answer.ts";

/** The longest body in bytes: an id may be long. */
const MAX_BODY = 4096;
const MESSAGES_PATH = "/debug/queues/messages";

/** The queued messages of a dispatcher, for its page. */
export interface MessagesSource {
  /** Why messages of this transport cannot be listed and cancelled, and what to do; undefined = they can. */
  readonly unable: string | undefined;
  /**
   * The next messages of a queue, in the order of dispatch.
   * @returns undefined = there is no such queue
   * @throws SluiceError BROKER_UNAVAILABLE and others of the store
   */
  next(queue: string): Promise<readonly MessageFeed[] | undefined>;
  /**
   * Marks a message. It ends with CANCELLED, unless a model server already has it.
   * @returns false = the store has no message of this id
   * @throws SluiceError as `next`
   */
  cancel(id: string): Promise<boolean>;
}

/** Lists the next messages of a queue, and cancels one for a client that may. */
export function messagesRoutes(app: Hono, source: MessagesSource, authorize: Authorize, clock: Clock): void {
  app.get(MESSAGES_PATH, async (context) => {
    if (source.unable !== undefined) return refused(context, 409, source.unable);
    const queue = context.req.query("queue");
    if (queue === undefined) return refused(context, 400, "name the queue with ?queue=NAME");
    const verdict = await authorize(adminRequest(context, { method: "POST", path: CANCEL_MESSAGE_PATH }));
    return fromStore(context, async () => {
      const messages = await source.next(queue);
      if (messages === undefined) return refused(context, 404, "there is no such queue");
      return context.json({
        queue,
        at: clock.wall(),
        mayCancel: verdict === undefined,
        messages,
      } satisfies MessagesFeed);
    });
  });
  app.post(CANCEL_MESSAGE_PATH, async (context) => {
    if (source.unable !== undefined) return refused(context, 409, source.unable);
    const posted = await postedId(context, MAX_BODY, "messages");
    if ("refusal" in posted) return posted.refusal;
    const { id } = posted;
    return fromStore(context, async () =>
      (await source.cancel(id))
        ? context.json({ id } satisfies MessageMarked)
        : refused(context, 404, "cannot cancel a message with this ID: it has ended, or never existed"),
    );
  });
}

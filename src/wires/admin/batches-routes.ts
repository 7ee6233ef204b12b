import type { Hono } from "hono";
import { type Authorize, adminRequest, CANCEL_PATH } from "./access.ts";
import type { BatchesFeed, BatchFeed } from "./feed/batches.ts";
import { postedId, refused } from "./page/posted-json.ts";
import { fromStore } from "./store-answer.ts";

/** The longest body in bytes. */
const MAX_BODY = 1024;

const NO_BATCHES = "this process has no batches; start it as `sluice gateway --batch FOLDER`";

/** The batches of a process, for its page. */
export interface BatchesSource {
  /** @throws SluiceError of the store */
  feed(): Promise<Omit<BatchesFeed, "mayCancel">>;
  /**
   * Begins to end a batch of any caller.
   * @returns the batch as it is now, and whether it is cancelled; undefined = there is no such batch
   * @throws SluiceError of the store
   */
  cancel(id: string): Promise<{ readonly batch: BatchFeed; readonly isCancelled: boolean } | undefined>;
}

/** Serves `/debug/batches`, and cancels a batch for a client that may. @param source undefined = the process has no batches */
export function batchesRoutes(app: Hono, source: BatchesSource | undefined, authorize: Authorize): void {
  app.get("/debug/batches", async (context) => {
    if (source === undefined) return refused(context, 404, NO_BATCHES);
    const verdict = await authorize(adminRequest(context, { method: "POST", path: CANCEL_PATH }));
    return fromStore(context, async () =>
      context.json({ ...(await source.feed()), mayCancel: verdict === undefined } satisfies BatchesFeed),
    );
  });
  app.post(CANCEL_PATH, async (context) => {
    if (source === undefined) return refused(context, 404, NO_BATCHES);
    const posted = await postedId(context, MAX_BODY, "batches");
    if ("refusal" in posted) return posted.refusal;
    return fromStore(context, async () => {
      const found = await source.cancel(posted.id);
      if (found === undefined) return refused(context, 404, "there is no such batch");
      const { batch, isCancelled } = found;
      if (!isCancelled) return refused(context, 409, `a batch with the status ${batch.status} cannot be cancelled`);
      return context.json(batch);
    });
  });
}

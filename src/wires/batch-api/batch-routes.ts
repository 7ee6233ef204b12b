import { type Context, Hono } from "hono";
import type { StoredBatch } from "../../async/batch-api/records.ts";
import { ApiError, invalidParameter, notFound } from "./api-error.ts";
import { readBatchRequest } from "./batch-request.ts";
import { batchObject, listObject } from "./objects.ts";
import { progressObject } from "./progress.ts";
import { listPart } from "./query.ts";
import type { ApiBindings, BatchApiServices } from "./services.ts";

/** The routes of `/v1/batches`. */
export function batchRoutes({ store, limits, clock, wake }: BatchApiServices): Hono<ApiBindings> {
  const app = new Hono<ApiBindings>();

  app.post("/", async (context) => {
    const wanted = await readBatchRequest(context.req.raw, context.env.caller, limits);
    const made = await store.add(wanted, limits, clock.wall() / 1000);
    if (made === "no-file")
      throw new ApiError(400, "file_not_found", "you have no file with this id and the purpose batch", "input_file_id");
    if (made === "caller-full")
      throw new ApiError(429, "too_many_batches", `you have ${limits.callerBatches} open batches, the limit`);
    if (made === "all-full")
      throw new ApiError(429, "too_many_batches", "the server has reached its limit of open batches; try again later");
    wake();
    return context.json(batchObject(made));
  });

  app.get("/", async (context) => {
    const found = await store.list(context.env.caller.id, listPart(context.req.query(), { most: 100, usual: 20 }));
    if (found === undefined) throw invalidParameter("after", "you have no batch with this id");
    return context.json(listObject(found.entries.map(batchObject), found.hasMore));
  });

  app.get("/:id", async (context) => context.json(batchObject(await found(context))));

  app.get("/:id/progress", async (context) => {
    const [batch, gate] = await Promise.all([found(context), store.gate()]);
    return context.json(progressObject(batch, gate, clock.wall() / 1000));
  });

  app.post("/:id/cancel", async (context) => {
    const { id } = await found(context);
    if (!(await store.cancel(id, clock.wall() / 1000))) {
      const now = (await found(context)).status;
      throw new ApiError(
        400,
        "batch_not_cancellable",
        `a batch with the status ${now} cannot be cancelled`,
        "batch_id",
      );
    }
    wake();
    return context.json(batchObject(await found(context)));
  });

  /** The batch of the path. @throws ApiError where the caller has none */
  async function found(context: Context<ApiBindings>): Promise<StoredBatch> {
    const id = context.req.param("id") ?? "";
    const batch = await store.find(context.env.caller.id, id);
    if (batch === undefined) throw notFound("batch", id);
    return batch;
  }

  return app;
}

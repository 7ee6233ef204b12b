import { Hono } from "hono";
import type { BatchCaller } from "../../async/batch-api/records.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { ApiError } from "./api-error.ts";
import { batchRoutes } from "./batch-routes.ts";
import { fileRoutes } from "./file-routes.ts";
import type { ApiBindings, BatchApiServices } from "./services.ts";

/** Errors of the store and of the bucket. */
const AWAY: ReadonlySet<string> = new Set(["BATCH_STORE", "BATCH_BUCKET", "BROKER_UNAVAILABLE"]);

/** Answers a request of a known caller. Never rejects. */
export type BatchApi = (request: Request, caller: BatchCaller) => Promise<Response>;

/** The paths of the Batch API. @param path without query */
export function isBatchPath(path: string): boolean {
  return /^\/v1\/(?:files|batches)(?:\/|$)/.test(path);
}

/** Files and batches as OpenAI's API has them: `/v1/files` and `/v1/batches`. */
export function batchApi(services: BatchApiServices): BatchApi {
  const app = new Hono<ApiBindings>({ strict: false });
  app.route("/v1/files", fileRoutes(services));
  app.route("/v1/batches", batchRoutes(services));
  app.notFound((context) => {
    const { method, path } = context.req;
    throw new ApiError(404, "path_not_found", `the Batch API has no ${method} ${path.slice(0, 200)}`);
  });
  app.onError((error, context) => {
    if (error instanceof ApiError) return context.json(error.body, error.status);
    services.onError(error);
    if (error instanceof SluiceError && AWAY.has(error.code))
      return context.json(new ApiError(503, "storage_error", "the server cannot use its store now").body, 503);
    return context.json(new ApiError(500, "internal_error", "the server failed; its log has the reason").body, 500);
  });
  return async (request, caller) => app.fetch(request, { caller });
}

import type { Hono } from "hono";
import type { Clock } from "../../base/clock/clock.ts";
import type { ExpositionFormat } from "../../base/telemetry/exposition.ts";
import { type Authorize, guardedApp } from "./access.ts";
import { type BatchesSource, batchesRoutes } from "./batches-routes.ts";
import { feedRoutes, helloOf } from "./page/routes.ts";
import type { FeedSource } from "./page/source.ts";
import { FeedStream } from "./page/stream.ts";
import { pageRoutes } from "./page-files.ts";

interface BatchAdminOptions {
  readonly clock: Clock;
  readonly authorize: Authorize;
  /** The page of `/metrics`. */
  readonly metrics: (format: ExpositionFormat) => string;
  readonly feed: FeedSource;
  readonly batches: BatchesSource;
}

/** The admin pages of `sluice batch-server`. `close` ends the streams of the page. */
export function batchAdminApp(options: BatchAdminOptions): { readonly app: Hono; close(): void } {
  const { clock, authorize, metrics, feed, batches } = options;
  const app = guardedApp(authorize, metrics, feed.failed);
  app.get("/healthz", (context) => context.text("ok\n"));
  batchesRoutes(app, batches, authorize);
  const stream = new FeedStream(clock, feed, (readers) => helloOf(feed, readers, { batches: true }));
  feedRoutes(app, feed, stream);
  pageRoutes(app);
  app.notFound((context) =>
    context.text("the paths are /metrics /healthz /debug/batches /debug/feed and the page at /\n", 404),
  );
  return { app, close: () => stream.close() };
}

import { getConnInfo } from "@hono/node-server/conninfo";
import { Hono } from "hono";
import { CONTENT_TYPES, type ExpositionFormat, negotiateFormat } from "../../base/telemetry/exposition.ts";
import type { Authorize } from "./access.ts";

/** An app that asks `authorize` about every request, and has `/metrics` in the format the scraper prefers. */
export function guardedApp(authorize: Authorize, metrics: (format: ExpositionFormat) => string): Hono {
  const app = new Hono();
  app.use(async (context, next) => {
    const verdict = await authorize({
      peer: getConnInfo(context).remote.address ?? "",
      method: context.req.method,
      path: context.req.path,
      host: context.req.header("host"),
      authorization: context.req.header("authorization"),
    });
    if (verdict === undefined) return next();
    // Clients learn from it what to send (RFC 9110, 11.6.1).
    if (verdict.status === 401) context.header("www-authenticate", "Bearer");
    return context.text(`${verdict.message}\n`, verdict.status);
  });
  app.get("/metrics", (context) => {
    const format = negotiateFormat(context.req.header("accept"));
    return context.body(metrics(format), 200, { "content-type": CONTENT_TYPES[format], vary: "accept" });
  });
  return app;
}

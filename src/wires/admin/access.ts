import { getConnInfo } from "@hono/node-server/conninfo";
import { type Context, Hono } from "hono";
import { messageOf } from "../../base/inference/errors.ts";
import { CONTENT_TYPES, type ExpositionFormat, negotiateFormat } from "../../base/telemetry/exposition.ts";

/** A request to the admin port, as the access check sees it. */
export interface AdminRequest {
  /** Address of the peer, from the socket. */
  readonly peer: string;
  readonly method: string;
  readonly path: string;
  /** Value of the `host` header. */
  readonly host?: string | undefined;
  /** Value of the `authorization` header. */
  readonly authorization: string | undefined;
}

/** Undefined: the request is allowed. Otherwise: the status and the message of the answer. */
export type AccessVerdict = { readonly status: 401 | 403 | 500; readonly message: string } | undefined;

/** Decides about every request to the admin port. The code that starts the port passes it in. */
export type Authorize = (request: AdminRequest) => AccessVerdict | Promise<AccessVerdict>;

/** True for a loopback address (IPv4, IPv6, or IPv4 mapped into IPv6). */
export function isLoopback(address: string): boolean {
  const plain = address.startsWith("::ffff:") ? address.slice(7) : address;
  return plain === "::1" || plain.startsWith("127.");
}

/**
 * The rule without authentication (docs/spec/decisions.md#debug-and-page): `/metrics` and health answer every peer. `/debug`
 * and the page answer loopback peers only.
 * @param open answer every peer (`--debug-open`), unless the request changes something
 */
export function loopbackOnly(open: boolean): Authorize {
  return ({ peer, path, host }) => {
    const isOrder = ORDERS.has(path);
    if ((open && !isOrder) || PUBLIC.has(path)) return undefined;
    if (!isLoopback(peer)) {
      const how = isOrder ? "" : "; --debug-open opens it to all clients";
      return { status: 403, message: `${path} answers only clients on loopback${how}` };
    }
    // A foreign web page can make a browser on this machine send requests to us under the page's host name, but not as
    // localhost.
    if (host !== undefined && !ADDRESS.test(host))
      return {
        status: 403,
        message: `${path} answers requests to an IP address or localhost, not to the host ${host.slice(0, 100)}`,
      };
    return undefined;
  };
}

/** A host that no foreign site can own: an IP address or localhost, each with or without a port. */
const ADDRESS = /^(localhost|[\d.]+|\[[\da-fA-F:.]+\])(:\d+)?$/;
const PUBLIC: ReadonlySet<string> = new Set(["/metrics", "/healthz", "/ready"]);
/** The paths below `/debug` that change something. */
export const CANCEL_PATH = "/debug/batches/cancel";
export const CANCEL_MESSAGE_PATH = "/debug/queues/cancel";
const ORDERS: ReadonlySet<string> = new Set([CANCEL_PATH, CANCEL_MESSAGE_PATH]);

/** The request of a context as the access check sees it. @param over of another request by the same client */
export function adminRequest(
  context: Context,
  over: { readonly method?: string; readonly path?: string } = {},
): AdminRequest {
  return {
    peer: getConnInfo(context).remote.address ?? "",
    method: context.req.method,
    path: context.req.path,
    host: context.req.header("host"),
    authorization: context.req.header("authorization"),
    ...over,
  };
}

/**
 * An app that passes every request to `authorize` and serves `/metrics` in the format that the scraper prefers. A route that throws
 * gets 500 with the reason.
 * @param failed logs what a route throws
 */
export function guardedApp(
  authorize: Authorize,
  metrics: (format: ExpositionFormat) => string | Promise<string>,
  failed: (error: unknown) => void,
): Hono {
  const app = new Hono();
  app.onError((error, context) => {
    failed(error);
    return context.json({ error: messageOf(error) }, 500);
  });
  app.use(async (context, next) => {
    const { path } = context.req;
    // A page elsewhere cannot read an answer, but its requests would take the places of readers.
    const isForeign =
      context.req.header("sec-fetch-site") === "cross-site" && context.req.header("sec-fetch-mode") !== "navigate";
    if (isForeign && !PUBLIC.has(path)) return context.text(`${path} does not answer pages of other sites\n`, 403);
    const verdict = await authorize(adminRequest(context));
    if (verdict === undefined) return next();
    // The header tells clients which kind of credentials to send (RFC 9110, 11.6.1).
    if (verdict.status === 401) context.header("www-authenticate", "Bearer");
    return context.text(`${verdict.message}\n`, verdict.status);
  });
  app.get("/metrics", async (context) => {
    const format = negotiateFormat(context.req.header("accept"));
    return context.body(await metrics(format), 200, { "content-type": CONTENT_TYPES[format], vary: "accept" });
  });
  return app;
}

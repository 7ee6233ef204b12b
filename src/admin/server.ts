import { readFileSync } from "node:fs";
import { createServer as createHttpServer, type Server } from "node:http";
import { createServer as createHttpsServer, Server as HttpsServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { SecureContextOptions } from "node:tls";
import { serve } from "@hono/node-server";
import { getConnInfo } from "@hono/node-server/conninfo";
import { Hono } from "hono";
import type { Clock } from "../clock/clock.ts";
import { SluiceError } from "../inference/errors.ts";
import { CONTENT_TYPES } from "../telemetry/exposition.ts";
import { negotiateFormat } from "../telemetry/exposition-format.ts";
import type { Authorize } from "./access.ts";
import { EventStream } from "./event-stream.ts";
import { type Profiler, profileRoutes } from "./profile-routes.ts";
import type { AdminViews } from "./views.ts";

/** How TLS is spoken on the admin port; PEM texts. */
export interface AdminTls {
  readonly cert: string;
  readonly key: string;
  /** Clients must show a certificate that one of these has signed; absent = they need none. */
  readonly clientCa?: string | undefined;
  readonly minVersion?: "TLSv1.2" | "TLSv1.3" | undefined;
  /** OpenSSL's names, colons between them. */
  readonly ciphers?: string | undefined;
}

export interface AdminOptions {
  readonly host: string;
  /** 0 = any. */
  readonly port: number;
  readonly clock: Clock;
  readonly views: AdminViews;
  readonly authorize: Authorize;
  /** Absent = plain HTTP. */
  readonly tls?: AdminTls | undefined;
  /** Absent = no `/debug/pprof`. */
  readonly profiler?: Profiler | undefined;
}

export interface AdminServer {
  readonly host: string;
  readonly port: number;
  /** New connections are shown another certificate. Throws what the TLS library says of a pair it cannot use. */
  useTlsPair(pair: { readonly cert: string; readonly key: string }): void;
  close(): Promise<void>;
}

const PAGE = readFileSync(new URL("./page.html", import.meta.url), "utf8");
/** The latest decisions that a list shows. */
const LISTED = 100;

/**
 * Serves `/metrics`, `/debug/...`, health and the page.
 * @throws SluiceError ADMIN_LISTEN when the port cannot be had
 */
export async function startAdmin(options: AdminOptions): Promise<AdminServer> {
  const { views, authorize, clock } = options;
  const events = new EventStream<number>(clock, (since) => views.picture(since));
  const app = new Hono();

  app.use(async (context, next) => {
    const verdict = await authorize({
      peer: getConnInfo(context).remote.address ?? "",
      method: context.req.method,
      path: context.req.path,
      host: context.req.header("host"),
      authorization: context.req.header("authorization"),
    });
    return verdict === undefined ? next() : context.text(`${verdict.message}\n`, verdict.status);
  });

  app.get("/metrics", (context) => {
    const format = negotiateFormat(context.req.header("accept"));
    return context.body(views.metrics(format), 200, { "content-type": CONTENT_TYPES[format], vary: "accept" });
  });
  app.get("/healthz", (context) => context.text("ok\n"));
  app.get("/ready", (context) => (views.ready() ? context.text("ready\n") : context.text("not ready\n", 503)));
  app.get("/debug/endpoints", (context) => context.json(views.endpoints()));
  app.get("/debug/decisions", (context) => context.json(views.decisions(LISTED)));
  app.get("/debug/decisions/:id", (context) => {
    const found = views.decision(context.req.param("id"));
    return found === undefined
      ? context.json(
          {
            error: `no decision ${context.req.param("id")}: neither a record number nor an x-request-id among those kept`,
          },
          404,
        )
      : context.json(found);
  });
  if (options.profiler !== undefined) profileRoutes(app, options.profiler);
  app.get("/", (context) => context.html(PAGE));
  app.get("/events", (context) => {
    const stream = events.open();
    if (stream === undefined) return context.text("too many pages are open\n", 503);
    return context.body(stream, 200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  });
  app.notFound((context) =>
    context.text(
      "there are /metrics /healthz /ready /debug/endpoints /debug/decisions /debug/decisions/ID /debug/pprof/ and the page at /\n",
      404,
    ),
  );

  const server = await listen(app, options);
  const address = server.address() as AddressInfo;
  return {
    host: options.host,
    port: address.port,
    useTlsPair(pair) {
      if (options.tls === undefined || !(server instanceof HttpsServer)) return;
      server.setSecureContext(tlsSettings({ ...options.tls, ...pair }));
    },
    close: () =>
      new Promise((resolve) => {
        events.close();
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function listen(app: Hono, { host, port, tls }: AdminOptions): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = serve(
      {
        ...{ fetch: app.fetch, hostname: host, port },
        ...(tls === undefined
          ? { createServer: createHttpServer }
          : {
              createServer: createHttpsServer,
              serverOptions: { ...tlsSettings(tls), requestCert: tls.clientCa !== undefined, rejectUnauthorized: true },
            }),
      },
      () => resolve(server),
    ) as Server;
    server.on("error", (cause: Error) =>
      reject(
        new SluiceError("ADMIN_LISTEN", `cannot listen on ${host}:${port} for the admin pages: ${cause.message}`, {
          cause,
        }),
      ),
    );
  });
}

function tlsSettings({ cert, key, clientCa, minVersion, ciphers }: AdminTls): SecureContextOptions {
  return {
    ...{ cert, key, minVersion: minVersion ?? "TLSv1.2" },
    ...(clientCa === undefined ? {} : { ca: clientCa }),
    ...(ciphers === undefined ? {} : { ciphers }),
  };
}

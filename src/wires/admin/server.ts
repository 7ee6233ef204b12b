import { Server as HttpsServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { Hono } from "hono";
import type { Clock } from "../../base/clock/clock.ts";
import { FULL_RECORDS_HOW, unknownDecision } from "../../picker/decisions/explain-words.ts";
import { type Authorize, CANCEL_PATH, guardedApp } from "./access.ts";
import { type BatchesSource, batchesRoutes } from "./batches-routes.ts";
import { severalBegin } from "./decision-search.ts";
import { type ListenOptions, listen, shut, tlsSettings } from "./listen.ts";
import { CHECK_PATH, checkRoute } from "./page/check-route.ts";
import { NO_QUEUES } from "./page/core-queues.ts";
import { feedRoutes, helloOf } from "./page/routes.ts";
import type { Beside, FeedSource } from "./page/source.ts";
import { FeedStream } from "./page/stream.ts";
import { pageRoutes } from "./page-files.ts";
import type { AdminViews } from "./views.ts";

interface AdminOptions extends ListenOptions {
  readonly clock: Clock;
  readonly views: AdminViews;
  readonly authorize: Authorize;
  /** What the page asks for; absent = no `/debug/feed`. */
  readonly feed?: FeedSource | undefined;
  /** Adds routes of the demo. */
  readonly demo?: ((app: Hono) => void) | undefined;
  /** Absent = the process has no batches. */
  readonly batches?: BatchesSource | undefined;
  /** Absent = no `/debug/pprof`. */
  readonly profiler?: Profiler | undefined;
}

export interface AdminServer {
  readonly host: string;
  readonly port: number;
  /** Sets the certificate for new connections. Throws the error of the TLS library when the pair is not usable. */
  useTlsPair(pair: { readonly cert: string; readonly key: string }): void;
  close(): Promise<void>;
}

/** The most decisions in a list. */
const LISTED = 100;
const PATHS =
  "/metrics /healthz /ready /debug/ready /debug/endpoints /debug/decisions /debug/decisions/ID /debug/plugins/state /debug/models /debug/queues /debug/limits /debug/peers /debug/batches /debug/feed /debug/pprof/";

/** What takes POST: the check of a configuration, and the end of a batch. */
const POSTED: ReadonlySet<string> = new Set([CHECK_PATH, CANCEL_PATH]);

const NO_LIMITS = "this process has no limits by key and model; `sluice gateway --limits FILE` sets some";

const NO_PEERS = "this process shares nothing with other replicas; to share, give `--peers redis://HOST:6379`";

const NO_FULL_RECORD = `this decision has no full record. ${FULL_RECORDS_HOW}`;

/**
 * Serves `/metrics`, `/debug/...`, health and the page.
 * @throws SluiceError LISTEN_FAILED when the port is not available
 */
export async function startAdmin(options: AdminOptions): Promise<AdminServer> {
  const { views, authorize, clock } = options;
  const failed = (error: unknown): void => options.feed?.failed(error);
  const app = guardedApp(authorize, (format) => views.metrics(format), failed);

  app.get("/healthz", (context) => context.text("ok\n"));
  app.get("/ready", (context) => (views.ready() ? context.text("ready\n") : context.text("not ready\n", 503)));
  app.use("/debug/*", (context, next) => {
    const { method } = context.req;
    if (method === "GET" || method === "HEAD") return next();
    if (method === "POST" && POSTED.has(context.req.path)) return next();
    const answer = context.text(`${context.req.path} answers GET and HEAD, not ${method}\n`, 405);
    answer.headers.set("allow", "GET, HEAD");
    return Promise.resolve(answer);
  });
  app.get("/debug/ready", (context) => {
    const because = views.unready();
    return context.json({ ready: because === undefined, because: because ?? null });
  });
  app.get("/debug/endpoints", (context) => context.json(views.endpoints()));
  app.get("/debug/plugins/state", (context) => context.json(views.pluginStates()));
  app.get("/debug/models", (context) => context.json(views.models()));
  app.get("/debug/queues", (context) => {
    const queues = views.queues();
    return queues === undefined ? context.json({ error: NO_QUEUES }, 404) : context.json(queues);
  });
  app.get("/debug/limits", (context) => {
    const limits = views.limits();
    return limits === undefined ? context.json({ error: NO_LIMITS }, 404) : context.json(limits);
  });
  app.get("/debug/peers", (context) => {
    const peers = views.peers();
    return peers === undefined ? context.json({ error: NO_PEERS }, 404) : context.json(peers);
  });
  batchesRoutes(app, options.batches, authorize);
  app.get("/debug/decisions", (context) => {
    if (context.req.query("full") !== "1") return context.json(views.decisions(LISTED));
    const since = Number(context.req.query("since") ?? 0);
    if (!Number.isSafeInteger(since) || since < 0)
      return context.json({ error: "`since` must be a decision number (an integer, 0 or more)" }, 400);
    const lines = views.fullDecisions(since).map((record) => `${record}\n`);
    return context.body(lines.join(""), 200, { "content-type": "application/x-ndjson" });
  });
  app.get("/debug/decisions/:id", (context) => {
    const id = context.req.param("id");
    if (context.req.query("full") === "1") {
      const full = views.fullDecision(id);
      if (full === null) return context.json({ error: NO_FULL_RECORD }, 404);
      if (full !== undefined) return context.body(full, 200, { "content-type": "application/json" });
    } else {
      const found = views.decision(id);
      if (found !== undefined) return context.json(found);
    }
    const alike = views.requestIds(id);
    const error = alike.length > 1 ? severalBegin(id, alike) : unknownDecision(id, views.keptDecisions());
    return context.json({ error }, 404);
  });
  if (options.profiler !== undefined) profileRoutes(app, options.profiler);
  const { feed, demo } = options;
  const stream = feed && new FeedStream(clock, feed, (readers) => helloOf(feed, readers, besideOf(options)));
  if (feed !== undefined && stream !== undefined) feedRoutes(app, feed, stream);
  if (feed?.check !== undefined) checkRoute(app, feed.check, clock);
  demo?.(app);
  pageRoutes(app);
  app.notFound((context) => context.text(`the paths are ${PATHS} and the page at /\n`, 404));

  const server = await listen(app, options, "the admin pages", failed);
  const address = server.address() as AddressInfo;
  return {
    host: options.host,
    port: address.port,
    useTlsPair(pair) {
      if (options.tls === undefined || !(server instanceof HttpsServer)) return;
      server.setSecureContext(tlsSettings({ ...options.tls, ...pair }));
    },
    close() {
      stream?.close();
      return shut(server);
    },
  };
}

function besideOf({ demo, views, batches }: AdminOptions): Beside {
  return {
    ...{ demo: demo !== undefined, batches: batches !== undefined },
    ...{ replicas: views.sharesWithPeers, limits: views.hasLimits },
  };
}

/** The kinds of profiles: where CPU time goes, and allocations that are still alive. */
export type ProfileKind = "profile" | "heap";

/** Takes profiles of this process. */
export interface Profiler {
  /**
   * Samples for `seconds` (or until `signal` is aborted), one profile at a time.
   * @returns a gzip-compressed pprof `Profile`; "busy" while another is taken, "unavailable" where the runtime has no profiler
   */
  take(
    kind: ProfileKind,
    seconds: number,
    signal: AbortSignal,
  ): Promise<Uint8Array<ArrayBuffer> | "busy" | "unavailable">;
}

/** Seconds of a profile without a `seconds` parameter; for the CPU as in Go's handler. */
const DEFAULT_SECONDS: Readonly<Record<ProfileKind, number>> = { profile: 30, heap: 10 };
const MAX_SECONDS = 60;

/** Profiles of Go programs that Node.js cannot provide (epp-protocol 15.3). */
const GO_ONLY = ["goroutine", "allocs", "threadcreate", "block", "mutex"] as const;

const INDEX = `profiles of this process, in pprof format; the parameter seconds is from 1 to ${MAX_SECONDS}

/debug/pprof/profile?seconds=${DEFAULT_SECONDS.profile}  where CPU time goes
/debug/pprof/heap?seconds=${DEFAULT_SECONDS.heap}     objects allocated on V8's heap in that time and alive at its end
`;

/** Adds `/debug/pprof/...` to the admin pages. */
export function profileRoutes(app: Hono, profiler: Profiler): void {
  app.get("/debug/pprof/", (context) => context.text(INDEX));
  for (const kind of ["profile", "heap"] as const)
    app.get(`/debug/pprof/${kind}`, async (context) => {
      const text = context.req.query("seconds") ?? String(DEFAULT_SECONDS[kind]);
      const seconds = /^\d{1,3}$/.test(text) ? Number(text) : 0;
      if (seconds < 1 || seconds > MAX_SECONDS)
        return context.text(`seconds must be a whole number from 1 to ${MAX_SECONDS}\n`, 400);
      const profile = await profiler.take(kind, seconds, context.req.raw.signal);
      if (profile === "busy") return context.text("another profile is being taken; try again when it is done\n", 409);
      if (profile === "unavailable")
        return context.text("this Node.js has no inspector, so it cannot take profiles\n", 501);
      return context.body(profile, 200, {
        "content-type": "application/octet-stream",
        "content-disposition": `attachment; filename="${kind}.pb.gz"`,
      });
    });
  for (const name of GO_ONLY)
    app.get(`/debug/pprof/${name}`, (context) =>
      context.text(`there is no ${name} profile: only Go programs have it; see /debug/pprof/\n`, 501),
    );
}

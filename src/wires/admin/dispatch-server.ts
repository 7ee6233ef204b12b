import type { AddressInfo } from "node:net";
import { Hono } from "hono";
import type { Clock } from "../../base/clock/clock.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { ExpositionFormat } from "../../base/telemetry/exposition.ts";
import { type Authorize, guardedApp } from "./access.ts";
import { listen, shut } from "./listen.ts";
import { type MessagesSource, messagesRoutes } from "./messages-routes.ts";
import { feedRoutes, helloOf } from "./page/routes.ts";
import type { FeedSource } from "./page/source.ts";
import { FeedStream } from "./page/stream.ts";
import { pageRoutes } from "./page-files.ts";

/** The data that the Async Processor shows; `commands/dispatch` joins it from the rooms that own the data. */
export interface DispatchViews {
  /** The page of `/metrics`. */
  metrics(format: ExpositionFormat): string;
  /** True from the first claim of messages until the process receives a signal to end. */
  ready(): boolean;
  /** Rejects with the reason while messages cannot be claimed or results cannot be written. Always settles. */
  check(): Promise<void>;
  /** Every gate with its reading, the budget that it allows, and the reason why it is closed. */
  gates(): object | Promise<object>;
  /** Every queue with its contents. */
  queues(): object | Promise<object>;
}

interface DispatchAdminOptions {
  readonly host: string;
  /** 0 = any free port. */
  readonly healthPort: number;
  /** 0 = any free port. */
  readonly metricsPort: number;
  readonly clock: Clock;
  readonly views: DispatchViews;
  /** What the page asks for; absent = no `/debug/feed`. */
  readonly feed?: FeedSource | undefined;
  /** The queued messages; absent = no `/debug/queues/messages`. */
  readonly messages?: MessagesSource | undefined;
  /** Decides about every request to the metrics port. The probes answer every peer. */
  readonly authorize: Authorize;
}

export interface DispatchAdmin {
  readonly healthPort: number;
  readonly metricsPort: number;
  close(): Promise<void>;
}

/**
 * Serves `/healthz` and `/readyz` on one port, `/metrics`, `/debug/gates` and `/debug/queues` on another (async-processor 8.3).
 * @throws SluiceError LISTEN_FAILED when a port is not available; the function then frees the other port
 */
export async function startDispatchAdmin(options: DispatchAdminOptions): Promise<DispatchAdmin> {
  const { host, views, clock, authorize } = options;
  const failed = (error: unknown): void => options.feed?.failed(error);
  const health = await listen(healthApp(views, clock), { host, port: options.healthPort }, "the probes", failed);
  try {
    const { feed, messages } = options;
    const stream = feed && new FeedStream(clock, feed, (readers) => helloOf(feed, readers));
    const app = metricsApp(views, authorize, failed, (routes) => {
      if (feed !== undefined && stream !== undefined) feedRoutes(routes, feed, stream);
      if (messages !== undefined) messagesRoutes(routes, messages, authorize, clock);
    });
    const metrics = await listen(app, { host, port: options.metricsPort }, "the metrics", failed);
    return {
      healthPort: (health.address() as AddressInfo).port,
      metricsPort: (metrics.address() as AddressInfo).port,
      async close() {
        stream?.close();
        await Promise.all([shut(health), shut(metrics)]);
      },
    };
  } catch (error) {
    await shut(health);
    throw error;
  }
}

function healthApp(views: DispatchViews, clock: Clock): Hono {
  const app = new Hono();
  const broker = new ReadinessCheck(() => views.check(), clock);
  app.get("/healthz", (context) => context.json({ status: "ok" }));
  app.get("/readyz", async (context) => {
    if (!views.ready()) return context.json({ status: "not ready" }, 503);
    const error = await broker.problem();
    return error === undefined ? context.json({ status: "ready" }) : context.json({ status: "not ready", error }, 503);
  });
  app.notFound((context) => context.text("the paths are /healthz and /readyz\n", 404));
  return app;
}

function metricsApp(
  views: DispatchViews,
  authorize: Authorize,
  failed: (error: unknown) => void,
  more: (app: Hono) => void,
): Hono {
  const app = guardedApp(authorize, (format) => views.metrics(format), failed);
  app.get("/debug/gates", async (context) => context.json(await views.gates()));
  app.get("/debug/queues", async (context) => context.json(await views.queues()));
  more(app);
  pageRoutes(app);
  app.notFound((context) => context.text("the paths are /metrics /debug/gates /debug/queues\n", 404));
  return app;
}

/** Milliseconds that a probe waits for the broker (async-processor 8.3). */
const LIMIT = 3_000;

/** Checks whether the broker answers. Probes that arrive during a check share that check. */
class ReadinessCheck {
  readonly #check: () => Promise<void>;
  readonly #clock: Clock;
  #running: Promise<string | undefined> | undefined;

  /** @param check rejects with the reason when the broker fails; always settles */
  constructor(check: () => Promise<void>, clock: Clock) {
    this.#check = check;
    this.#clock = clock;
  }

  /** The reason why the broker is not available; undefined when it is. Never rejects, and takes at most 3 s. */
  problem(): Promise<string | undefined> {
    const asked = this.#running ?? this.#begin();
    return new Promise((resolve) => {
      const limit = this.#clock.after(LIMIT, () => resolve(`no answer within ${LIMIT / 1000} s`));
      void asked.then((problem) => {
        limit.cancel();
        resolve(problem);
      });
    });
  }

  #begin(): Promise<string | undefined> {
    const asked = this.#ask();
    this.#running = asked;
    void asked.then(() => {
      this.#running = undefined;
    });
    return asked;
  }

  async #ask(): Promise<string | undefined> {
    try {
      await this.#check();
      return undefined;
    } catch (error) {
      return messageOf(error) || "failed";
    }
  }
}

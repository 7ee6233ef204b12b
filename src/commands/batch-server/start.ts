import type { AddressInfo } from "node:net";
import { openWorkPlace } from "../../async/batch-api/batch-place.ts";
import { BatchService } from "../../async/batch-api/batch-service.ts";
import type { Batches } from "../../async/batch-api/batches.ts";
import type { PlaceSettings } from "../../async/batch-api/place-check.ts";
import type { BatchLimits } from "../../async/batch-api/records.ts";
import type { WebhookSettings } from "../../async/batch-api/webhook.ts";
import type { BacklogPoller } from "../../async/dispatch/backlog-poller.ts";
import { DispatchWatch } from "../../async/dispatch/dispatch-watch.ts";
import type { Clock, Timer } from "../../base/clock/clock.ts";
import { freshRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { hostPort } from "../../base/inference/endpoint.ts";
import type { ListenAddress } from "../../base/inference/listen-address.ts";
import { collectGarbageRarely } from "../../base/process/garbage.ts";
import { type Listening, type Running, readyLine, untilSignal } from "../../base/process/lifecycle.ts";
import { createDispatchMetrics } from "../../base/telemetry/dispatch-metrics.ts";
import { render } from "../../base/telemetry/exposition.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { createLogger, type LogLevel } from "../../base/telemetry/logging.ts";
import { startProcessMetrics } from "../../base/telemetry/process.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { startAccess } from "../../wires/access/access.ts";
import type { KeysSettings } from "../../wires/access/keys-settings.ts";
import { checkDoor } from "../../wires/access/open-door.ts";
import { loopbackOnly } from "../../wires/admin/access.ts";
import { batchAdminApp } from "../../wires/admin/batch-admin.ts";
import type { SettingEntry } from "../../wires/admin/feed/config.ts";
import { listen, shut } from "../../wires/admin/listen.ts";
import { batchApi } from "../../wires/batch-api/batch-api.ts";
import { openHome } from "../../wires/batch-api/batch-home.ts";
import { batchesSource } from "../../wires/batch-api/batches-feed.ts";
import { batchDoor } from "../../wires/batch-api/door.ts";
import { dispatchFeed } from "../dispatch/dispatch-feed.ts";

/**
 * Percent by which the heap grows before V8 marks it. By default V8 lets a small heap grow to four times its size, and a batch leaves much
 * garbage in its old part.
 */
const HEAP_GROWTH = 50;
/** Milliseconds between the end of the work and the end of the process, even if timers or sockets remain. */
const LINGER = 100;
/** Milliseconds between two looks at the lines that wait. */
const BACKLOG = 1000;

/** How `sluice batch-server` runs. */
export interface BatchServerOptions {
  readonly place: PlaceSettings;
  readonly gateway: string;
  readonly gatewayKey: string | undefined;
  /** The page of metrics of the gateway; undefined = no gate. */
  readonly metrics: string | undefined;
  readonly baseline: number;
  readonly workers: number;
  readonly window: number;
  readonly requestTimeout: number;
  readonly drainTimeout: number;
  readonly listen: ListenAddress;
  readonly admin: ListenAddress;
  readonly debugOpen: boolean;
  readonly keys: KeysSettings;
  readonly limits: BatchLimits;
  /** Who is told of the ends of batches; undefined = nobody. */
  readonly webhook: WebhookSettings | undefined;
  readonly logLevel: LogLevel;
  /** Settings with their origins, for the page. */
  readonly settings: readonly SettingEntry[];
}

/**
 * Starts the Batch API.
 * @throws SluiceError BATCH_SERVED, BATCH_STORE, BATCH_BUCKET, S3_CLIENT_MISSING, LISTEN_FAILED, KEYS_MISSING, DOCUMENT_...
 */
async function startBatchServer(
  options: BatchServerOptions,
  log: Logger,
): Promise<Running & { readonly listening: readonly Listening[] }> {
  const { keys, limits, metrics, baseline } = options;
  checkDoor([options.listen], keys.file !== undefined || keys.jwt.length > 0, keys.open);
  const clock = realClock;
  const random = freshRandom();
  const home = await openHome(options.place, { clock, random, log });
  const store = home.batches;
  // `close` ends the parts from last to first.
  const parts: (() => Promise<void> | void)[] = [() => home.close()];
  const close = async (): Promise<void> => {
    for (const end of parts.splice(0).reverse()) await end();
  };
  try {
    const registry = new MetricsRegistry();
    const dispatchMetrics = createDispatchMetrics(registry);
    const watch = new DispatchWatch(clock, dispatchMetrics);
    const work = await openWorkPlace(home.place, options.webhook !== undefined, { clock, random, log });
    const service = new BatchService(
      {
        ...options,
        tls: {},
        namesBatches: false,
        gate: metrics === undefined ? undefined : { baseline, from: { url: metrics } },
      },
      { clock, random, log, metrics: dispatchMetrics, onLatency: (milliseconds) => watch.latency(milliseconds) },
      work,
    );
    let stopped: Promise<void> | undefined;
    const stop = (drainTimeout: number): Promise<void> => {
      stopped ??= service.stop(drainTimeout);
      return stopped;
    };
    parts.push(() => stop(0));
    const access = await startAccess(keys, {
      ...{ clock, log, events: { admitted() {}, refused() {} }, changed() {} },
    });
    parts.push(() => access?.close());
    const onError = (error: unknown): void => log.error({ err: error }, "a request of the Batch API failed");
    const wake = (): void => service.wake();
    const api = batchApi({ store, limits, clock, wake, onError });
    parts.push(startProcessMetrics(registry, clock));
    parts.push(service.showMetrics(registry));
    parts.push(home.showMetrics(registry, options.webhook !== undefined));
    const backlog = new BatchBacklog(store, clock);
    parts.push(() => backlog.stop());
    let phase: "starting" | "serving" | "draining" = "starting";
    const feed = dispatchFeed({
      ...{ kind: "batch-server", clock, log, dispatcher: service.dispatcher, watch, settings: options.settings },
      backlog,
      ...{ phase: () => phase, warnings: [], links: [{ text: "batches as JSON", href: "/debug/batches" }] },
    });
    parts.push(feed.stop);
    const pages = batchAdminApp({
      ...{ clock, authorize: loopbackOnly(options.debugOpen), metrics: (format) => render(registry, format) },
      ...{ feed: feed.source, batches: batchesSource({ store, clock, log, wake }) },
    });
    const admin = await listen(pages.app, options.admin, "the admin pages", feed.source.failed);
    parts.push(() => {
      pages.close();
      return shut(admin);
    });
    const server = await listen(
      batchDoor(api, () => access?.authenticate, random),
      options.listen,
      "the Batch API",
      onError,
    );
    parts.push(() => shut(server));
    service.start();
    phase = "serving";
    const at = (address: ListenAddress, bound: unknown): string => hostPort(address.host, (bound as AddressInfo).port);
    return {
      listening: [
        { name: "batch-api", address: at(options.listen, server.address()) },
        { name: "admin", address: at(options.admin, admin.address()) },
      ],
      async drain() {
        phase = "draining";
        watch.events.add("drain-began", "", "the process received its signal to end");
        await shut(server);
        // The page shows the lines that still run.
        await stop(options.drainTimeout);
        await close();
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The lines of all open batches, as the backlog of one queue; at most a second old. */
class BatchBacklog implements Pick<BacklogPoller, "views"> {
  readonly #store: Batches;
  readonly #clock: Clock;
  #totals = { left: 0, rate: 0 };
  #reading: Timer | undefined;
  #stopped = false;

  constructor(store: Batches, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
    void this.#read();
  }

  get views(): BacklogPoller["views"] {
    const { left, rate } = this.#totals;
    const eta = left === 0 ? 0 : left / rate;
    const unknown = { claimed: Number.NaN, retries: Number.NaN, dead: Number.NaN, nextDeadline: Number.NaN };
    return new Map([["batches", { ...unknown, waiting: left, rate, eta, age: Number.NaN }]]);
  }

  stop(): void {
    this.#stopped = true;
    this.#reading?.cancel();
  }

  async #read(): Promise<void> {
    // While the store is away, the last figures stay.
    this.#totals = await this.#store.totals().catch(() => this.#totals);
    if (!this.#stopped) this.#reading = this.#clock.after(BACKLOG, () => void this.#read(), true);
  }
}

/** Runs the Batch API until a signal; returns the exit status. */
export async function runBatchServer(options: BatchServerOptions): Promise<number> {
  collectGarbageRarely(HEAP_GROWTH);
  const log = createLogger({ name: "batch", level: options.logLevel });
  const starting = startBatchServer(options, log);
  const ended = untilSignal(starting, log);
  const running = await starting;
  for (const listening of running.listening) process.stdout.write(`${readyLine(listening, process.pid)}\n`);
  const status = await ended;
  realClock.after(LINGER, () => process.exit(status), true);
  return status;
}

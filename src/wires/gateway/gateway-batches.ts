import { randomBytes, timingSafeEqual } from "node:crypto";
import { BATCH_HEADER } from "../../async/batch-api/batch-task.ts";
import { BatchThread } from "../../async/batch-api/batch-thread.ts";
import type { Batches } from "../../async/batch-api/batches.ts";
import { type BatchCaller, type BatchLimits, DEFAULT_BATCH_LIMITS } from "../../async/batch-api/records.ts";
import type { WebhookSettings } from "../../async/batch-api/webhook.ts";
import type { Clock, Timer } from "../../base/clock/clock.ts";
import type { Caller } from "../../base/inference/caller.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { type ExpositionFormat, joinPages } from "../../base/telemetry/exposition.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { MetricsRegistry } from "../../base/telemetry/registry.ts";
import type { BatchesSource } from "../admin/batches-routes.ts";
import { batchApi, isBatchPath } from "../batch-api/batch-api.ts";
import type { BatchHome } from "../batch-api/batch-home.ts";
import { batchesSource } from "../batch-api/batches-feed.ts";
import { batchCaller } from "../batch-api/door.ts";
import { EVERYBODY } from "../batch-api/services.ts";
import type { LocalService } from "../proxy/local-service.ts";
import type { AccessHead, Authenticate, Verdict } from "../proxy/options.ts";
import { BatchHeap, type HeapControls } from "./batch-heap.ts";
import type { BatchSettings } from "./batch-settings.ts";
import type { LogSettings } from "./gateway-options.ts";

/** Milliseconds between two figures of the room. */
const TELL = 100;
/** Milliseconds for one attempt, and for the requests under way when the gateway ends. */
const REQUEST_TIMEOUT = 600_000;
const DRAIN = 10_000;
/** The most batches whose callers are kept in memory. */
const MOST_CALLERS = 1000;

/** What the batches of a gateway need of it. */
export interface GatewayBatchesParts {
  readonly settings: BatchSettings;
  readonly logging: LogSettings["logging"];
  /** Who is told of the ends of batches; undefined = nobody. */
  readonly webhook?: WebhookSettings | undefined;
  /** Closed with the batches. */
  readonly home: BatchHome;
  /** The requests of batches that may be under way, and the size of the pool in requests, >= 1. */
  allowance(): { readonly requests: number; readonly size: number };
  /** Undefined = the heaps of the process are somebody else's business. */
  readonly heap?: HeapControls | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * The Batch API of a gateway. Files and batches are answered on the thread of the gateway; a thread of its own validates, and sends
 * the lines back to the gateway as requests of their callers, by a listener that only it knows how to use.
 */
export class GatewayBatches implements LocalService {
  /** For the page. */
  readonly shown: BatchesSource;
  readonly #parts: GatewayBatchesParts;
  readonly #batches: Batches;
  readonly #limits: BatchLimits;
  readonly #answer: (request: Request, caller: BatchCaller) => Promise<Response>;
  readonly #secret = randomBytes(32).toString("base64url");
  readonly #bearer = Buffer.from(`Bearer ${this.#secret}`, "latin1");
  readonly #callers = new Map<string, Caller | Rejection>();
  readonly #shared = new SharedArrayBuffer(3 * Float64Array.BYTES_PER_ELEMENT);
  #thread: BatchThread | undefined;
  #telling: Timer | undefined;
  readonly #heap: BatchHeap | undefined;

  constructor(parts: GatewayBatchesParts) {
    const { settings, clock, log, home, heap } = parts;
    this.#parts = parts;
    this.#heap = heap && new BatchHeap(heap, clock);
    this.#batches = home.batches;
    this.#limits = {
      ...DEFAULT_BATCH_LIMITS,
      fileBytes: settings.maxFile,
      callerBytes: settings.maxBytes,
      callerBatches: settings.maxOpen,
      lines: settings.maxLines,
      keep: settings.keep / 1000,
    };
    const shared = { store: this.#batches, clock, wake: () => this.#thread?.wake() };
    this.shown = batchesSource({ ...shared, log });
    this.#answer = batchApi({
      ...{ ...shared, limits: this.#limits },
      onError: (error) => log.error({ err: error }, "a request of the Batch API failed"),
    });
  }

  /** The share of each model server that batches leave free, 0 to below 1. */
  get baseline(): number {
    return this.#parts.settings.baseline;
  }

  claims(path: string): boolean {
    return isBatchPath(path);
  }

  answer(request: Request, caller: Caller | undefined): Promise<Response> {
    return this.#answer(request, caller === undefined ? EVERYBODY : batchCaller(caller));
  }

  /** The page of metrics of the gateway, with those of the dispatcher of its batches. */
  async withMetrics(page: string, format: ExpositionFormat): Promise<string> {
    return joinPages(page, (await this.#thread?.metrics(format)) ?? "");
  }

  /** Shows the metrics of the webhook and of the bucket, where there are any. @returns a function that ends it */
  showMetrics(registry: MetricsRegistry): () => void {
    const { webhook, home } = this.#parts;
    return home.showMetrics(registry, webhook !== undefined);
  }

  /**
   * Lets in the requests of the batches' own thread, each as one of the batch's caller.
   * @param inner who decides about all other requests; undefined = they need no key
   * @param isGuarded whether a request over plain HTTP must be the thread's: no listener for clients takes such
   */
  authenticate(inner: Authenticate | undefined, isGuarded: boolean): Authenticate {
    return (head) => {
      if (this.#isOwn(head)) return this.#callerOf(head);
      if (isGuarded && head.headers.get(":scheme") === "http")
        return new Rejection("key_missing", "this port is for the batches of the gateway alone");
      return inner?.(head);
    };
  }

  /** Begins the work on batches. @param url where the gateway takes requests of the thread @throws SluiceError */
  async start(url: string): Promise<void> {
    const { settings, logging, webhook, home, clock, log } = this.#parts;
    this.#tell();
    const thread = await BatchThread.start(
      {
        ...{ place: home.place, limits: this.#limits, window: settings.window, workers: settings.workers },
        ...{ gateway: url, gatewayKey: this.#secret, tls: {}, requestTimeout: REQUEST_TIMEOUT, namesBatches: true },
        ...{ webhook, logging, gate: { baseline: settings.baseline, room: this.#shared } },
      },
      clock,
      log,
    );
    this.#thread = thread;
    home.uploadBy((id, path) => thread.upload(id, path));
    this.#heap?.begin();
  }

  /** Ends the work; requests that run longer than 10 s go back into the queue. The API still answers. */
  drain(): Promise<void> {
    return this.#stop(DRAIN);
  }

  async close(): Promise<void> {
    await this.#stop(0);
    this.#telling?.cancel();
    this.#parts.home.close();
  }

  async #stop(drainTimeout: number): Promise<void> {
    const thread = this.#thread;
    this.#thread = undefined;
    this.#parts.home.uploadBy(undefined);
    await thread?.stop(drainTimeout);
  }

  #tell(): void {
    const { clock } = this.#parts;
    const figures = new Float64Array(this.#shared);
    const { requests, size } = this.#parts.allowance();
    figures.set([requests, size, clock.wall()]);
    this.#heap?.look();
    this.#telling = clock.after(TELL, () => this.#tell(), true);
  }

  #isOwn({ headers }: AccessHead): boolean {
    const given = Buffer.from(headers.get("authorization") ?? "", "latin1");
    const wanted = this.#bearer;
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  }

  async #callerOf({ headers }: AccessHead): Promise<Verdict> {
    this.#heap?.line();
    const id = headers.get(BATCH_HEADER) ?? "";
    for (let at = headers.length - 1; at >= 0; at--)
      if (headers.keys[at] === "authorization" || headers.keys[at] === BATCH_HEADER) headers.removeAt(at);
    let caller = this.#callers.get(id);
    if (caller === undefined) {
      if (this.#callers.size >= MOST_CALLERS) this.#callers.clear();
      const batch = await this.#batches.any(id);
      caller =
        batch === undefined
          ? new Rejection("key_invalid", "the batch of this request no longer exists")
          : this.#caller(batch.caller);
      this.#callers.set(id, caller);
    }
    return caller;
  }

  /** A caller with the priority of batches. An objective of its key has its own priority, so it does not count. */
  #caller({ id, name, models, priority, fairnessId }: BatchCaller): Caller {
    const most = this.#parts.settings.priority;
    return {
      ...{ id, name: name || "batch", models: models && new Set(models), objective: undefined, choosesFlow: false },
      ...{ priority: Math.min(priority ?? most, most), fairnessId, background: true },
    };
  }
}

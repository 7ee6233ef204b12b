import { randomBytes, timingSafeEqual } from "node:crypto";
import { BatchStore } from "../../async/batch-api/batch-store.ts";
import { BATCH_HEADER } from "../../async/batch-api/batch-task.ts";
import { BatchThread } from "../../async/batch-api/batch-thread.ts";
import type { Batches } from "../../async/batch-api/batches.ts";
import { BatchFolder } from "../../async/batch-api/folder.ts";
import { FolderBatches } from "../../async/batch-api/folder-batches.ts";
import { type BatchCaller, type BatchLimits, DEFAULT_BATCH_LIMITS } from "../../async/batch-api/records.ts";
import { S3Contents } from "../../async/batch-api/s3-contents.ts";
import type { S3Objects } from "../../async/batch-api/s3-objects.ts";
import type { S3Settings } from "../../async/batch-api/s3-place.ts";
import type { WebhookSettings } from "../../async/batch-api/webhook.ts";
import type { Clock, Timer } from "../../base/clock/clock.ts";
import type { Caller } from "../../base/inference/caller.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { type ExpositionFormat, joinPages } from "../../base/telemetry/exposition.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { MetricsRegistry } from "../../base/telemetry/registry.ts";
import type { BatchesSource } from "../admin/batches-routes.ts";
import { showBucket, showWebhook } from "../batch-api/api-metrics.ts";
import { batchApi, isBatchPath } from "../batch-api/batch-api.ts";
import { batchesSource } from "../batch-api/batches-feed.ts";
import { batchCaller } from "../batch-api/door.ts";
import { EVERYBODY } from "../batch-api/services.ts";
import type { LocalService } from "../proxy/local-service.ts";
import type { AccessHead, Authenticate, Verdict } from "../proxy/options.ts";
import type { BatchSettings } from "./batch-settings.ts";
import type { LogSettings } from "./gateway-options.ts";

/** Milliseconds between two figures of the room. */
const TELL = 100;
/** Milliseconds for one attempt, and for the requests under way when the gateway ends. */
const REQUEST_TIMEOUT = 600_000;
const DRAIN = 10_000;
/** The most batches whose callers are kept in memory. */
const MOST_CALLERS = 1000;

/** Where files go. */
export interface Bucket {
  readonly settings: S3Settings;
  /** Closed with the batches. */
  readonly objects: S3Objects;
}

/** What the batches of a gateway need of it. */
export interface GatewayBatchesParts {
  readonly settings: BatchSettings;
  readonly logging: LogSettings["logging"];
  /** Who is told of the ends of batches; undefined = nobody. */
  readonly webhook?: WebhookSettings | undefined;
  /** Undefined = files stay in the folder. */
  readonly bucket?: Bucket | undefined;
  /** The requests of batches that may be under way, and the size of the pool in requests, >= 1. */
  allowance(): { readonly requests: number; readonly size: number };
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
  readonly #folder: BatchFolder;
  readonly #store: BatchStore;
  readonly #batches: Batches;
  readonly #limits: BatchLimits;
  readonly #answer: (request: Request, caller: BatchCaller) => Promise<Response>;
  readonly #lock: { release(): void };
  readonly #secret = randomBytes(32).toString("base64url");
  readonly #bearer = Buffer.from(`Bearer ${this.#secret}`, "latin1");
  readonly #callers = new Map<string, Caller | Rejection>();
  readonly #shared = new SharedArrayBuffer(3 * Float64Array.BYTES_PER_ELEMENT);
  #thread: BatchThread | undefined;
  #telling: Timer | undefined;

  /** @throws SluiceError BATCH_STORE, BATCH_SERVED */
  constructor(parts: GatewayBatchesParts & { readonly folder: string }) {
    const { settings, clock, log, folder, bucket } = parts;
    this.#parts = parts;
    this.#folder = new BatchFolder(folder);
    this.#lock = this.#folder.lock();
    try {
      const contents = bucket && new S3Contents(this.#folder, bucket.objects);
      this.#store = new BatchStore(this.#folder, { contents });
    } catch (error) {
      this.#lock.release();
      throw error;
    }
    this.#limits = {
      ...DEFAULT_BATCH_LIMITS,
      fileBytes: settings.maxFile,
      callerBytes: settings.maxBytes,
      callerBatches: settings.maxOpen,
      lines: settings.maxLines,
      keep: settings.keep / 1000,
    };
    this.#batches = new FolderBatches(this.#store);
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
    const { webhook, bucket } = this.#parts;
    const ends = [
      ...(webhook === undefined ? [] : [showWebhook(registry, () => this.#store.events.figures())]),
      ...(bucket === undefined ? [] : [showBucket(registry, this.#store.bucketFiles())]),
    ];
    return () => {
      for (const end of ends) end();
    };
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
    const { settings, logging, webhook, bucket, clock, log } = this.#parts;
    this.#tell();
    this.#thread = await BatchThread.start(
      {
        ...{ folder: this.#folder.path, limits: this.#limits, window: settings.window, workers: settings.workers },
        ...{ gateway: url, gatewayKey: this.#secret, tls: {}, requestTimeout: REQUEST_TIMEOUT, namesBatches: true },
        ...{ webhook, s3: bucket?.settings, logging, gate: { baseline: settings.baseline, room: this.#shared } },
      },
      clock,
      log,
    );
  }

  /** Ends the work; requests that run longer than 10 s go back into the queue. The API still answers. */
  drain(): Promise<void> {
    return this.#stop(DRAIN);
  }

  async close(): Promise<void> {
    await this.#stop(0);
    this.#telling?.cancel();
    this.#batches.close();
    this.#parts.bucket?.objects.close();
    this.#lock.release();
  }

  async #stop(drainTimeout: number): Promise<void> {
    const thread = this.#thread;
    this.#thread = undefined;
    await thread?.stop(drainTimeout);
  }

  #tell(): void {
    const { clock } = this.#parts;
    const figures = new Float64Array(this.#shared);
    const { requests, size } = this.#parts.allowance();
    figures.set([requests, size, clock.wall()]);
    this.#telling = clock.after(TELL, () => this.#tell(), true);
  }

  #isOwn({ headers }: AccessHead): boolean {
    const given = Buffer.from(headers.get("authorization") ?? "", "latin1");
    const wanted = this.#bearer;
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  }

  async #callerOf({ headers }: AccessHead): Promise<Verdict> {
    const id = headers.get(BATCH_HEADER) ?? "";
    for (let at = headers.length - 1; at >= 0; at--)
      if (headers.keys[at] === "authorization" || headers.keys[at] === BATCH_HEADER) headers.removeAt(at);
    let caller = this.#callers.get(id);
    if (caller === undefined) {
      if (this.#callers.size >= MOST_CALLERS) this.#callers.clear();
      const batch = await this.#batches.any(id);
      caller =
        batch === undefined
          ? new Rejection("key_invalid", "the batch of this request is gone")
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

import { randomBytes } from "node:crypto";
import { join, resolve } from "node:path";
import {
  type BatchPlace,
  openShared,
  type PlaceDeps,
  type RedisPlace,
  sharedObjects,
} from "../../async/batch-api/batch-place.ts";
import { BatchStore } from "../../async/batch-api/batch-store.ts";
import type { Batches } from "../../async/batch-api/batches.ts";
import { type FileObjects, FolderObjects, RelayedObjects } from "../../async/batch-api/file-objects.ts";
import { BatchFolder } from "../../async/batch-api/folder.ts";
import { FolderBatches } from "../../async/batch-api/folder-batches.ts";
import type { PlaceSettings } from "../../async/batch-api/place-check.ts";
import { S3Contents } from "../../async/batch-api/s3-contents.ts";
import type { S3Objects } from "../../async/batch-api/s3-objects.ts";
import type { S3Settings } from "../../async/batch-api/s3-place.ts";
import type { WebhookFigures } from "../../async/batch-api/webhook-events.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { DEFAULT_SHARED_NAME } from "../../base/redis/shared-store.ts";
import { redisConnection } from "../../base/redis/tls-files.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { showBucket, showWebhook } from "./api-metrics.ts";
import { openBucket } from "./open-bucket.ts";

/** Processes of one machine that can have one folder as their spool. */
const MOST_SPOOLS = 64;
/** Milliseconds that a start waits for a store that is away. */
const PATIENCE = 5000;

/** Where the batches of a process are kept, as its API sees them. */
export interface BatchHome {
  readonly batches: Batches;
  /** For those who work on the batches. */
  readonly place: BatchPlace;
  /** @param upload makes objects of uploaded files from now on, where processes share them; undefined = this thread makes them */
  uploadBy(upload: FileObjects["put"] | undefined): void;
  /** Shows the metrics of the place. @param notifies whether there is a webhook @returns a function that ends it */
  showMetrics(registry: MetricsRegistry, notifies: boolean): () => void;
  close(): void;
}

/**
 * The home of batches in a folder, which no other process has until it is closed.
 * @param bucket where files go; undefined = they stay in the folder
 * @throws SluiceError BATCH_STORE, BATCH_SERVED
 */
export function folderHome(
  path: string,
  bucket?: { readonly settings: S3Settings; readonly objects: S3Objects },
): BatchHome {
  const folder = new BatchFolder(path);
  const lock = folder.lock();
  let store: BatchStore;
  try {
    store = new BatchStore(folder, { contents: bucket && new S3Contents(folder, bucket.objects) });
  } catch (error) {
    lock.release();
    throw error;
  }
  return {
    batches: new FolderBatches(store),
    place: { kind: "folder", folder: path, files: bucket?.settings },
    // The thread with the work on batches moves files to the bucket anyway.
    uploadBy() {},
    showMetrics(registry, notifies) {
      const ends = [
        ...(notifies ? [showWebhook(registry, () => store.events.figures())] : []),
        ...(bucket === undefined ? [] : [showBucket(registry, store.bucketFiles())]),
      ];
      return () => {
        for (const end of ends) end();
      };
    },
    close() {
      store.close();
      bucket?.objects.close();
      lock.release();
    },
  };
}

/**
 * Opens the home of the batches of a process.
 * @throws SluiceError BATCH_STORE, BATCH_SERVED, BATCH_BUCKET, S3_CLIENT_MISSING, REDIS_URL_INVALID, TLS_FILE_UNREADABLE, TLS_FILE_INVALID
 */
export function openHome(settings: PlaceSettings, deps: PlaceDeps): Promise<BatchHome> {
  const { folder, redis, name = DEFAULT_SHARED_NAME, spool, files, bucket } = settings;
  if (redis === undefined) return openFolderHome(folder!, bucket, deps.log);
  const connection = redisConnection(redis, settings);
  return openSharedHome({ connection, name, spool: spool!, files: bucket ?? resolve(files!) }, deps);
}

/** As `folderHome`, with a bucket that must be there. @throws SluiceError also BATCH_BUCKET, S3_CLIENT_MISSING */
async function openFolderHome(path: string, files: S3Settings | undefined, log: Logger): Promise<BatchHome> {
  if (files === undefined) return folderHome(path);
  const objects = await openBucket(files, log);
  try {
    return folderHome(path, { settings: files, objects });
  } catch (error) {
    objects.close();
    throw error;
  }
}

/**
 * The home of batches in a store that several processes share. A store that is away does not keep the process from its start.
 */
async function openSharedHome(settings: Omit<RedisPlace, "kind" | "member">, deps: PlaceDeps): Promise<BatchHome> {
  const { files } = settings;
  if (typeof files === "string") await new FolderObjects(files).check();
  else (await openBucket(files, deps.log)).close();
  const { folder, lock } = lockedSpool(settings.spool);
  try {
    // What an earlier process left there is in the store, or nobody needs it.
    folder.sweep(() => false);
    const place: RedisPlace = {
      ...settings,
      kind: "redis",
      member: randomBytes(8).toString("hex"),
      spool: folder.path,
    };
    const objects = new RelayedObjects(await sharedObjects(settings));
    const batches = openShared(place, objects, false, deps);
    await batches
      .whenReady(PATIENCE)
      .catch((error) => deps.log.error({ error: messageOf(error) }, "the Batch API waits for its store"));
    return {
      ...{ batches, place },
      uploadBy: (upload) => objects.uploadBy(upload),
      showMetrics: (registry, notifies) => (notifies ? showWebhook(registry, lateFigures(batches)) : () => {}),
      close() {
        batches.close();
        lock.release();
      },
    };
  } catch (error) {
    lock.release();
    throw error;
  }
}

/** A folder within the spool that no other process has. @throws SluiceError BATCH_STORE, BATCH_SERVED */
function lockedSpool(path: string): { readonly folder: BatchFolder; readonly lock: { release(): void } } {
  for (let number = 0; number < MOST_SPOOLS; number++) {
    const folder = new BatchFolder(join(path, String(number)));
    try {
      return { folder, lock: folder.lock() };
    } catch (error) {
      if (!(error instanceof SluiceError) || error.code !== "BATCH_SERVED") throw error;
    }
  }
  throw new SluiceError("BATCH_SERVED", `${MOST_SPOOLS} other processes already use ${path}`);
}

/** The figures of one page of metrics are those that the store told for the page before. */
function lateFigures({ events }: Batches): () => WebhookFigures {
  let figures: WebhookFigures = { delivered: 0, givenUp: 0, failedAttempts: 0, waiting: 0 };
  const read = (): void =>
    void events.figures().then(
      (now) => {
        figures = now;
      },
      () => {},
    );
  read();
  return () => {
    read();
    return figures;
  };
}

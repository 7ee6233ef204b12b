import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { RedisConnection } from "../../base/redis/address.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { BatchStore } from "./batch-store.ts";
import type { Batches } from "./batches.ts";
import { type FileObjects, FolderObjects } from "./file-objects.ts";
import { BatchFolder } from "./folder.ts";
import { FolderBatches } from "./folder-batches.ts";
import { RedisBatches } from "./redis/redis-batches.ts";
import { S3Contents } from "./s3-contents.ts";
import { S3Mover } from "./s3-mover.ts";
import { loadS3, S3Objects } from "./s3-objects.ts";
import type { S3Settings } from "./s3-place.ts";

/** Where batches are kept, in a form that another thread can get. This process has locked the folder or the spool. */
export type BatchPlace = FolderPlace | RedisPlace;

/** A folder of this process alone. */
export interface FolderPlace {
  readonly kind: "folder";
  readonly folder: string;
  /** The bucket for files; undefined = they stay in the folder. */
  readonly files: S3Settings | undefined;
}

/** A store that processes share. */
export interface RedisPlace {
  readonly kind: "redis";
  readonly connection: RedisConnection;
  /** Processes of one name share batches. */
  readonly name: string;
  /** Of this process, which nobody else has. */
  readonly member: string;
  /** The folder for uploads under way, and for what running batches need on this machine. */
  readonly spool: string;
  /** The bucket for files, or a folder that all processes share. */
  readonly files: S3Settings | string;
}

export interface PlaceDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
}

/** The batches as they see them who work on them. */
export interface WorkPlace {
  readonly batches: Batches;
  /** Moves files from the folder to its bucket. */
  readonly mover: S3Mover | undefined;
  /** The contents that processes share; undefined = they are in a folder. */
  readonly objects: FileObjects | undefined;
}

/**
 * Opens the batches of a place for the work on them.
 * @param notifies whether the ends of batches are events of a webhook
 * @throws SluiceError BATCH_STORE, S3_CLIENT_MISSING, REDIS_URL_INVALID
 */
export async function openWorkPlace(place: BatchPlace, notifies: boolean, deps: PlaceDeps): Promise<WorkPlace> {
  if (place.kind === "redis") {
    const objects = await sharedObjects(place);
    return { batches: openShared(place, objects, notifies, deps), mover: undefined, objects };
  }
  const folder = new BatchFolder(place.folder);
  const objects = place.files && new S3Objects(await loadS3(), place.files);
  let mover: S3Mover | undefined;
  const contents = objects && new S3Contents(folder, objects, (id) => mover?.free(id));
  const store = new BatchStore(folder, { notifies, contents, log: deps.log });
  if (objects !== undefined) {
    const isInput = (id: string): boolean => store.files.isInput(id);
    mover = new S3Mover({ ...deps, folder, files: store.bucketFiles(), objects, isInput });
  }
  store.sweep();
  return { batches: new FolderBatches(store), mover, objects: undefined };
}

/** Opens the contents that processes share. @throws SluiceError S3_CLIENT_MISSING */
export async function sharedObjects({ files }: Pick<RedisPlace, "files">): Promise<FileObjects> {
  return typeof files === "string" ? new FolderObjects(files) : new S3Objects(await loadS3(), files);
}

/** Opens a store that processes share. @throws SluiceError REDIS_URL_INVALID */
export function openShared(place: RedisPlace, objects: FileObjects, notifies: boolean, deps: PlaceDeps): RedisBatches {
  return new RedisBatches({ ...place, ...deps, notifies, objects, spool: new BatchFolder(place.spool) });
}

import { SluiceError } from "../../base/inference/errors.ts";
import { SHARED_NAME, SHARED_NAME_FORM, sharedStoreAddress } from "../../base/redis/shared-store.ts";
import { checkTlsFiles, givenTlsFile, type RedisTlsFiles } from "../../base/redis/tls-files.ts";
import { S3_FORM, type S3Settings, s3Settings } from "./s3-place.ts";

/** What flags or a file say about the place of batches. */
export interface GivenPlace extends RedisTlsFiles {
  readonly folder?: string | undefined;
  /** URL of a Redis or Valkey. */
  readonly redis?: string | undefined;
  readonly name?: string | undefined;
  readonly spool?: string | undefined;
  /** A bucket or a folder. */
  readonly files?: string | undefined;
  /** The server of the bucket; undefined = AWS. */
  readonly s3Endpoint?: string | undefined;
}

/** The place of batches, once checked. */
export interface PlaceSettings extends GivenPlace {
  /** The bucket that `files` names; undefined = none. */
  readonly bucket: S3Settings | undefined;
}

/** The scheme of a text that is a URL; undefined for the path of a folder. */
export function schemeOf(text: string): string | undefined {
  return /^([a-z][a-z\d+.-]*):\/\//i.exec(text)?.[1];
}

/** Whether a text is the URL of a store, not a folder. */
export function isRedisUrl(text: string): boolean {
  return /^rediss?:\/\//i.test(text);
}

/** Whether a text names a place for files: a bucket, or a folder. */
export function isFilesPlace(text: string): boolean {
  return s3Settings(text, undefined, {}) !== undefined || (text.trim() !== "" && schemeOf(text) === undefined);
}

/** What such a text must be. */
export const FILES_FORM = `${S3_FORM}; for batches in Redis, a folder that all processes share also works`;

/**
 * Checks that what is given fits together. Reads no file.
 * @throws SluiceError FLAG_MISSING, FLAG_CONFLICT, FLAG_VALUE, REDIS_URL_INVALID
 */
export function checkPlace(given: GivenPlace): void {
  const { folder, redis, name, spool, files, s3Endpoint } = given;
  if (s3Endpoint !== undefined && !files?.startsWith("s3://"))
    throw new SluiceError(
      "FLAG_CONFLICT",
      "batch.s3Endpoint (--batch-s3-endpoint) has no effect without a bucket in batch.files (--batch-files)",
    );
  if (files !== undefined && !isFilesPlace(files))
    throw new SluiceError("FLAG_VALUE", `batch.files (--batch-files) is "${files.slice(0, 100)}"; it ${FILES_FORM}`);
  if (redis === undefined) {
    const alone =
      (name === undefined ? undefined : "batch.name (--batch-name)") ??
      (spool === undefined ? undefined : "batch.spool (--batch-spool)") ??
      givenTlsFile("batch", given);
    if (alone !== undefined)
      throw new SluiceError("FLAG_CONFLICT", `${alone} works only with batches in Redis (--batch redis://HOST:6379)`);
    if (files !== undefined && !files.startsWith("s3://"))
      throw new SluiceError("FLAG_VALUE", `batch.files (--batch-files) is "${files.slice(0, 100)}"; it ${S3_FORM}`);
    return;
  }
  if (folder !== undefined)
    throw new SluiceError("FLAG_CONFLICT", "batch.folder and batch.redis exclude each other; give only one of them");
  const { tls } = sharedStoreAddress(redis, "batches");
  checkTlsFiles("batch", given, tls);
  if (name !== undefined && !SHARED_NAME.test(name))
    throw new SluiceError("FLAG_VALUE", `batch.name (--batch-name) ${SHARED_NAME_FORM}`);
  if (files === undefined)
    throw new SluiceError(
      "FLAG_MISSING",
      "batches in Redis need a place for files that all processes reach: give --batch-files s3://BUCKET or --batch-files SHARED_FOLDER",
    );
  if (spool === undefined)
    throw new SluiceError(
      "FLAG_MISSING",
      "batches in Redis need a local folder for uploads and running batches: give --batch-spool FOLDER",
    );
}

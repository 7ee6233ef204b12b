import { loadS3, S3Objects } from "../../async/batch-api/s3-objects.ts";
import type { S3Settings } from "../../async/batch-api/s3-place.ts";
import { realClock } from "../../base/clock/real.ts";
import type { Logger } from "../../base/telemetry/logger.ts";

/** Milliseconds that a start waits for the bucket. */
const PATIENCE = 10_000;

/**
 * The bucket for the files of batches. A bucket that is away now does not keep the process from its start: files stay in the
 * folder until it is back.
 * @throws SluiceError S3_CLIENT_MISSING, BATCH_BUCKET where the bucket refuses, or is not there
 */
export async function openBucket(settings: S3Settings, log: Logger): Promise<S3Objects> {
  const objects = new S3Objects(await loadS3(), settings);
  const late = new AbortController();
  const timer = realClock.after(PATIENCE, () => late.abort(), true);
  try {
    const problem = await objects.check(late.signal);
    if (problem !== undefined)
      log.error({ error: problem.message }, "files stay in the folder until the bucket answers");
    return objects;
  } catch (error) {
    objects.close();
    throw error;
  } finally {
    timer.cancel();
  }
}

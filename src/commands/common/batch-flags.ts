import type { Command } from "commander";
import {
  checkPlace,
  FILES_FORM,
  isFilesPlace,
  isRedisUrl,
  type PlaceSettings,
  schemeOf,
} from "../../async/batch-api/place-check.ts";
import { type BatchLimits, DEFAULT_BATCH_LIMITS } from "../../async/batch-api/records.ts";
import { isServer, s3Settings } from "../../async/batch-api/s3-place.ts";
import { webhookUrlProblem } from "../../async/batch-api/webhook-url.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { durationOf, wholeNumber } from "./command.ts";
import { bytesOf } from "./exchange-flags.ts";

/** The options of the Batch API, of `sluice batch-server` and `sluice gateway`. */
export interface BatchFlags {
  readonly batchWorkers: string;
  readonly batchWindow: string;
  readonly batchBaseline: string;
  readonly batchMaxFile: string;
  readonly batchMaxBytes: string;
  readonly batchMaxOpen: string;
  readonly batchMaxLines: string;
  readonly batchKeep: string;
  readonly batchName?: string;
  readonly batchCa?: string;
  readonly batchCert?: string;
  readonly batchKey?: string;
  readonly batchSpool?: string;
  readonly batchFiles?: string;
  readonly batchS3Endpoint?: string;
  readonly batchWebhook?: string;
  readonly batchWebhookSecretFile?: string;
}

/** @param workers the default of `--batch-workers` */
export function withBatchOptions(command: Command, workers: number): Command {
  return command
    .option("--batch-workers <number>", "the most batch requests in flight to the model servers", String(workers))
    .option("--batch-window <number>", "the most lines of one batch in the queue", "2000")
    .option(
      "--batch-baseline <share>",
      "the share of the model servers that batches leave free, from 0 to below 1",
      "0.2",
    )
    .option("--batch-max-file <bytes>", "the most bytes of one uploaded file, such as 200Mi", "1Gi")
    .option("--batch-max-bytes <bytes>", "the most bytes of all files of one caller", "10Gi")
    .option("--batch-max-open <number>", "the most batches of one caller that have not ended", "50")
    .option("--batch-max-lines <number>", "the most lines of one batch", "5000000")
    .option("--batch-keep <duration>", "how long Sluice keeps files and ended batches", "720h")
    .option(
      "--batch-name <name>",
      "with a Redis: processes with the same name share batches; absent = the name default",
    )
    .option(
      "--batch-ca <file>",
      "PEM file of CA certificates that Sluice trusts for the Redis; default: those of the system",
    )
    .option("--batch-cert <file>", "PEM file of the client certificate for the Redis")
    .option("--batch-key <file>", "PEM file of the key of --batch-cert")
    .option("--batch-spool <folder>", "with a Redis: a local folder for uploads and running batches")
    .option(
      "--batch-files <place>",
      "the bucket for files, s3://bucket/prefix; absent = files stay in the folder. With a Redis: a bucket, or a folder that all processes share",
    )
    .option("--batch-s3-endpoint <url>", "address of an S3-compatible server, in place of AWS")
    .option("--batch-webhook <url>", "the address for a signed event at the end of each batch; absent = no events")
    .option(
      "--batch-webhook-secret-file <file>",
      "file with the secret of the webhook (whsec_ and base64); default: the variable SLUICE_BATCH_WEBHOOK_SECRET",
    );
}

/** @throws SluiceError FLAG_VALUE */
export function batchLimitsFrom(flags: BatchFlags): BatchLimits {
  return {
    ...DEFAULT_BATCH_LIMITS,
    fileBytes: bytesOf(flags.batchMaxFile, "--batch-max-file", 1),
    callerBytes: bytesOf(flags.batchMaxBytes, "--batch-max-bytes", 1),
    callerBatches: wholeNumber(flags.batchMaxOpen, "--batch-max-open", 1, 1000),
    lines: wholeNumber(flags.batchMaxLines, "--batch-max-lines", 1, 100_000_000),
    keep: durationOf(flags.batchKeep, "--batch-keep", 3_600_000) / 1000,
  };
}

/** How lines reach the model servers. @throws SluiceError FLAG_VALUE */
export function batchPaceFrom(flags: BatchFlags): {
  readonly workers: number;
  readonly window: number;
  readonly baseline: number;
} {
  const baseline = Number(flags.batchBaseline);
  if (flags.batchBaseline.trim() === "" || !(baseline >= 0 && baseline < 1))
    throw new SluiceError("FLAG_VALUE", `--batch-baseline is "${flags.batchBaseline}"; give a share such as 0.2`);
  return {
    workers: wholeNumber(flags.batchWorkers, "--batch-workers", 1, 10_000),
    window: wholeNumber(flags.batchWindow, "--batch-window", 1, 1_000_000),
    baseline,
  };
}

/**
 * The place of batches.
 * @param place of `--batch`: a folder, or the URL of a Redis
 * @throws SluiceError FLAG_VALUE, FLAG_CONFLICT, FLAG_MISSING, REDIS_URL_INVALID
 */
export function batchPlaceOf(flags: BatchFlags, text: string, flag: string, env: NodeJS.ProcessEnv): PlaceSettings {
  const [files, s3Endpoint] = [batchFilesFrom(flags), batchS3EndpointFrom(flags)];
  const bucket = files === undefined ? undefined : s3Settings(files, s3Endpoint, env);
  const { batchName: name, batchSpool: spool, batchCa: ca, batchCert: certificate, batchKey: key } = flags;
  const given = { ...batchPlaceFrom(text, flag), name, spool, files, s3Endpoint, ca, certificate, key };
  checkPlace(given);
  return { ...given, bucket };
}

/** @throws SluiceError FLAG_VALUE */
export function batchFilesFrom({ batchFiles: text }: BatchFlags): string | undefined {
  if (text === undefined || isFilesPlace(text)) return text;
  throw new SluiceError("FLAG_VALUE", `--batch-files is "${text.slice(0, 100)}"; it ${FILES_FORM}`);
}

/** @throws SluiceError FLAG_VALUE */
export function batchS3EndpointFrom({ batchS3Endpoint: text }: BatchFlags): string | undefined {
  if (text === undefined || isServer(text)) return text;
  throw new SluiceError("FLAG_VALUE", "--batch-s3-endpoint must be an address such as http://127.0.0.1:9000");
}

/** The address of the webhook; undefined = none. @throws SluiceError FLAG_VALUE */
export function batchWebhookFrom({ batchWebhook }: BatchFlags): string | undefined {
  const problem = batchWebhook === undefined ? undefined : webhookUrlProblem(batchWebhook);
  if (problem === undefined) return batchWebhook;
  throw new SluiceError("FLAG_VALUE", `--batch-webhook cannot be used: ${problem}`);
}

/** The folder or the Redis of a flag. @throws SluiceError FLAG_VALUE for any other place */
export function batchPlaceFrom(text: string, flag: string): { readonly folder?: string; readonly redis?: string } {
  if (isRedisUrl(text)) return { redis: text };
  const scheme = schemeOf(text);
  if (scheme !== undefined)
    throw new SluiceError(
      "FLAG_VALUE",
      `${flag} is ${scheme}://...: batches need a folder or a Redis; give the path of a folder, or redis://HOST:6379`,
    );
  if (text.trim() === "")
    throw new SluiceError("FLAG_VALUE", `${flag} is ""; give the path of a folder, or redis://HOST:6379`);
  return { folder: text };
}

import { z } from "zod";
import { FILES_FORM, isFilesPlace, schemeOf } from "../../async/batch-api/place-check.ts";
import { DEFAULT_BATCH_LIMITS } from "../../async/batch-api/records.ts";
import { isServer } from "../../async/batch-api/s3-place.ts";
import { webhookUrlProblem } from "../../async/batch-api/webhook-url.ts";
import { duration } from "../../base/document/duration-schema.ts";
import { quantity } from "../../base/document/quantity.ts";
import { parseRedisUrl } from "../../base/redis/address.ts";
import { SHARED_NAME, SHARED_NAME_FORM } from "../../base/redis/shared-store.ts";
import { readBy } from "./read-by.ts";

const HOUR = 3_600_000;
/** The most bytes that a size can be: far more than the disk of a machine. */
const MOST_BYTES = 2 ** 50;

function bytes() {
  return quantity().pipe(z.number().min(1).max(MOST_BYTES));
}

/** The share of the model servers that batches and other background requests leave free by default. */
export const DEFAULT_BASELINE = 0.2;

/** The section `batch` of a gateway.yaml. */
export const batchSettings = z.strictObject({
  folder: z
    .string()
    .min(1)
    .refine(
      (text) => schemeOf(text) === undefined,
      "must be the path of a folder; a Redis is `redis` in place of `folder`",
    )
    .optional()
    .describe("The folder of the Batch API: files, batches and their queue; absent, and no `redis` = no Batch API."),
  redis: z
    .string()
    .superRefine(readBy((url) => void parseRedisUrl(url)))
    .optional()
    .describe("In place of a folder: the Redis or Valkey in which several gateways share batches."),
  name: z
    .string()
    .regex(SHARED_NAME, SHARED_NAME_FORM)
    .optional()
    .describe("Gateways with the same name share batches; absent = default."),
  ca: z.string().min(1).optional().describe("Authorities of the certificate of the Redis, PEM."),
  certificate: z.string().min(1).optional().describe("The certificate that the gateway shows to the Redis, PEM."),
  key: z.string().min(1).optional().describe("The key of `certificate`, PEM."),
  spool: z
    .string()
    .min(1)
    .optional()
    .describe("With `redis`: a folder of this machine for uploads and running batches. Nothing in it is needed later."),
  workers: z
    .int()
    .min(1)
    .max(10_000)
    .default(1024)
    .describe("The most requests of batches in flight at the model servers, even when these have more room."),
  window: z.int().min(1).max(1_000_000).default(2000).describe("The most lines of one batch in the queue at once."),
  baseline: z
    .number()
    .min(0)
    .lt(1)
    .default(DEFAULT_BASELINE)
    .describe("The share of the model servers that batches leave free, from 0 to below 1."),
  priority: z
    .int()
    .min(-(2 ** 31))
    .max(2 ** 31 - 1)
    .default(-1)
    .describe("The highest priority of batch requests; if the caller's key has a lower priority, that one counts."),
  maxFile: bytes().default(DEFAULT_BATCH_LIMITS.fileBytes).describe("The most bytes of an uploaded file."),
  maxBytes: bytes().default(DEFAULT_BATCH_LIMITS.callerBytes).describe("The most bytes of all files of one caller."),
  maxOpen: z
    .int()
    .min(1)
    .max(DEFAULT_BATCH_LIMITS.allBatches)
    .default(DEFAULT_BATCH_LIMITS.callerBatches)
    .describe("The most batches of one caller that have not ended."),
  maxLines: z
    .int()
    .min(1)
    .max(100_000_000)
    .default(DEFAULT_BATCH_LIMITS.lines)
    .describe("The most lines of one batch."),
  files: z
    .string()
    .refine((text) => isFilesPlace(text), FILES_FORM)
    .optional()
    .describe(
      "The bucket for files, s3://bucket/prefix; absent = they stay in the folder. With `redis`, required: a bucket, or a folder that all gateways share.",
    ),
  s3Endpoint: z
    .string()
    .refine(isServer, "must be an address such as http://127.0.0.1:9000")
    .optional()
    .describe("A server that speaks S3, in place of AWS."),
  webhook: z
    .string()
    .superRefine((text, context) => {
      const problem = webhookUrlProblem(text);
      if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
    })
    .optional()
    .describe("The address that gets a signed event at the end of each batch; absent = none."),
  webhookSecretFile: z
    .string()
    .min(1)
    .optional()
    .describe("A file with the secret of the webhook, or with several; else SLUICE_BATCH_WEBHOOK_SECRET."),
  keep: duration({ min: HOUR }).prefault("720h").describe("How long the gateway keeps files and ended batches."),
});

export type BatchSettings = z.output<typeof batchSettings>;

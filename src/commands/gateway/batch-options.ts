import type { Command } from "commander";
import { SluiceError } from "../../base/inference/errors.ts";
import type { GivenSettings } from "../../wires/gateway/gateway-keys.ts";
import {
  type BatchFlags,
  batchFilesFrom,
  batchLimitsFrom,
  batchPaceFrom,
  batchPlaceFrom,
  batchS3EndpointFrom,
  batchWebhookFrom,
  withBatchOptions,
} from "../common/batch-flags.ts";

/** The options of `sluice gateway` for the Batch API. */
export interface BatchOptions extends BatchFlags {
  readonly batch?: string;
  readonly batchPriority: string;
}

export function withGatewayBatchOptions(command: Command): Command {
  const made = command
    .option(
      "--batch <place>",
      "offer OpenAI's Batch API (/v1/files, /v1/batches): the folder for files and batches, or a Redis or Valkey that gateways share: redis://HOST:6379, or rediss:// with TLS. With ?master_name=NAME, the host is a Sentinel. Each &addr=HOST:PORT names one more Sentinel, or one more node of a cluster",
    )
    .option("--batch-priority <number>", "the highest priority of batch requests; below 0 = shed first", "-1");
  return withBatchOptions(made, 1024);
}

/** @param take runs its function where a flag is on the command line @throws SluiceError FLAG_VALUE */
export function giveBatches(
  flags: BatchOptions,
  given: GivenSettings,
  take: (flag: keyof BatchOptions, set: () => void) => void,
): void {
  const limits = batchLimitsFrom(flags);
  const pace = batchPaceFrom(flags);
  take("batch", () => {
    const { folder, redis } = batchPlaceFrom(flags.batch!, "--batch");
    given.set("batch.folder", folder);
    given.set("batch.redis", redis);
  });
  take("batchName", () => given.set("batch.name", flags.batchName));
  take("batchCa", () => given.set("batch.ca", flags.batchCa));
  take("batchCert", () => given.set("batch.certificate", flags.batchCert));
  take("batchKey", () => given.set("batch.key", flags.batchKey));
  take("batchSpool", () => given.set("batch.spool", flags.batchSpool));
  take("batchPriority", () => given.set("batch.priority", priorityOf(flags.batchPriority)));
  take("batchWorkers", () => given.set("batch.workers", pace.workers));
  take("batchWindow", () => given.set("batch.window", pace.window));
  take("batchBaseline", () => given.set("batch.baseline", pace.baseline));
  take("batchMaxFile", () => given.set("batch.maxFile", limits.fileBytes));
  take("batchMaxBytes", () => given.set("batch.maxBytes", limits.callerBytes));
  take("batchMaxOpen", () => given.set("batch.maxOpen", limits.callerBatches));
  take("batchMaxLines", () => given.set("batch.maxLines", limits.lines));
  take("batchFiles", () => given.set("batch.files", batchFilesFrom(flags)));
  take("batchS3Endpoint", () => given.set("batch.s3Endpoint", batchS3EndpointFrom(flags)));
  take("batchWebhook", () => given.set("batch.webhook", batchWebhookFrom(flags)));
  take("batchWebhookSecretFile", () => given.set("batch.webhookSecretFile", flags.batchWebhookSecretFile));
  take("batchKeep", () => given.set("batch.keep", limits.keep * 1000));
}

function priorityOf(text: string): number {
  const priority = Number(text);
  if (/^\s*-?\d+\s*$/.test(text) && Math.abs(priority) < 2 ** 31) return priority;
  throw new SluiceError("FLAG_VALUE", `--batch-priority is "${text.slice(0, 100)}"; give a whole number such as -1`);
}

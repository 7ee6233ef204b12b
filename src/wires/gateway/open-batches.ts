import { s3Settings } from "../../async/batch-api/s3-place.ts";
import type { WebhookSettings } from "../../async/batch-api/webhook.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { BatchSettings } from "./batch-settings.ts";
import type { Bucket, GatewayBatches, GatewayBatchesParts } from "./gateway-batches.ts";
import type { GatewayOptions, LogSettings } from "./gateway-options.ts";

/**
 * The Batch API, where the settings name its folder; no other gateway loads it.
 * @throws SluiceError BATCH_STORE, BATCH_SERVED, BATCH_BUCKET, S3_CLIENT_MISSING, FLAG_MISSING and FLAG_VALUE for the secret of a webhook
 */
export async function openBatches(
  { batch, env = {}, logging = { level: "info", encoder: undefined } }: GatewayOptions & Partial<LogSettings>,
  parts: Pick<GatewayBatchesParts, "allowance" | "clock" | "log">,
): Promise<GatewayBatches | undefined> {
  if (batch?.folder === undefined) return undefined;
  const { GatewayBatches } = await import("./gateway-batches.ts");
  return new GatewayBatches({
    ...{ ...parts, settings: batch, folder: batch.folder, logging },
    webhook: await webhookOf(batch, env),
    bucket: await bucketOf(batch, env, parts.log),
  });
}

async function webhookOf(
  { webhook: url, webhookSecretFile: path }: BatchSettings,
  env: NonNullable<GatewayOptions["env"]>,
): Promise<WebhookSettings | undefined> {
  if (url === undefined) return undefined;
  const { readWebhookSecrets } = await import("../../async/batch-api/webhook-secret.ts");
  const given = env["SLUICE_BATCH_WEBHOOK_SECRET"];
  return { url, secrets: await readWebhookSecrets({ path, flag: "--batch-webhook-secret-file", given }) };
}

async function bucketOf(
  { files, s3Endpoint }: BatchSettings,
  env: NonNullable<GatewayOptions["env"]>,
  log: Logger,
): Promise<Bucket | undefined> {
  const settings = files === undefined ? undefined : s3Settings(files, s3Endpoint, env);
  if (settings === undefined) return undefined;
  const { openBucket } = await import("../batch-api/open-bucket.ts");
  return { settings, objects: await openBucket(settings, log) };
}

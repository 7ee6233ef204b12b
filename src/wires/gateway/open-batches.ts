import { s3Settings } from "../../async/batch-api/s3-place.ts";
import type { WebhookSettings } from "../../async/batch-api/webhook.ts";
import { freshRandom } from "../../base/clock/random.ts";
import { collectStart, growHeapBy, limitYoungGeneration } from "../../base/process/garbage.ts";
import type { BatchHome } from "../batch-api/batch-home.ts";
import type { BatchSettings } from "./batch-settings.ts";
import type { GatewayBatches, GatewayBatchesParts } from "./gateway-batches.ts";
import type { GatewayOptions, LogSettings } from "./gateway-options.ts";

/**
 * The Batch API, where the settings name its place; no other gateway loads it.
 * @throws SluiceError BATCH_STORE, BATCH_SERVED, BATCH_BUCKET, S3_CLIENT_MISSING, FLAG_MISSING and FLAG_VALUE for the secret of a webhook
 */
export async function openBatches(
  { batch, env = {}, logging = { level: "info", encoder: undefined }, memory }: GatewayOptions & Partial<LogSettings>,
  parts: Pick<GatewayBatchesParts, "allowance" | "clock" | "log">,
): Promise<GatewayBatches | undefined> {
  if (batch?.folder === undefined && batch?.redis === undefined) return undefined;
  const webhook = await webhookOf(batch, env);
  const home = await homeOf(batch, env, parts);
  const { GatewayBatches } = await import("./gateway-batches.ts");
  const heap = memory && {
    ...{ growth: memory.heapGrowth, growBy: growHeapBy },
    ...{ collect: collectStart, limitYoung: limitYoungGeneration },
  };
  return new GatewayBatches({ ...{ ...parts, settings: batch, logging, webhook, heap }, home });
}

async function homeOf(
  settings: BatchSettings,
  env: NonNullable<GatewayOptions["env"]>,
  { clock, log }: Pick<GatewayBatchesParts, "clock" | "log">,
): Promise<BatchHome> {
  const { openHome } = await import("../batch-api/batch-home.ts");
  const { files, s3Endpoint } = settings;
  const bucket = files === undefined ? undefined : s3Settings(files, s3Endpoint, env);
  return openHome({ ...settings, bucket }, { clock, random: freshRandom(), log });
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

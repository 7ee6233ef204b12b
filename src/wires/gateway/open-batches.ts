import type { WebhookSettings } from "../../async/batch-api/webhook.ts";
import type { BatchSettings } from "./batch-settings.ts";
import type { GatewayBatches, GatewayBatchesParts } from "./gateway-batches.ts";
import type { GatewayOptions, LogSettings } from "./gateway-options.ts";

/**
 * The Batch API, where the settings name its folder; no other gateway loads it.
 * @throws SluiceError BATCH_STORE, BATCH_SERVED, FLAG_MISSING and FLAG_VALUE for the secret of a webhook
 */
export async function openBatches(
  { batch, env = {}, logging = { level: "info", encoder: undefined } }: GatewayOptions & Partial<LogSettings>,
  parts: Pick<GatewayBatchesParts, "saturation" | "clock" | "log">,
): Promise<GatewayBatches | undefined> {
  if (batch?.folder === undefined) return undefined;
  const { GatewayBatches } = await import("./gateway-batches.ts");
  return new GatewayBatches({
    ...{ ...parts, settings: batch, folder: batch.folder, logging },
    webhook: await webhookOf(batch, env),
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

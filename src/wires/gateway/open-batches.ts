import type { GatewayBatches, GatewayBatchesParts } from "./gateway-batches.ts";
import type { GatewayOptions, LogSettings } from "./gateway-options.ts";

/** The Batch API, where the settings name its folder; no other gateway loads it. @throws SluiceError BATCH_STORE, BATCH_SERVED */
export async function openBatches(
  { batch, logging = { level: "info", encoder: undefined } }: GatewayOptions & Partial<LogSettings>,
  parts: Pick<GatewayBatchesParts, "saturation" | "clock" | "log">,
): Promise<GatewayBatches | undefined> {
  if (batch?.folder === undefined) return undefined;
  const { GatewayBatches } = await import("./gateway-batches.ts");
  return new GatewayBatches({ ...parts, settings: batch, folder: batch.folder, logging });
}

import type { Metrics } from "../../base/telemetry/names.ts";
import { modelGuard } from "./model-guard.ts";

/**
 * Counts what InferenceModelRewrites decide, under the reference's name (scheduling 8.5).
 * @param models keeps the names that clients choose in bounds; rewrite and target come from objects, whose number and size
 *   are bounded
 */
export function rewriteCounter(
  metrics: Metrics,
  models = modelGuard(undefined),
): (rewrite: string, model: string, target: string) => void {
  return (rewrite, model, target) =>
    metrics.modelRewriteDecisionsTotal.with(rewrite, models.admit(model), target).inc();
}

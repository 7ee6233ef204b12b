import { LabelGuard } from "../telemetry/label-guard.ts";
import type { Metrics } from "../telemetry/names.ts";

/** Distinct model names in labels, for the life of the process (scheduling 8.1). */
const MAX_MODELS = 1000;

/** Counts what InferenceModelRewrites decide, under the reference's name (scheduling 8.5). */
export function rewriteCounter(metrics: Metrics): (rewrite: string, model: string, target: string) => void {
  // Clients choose the model; rewrite and target come from objects, whose number and size are bounded.
  const models = new LabelGuard(MAX_MODELS);
  return (rewrite, model, target) =>
    metrics.modelRewriteDecisionsTotal.with(rewrite, models.admit(model), target).inc();
}

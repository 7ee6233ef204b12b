import { LabelGuard } from "../../base/telemetry/label-guard.ts";
import type { ResourceStore } from "../../pool/resources/resource-store.ts";

/** Distinct model names in labels, for the life of the process (scheduling 8.1). */
const MAX_MODELS = 1000;

/**
 * What keeps model names in labels bounded, one for all metrics of a process: a name then looks the same in each. Names that
 * InferenceModelRewrites use keep their own label (S-96).
 * @param resources undefined = there are none
 */
export function modelGuard(resources: Pick<ResourceStore, "rewriteNames"> | undefined): LabelGuard {
  return new LabelGuard(MAX_MODELS, (name) => resources?.rewriteNames(name) ?? false);
}

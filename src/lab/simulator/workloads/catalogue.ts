import { SluiceError } from "../../../base/inference/errors.ts";
import { AGENTS } from "./agents.ts";
import { B2B_SAAS, STALENESS } from "./b2b-saas.ts";
import { BURST } from "./burst.ts";
import { BURSTS } from "./bursts.ts";
import { CONVERSATIONS } from "./conversations.ts";
import { DISAGGREGATED } from "./disaggregated.ts";
import { HOT_DOCUMENT, HOT_PREFIX } from "./hot-prefix.ts";
import { LONG_DOCUMENTS } from "./long-documents.ts";
import { LORA_TIERS } from "./lora-tiers.ts";
import { LOW_PREFIX_SHARE } from "./low-prefix-share.ts";
import { NOISY_NEIGHBOUR } from "./noisy-neighbour.ts";
import { PRIORITY_MIX } from "./priority-mix.ts";
import { REALTIME_AND_BATCH, REALTIME_WITH_BATCH } from "./realtime-and-batch.ts";
import { SCALE_FROM_ZERO } from "./scale-from-zero.ts";
import { TENANTS_FRESH, TENANTS_OVERLOAD } from "./tenants.ts";
import { TOOL_CALLS } from "./tool-calls.ts";
import { WORKING_SETS } from "./working-sets.ts";
import type { Workload, WorkloadDefinition, WorkloadSettings } from "./workload.ts";

/** All workloads, in the order of lists. */
export const WORKLOADS: readonly WorkloadDefinition[] = [
  B2B_SAAS,
  LOW_PREFIX_SHARE,
  HOT_PREFIX,
  BURSTS,
  ...STALENESS,
  TENANTS_OVERLOAD,
  REALTIME_AND_BATCH,
  LORA_TIERS,
  CONVERSATIONS,
  LONG_DOCUMENTS,
  AGENTS,
  TOOL_CALLS,
  ...WORKING_SETS,
  HOT_DOCUMENT,
  TENANTS_FRESH,
  NOISY_NEIGHBOUR,
  PRIORITY_MIX,
  REALTIME_WITH_BATCH,
  BURST,
  SCALE_FROM_ZERO,
  DISAGGREGATED,
].map(checked);

/** The workload of that name; undefined when there is none. */
export function workloadNamed(name: string): WorkloadDefinition | undefined {
  return WORKLOADS.find((workload) => workload.name === name);
}

/** The same definition with a `make` that refuses unusable settings. */
function checked(definition: WorkloadDefinition): WorkloadDefinition {
  return {
    ...definition,
    /** @throws SluiceError WORKLOAD_INVALID */
    make(settings: WorkloadSettings): Workload {
      positive(definition, "rate", settings.rate, definition.rateUnit);
      positive(definition, "durationMs", settings.durationMs, "milliseconds");
      positive(definition, "servers", settings.servers, "servers");
      return definition.make(settings);
    },
  };
}

function positive({ name }: WorkloadDefinition, what: string, value: number, unit: string): void {
  if (value > 0 && value < Number.POSITIVE_INFINITY) return;
  throw new SluiceError(
    "WORKLOAD_INVALID",
    `${what} of workload ${name} is ${value}; give a number above 0, in ${unit}`,
  );
}

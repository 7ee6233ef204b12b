import { SluiceError } from "../../../base/inference/errors.ts";
import type { Workload, WorkloadDefinition, WorkloadSettings } from "./workload.ts";

/** The same definition, whose `make` refuses settings that it cannot work with. */
export function checked(definition: WorkloadDefinition): WorkloadDefinition {
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

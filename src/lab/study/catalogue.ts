import { PRESETS } from "../simulator/batching/presets.ts";
import { WORKLOADS } from "../simulator/workloads/catalogue.ts";
import { filePolicy, POLICIES } from "./policies.ts";
import type { SimulateCatalogue } from "./simulate-settings.ts";

/** Everything that `sluice simulate` knows by name. */
export const CATALOGUE: SimulateCatalogue = { workloads: WORKLOADS, policies: POLICIES, presets: PRESETS, filePolicy };

import { type MemoryPlan, memoryPlanOf } from "../../base/process/memory-plan.ts";
import type { ConfigSource } from "../../picker/core/config-source.ts";
import { defaultSettings, overridden, placeOf, readGatewayFile } from "./gateway-file.ts";
import { type GatewayKey, type GivenSettings, valueAt } from "./gateway-keys.ts";
import { gatewayOptions } from "./gateway-options.ts";
import type { ReadSettings } from "./gateway-reload.ts";
import type { GatewaySettings } from "./gateway-settings.ts";
import { settingEntries } from "./settings-view.ts";

/**
 * The settings of a gateway: those of the command line, then those of its file, then the defaults.
 * @param path of a gateway.yaml; undefined = there is none
 * @param cgroup the bytes that the cgroup of the process allows; Infinity = it has no limit
 * @throws SluiceError DOCUMENT_..., FLAG_CONFLICT
 */
export async function readSettings(
  path: string | undefined,
  given: GivenSettings,
  env: ConfigSource["env"],
  cgroup: number = Number.POSITIVE_INFINITY,
): Promise<ReadSettings> {
  const file = path === undefined ? undefined : await readGatewayFile(path);
  const all = given.over(file?.settings ?? defaultSettings());
  const memory = memoryPlanOf(all.memory.limit, cgroup);
  const settings = withinMemory(
    all,
    memory,
    (key) => given.has(key) || valueAt(file?.document.value, key) !== undefined,
  );
  return {
    settings,
    options: { ...gatewayOptions(settings, file, env), memory },
    warnings: file === undefined ? [] : overridden(file, given),
    entries: (inForce) => settingEntries(inForce, file, given),
    placeOf: (key) => (file === undefined ? key : placeOf(file, key)),
  };
}

/**
 * Sizes that neither a flag nor the file gives become as small as the memory plan has them.
 * @param isGiven whether one of them gives a key
 */
function withinMemory(
  settings: GatewaySettings,
  plan: MemoryPlan,
  isGiven: (key: GatewayKey) => boolean,
): GatewaySettings {
  const { budget, small, smallReserve } = settings.bodies;
  const bodies = {
    ...settings.bodies,
    budget: isGiven("bodies.budget") ? budget : Math.min(budget, plan.bodies),
    smallReserve: isGiven("bodies.smallReserve")
      ? smallReserve
      : Math.min(smallReserve, Math.max(plan.smallBodies, small)),
  };
  return { ...settings, bodies };
}

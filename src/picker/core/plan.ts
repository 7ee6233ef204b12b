import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { PluginInstances } from "../../base/plugin/instances.ts";
import type { SharedPrefixes } from "../../base/plugin/shared-prefixes.ts";
import type { StartTokenizers } from "../../base/plugin/tokenizers.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { EffectiveConfig } from "../config/effective.ts";
import { configFingerprint } from "../config/fingerprint.ts";
import { buildPlan } from "../scheduling/build.ts";
import type { SchedulingPlan } from "../scheduling/profile.ts";

export interface InstancesParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  /** The plugins of the previous configuration; they may keep their state. */
  readonly previous?: PluginInstances | undefined;
  /** As `PluginContext.indexBytes`. */
  readonly indexBytes?: number | undefined;
  /** Starts tokenizers in threads; absent where plugins get none. */
  readonly startTokenizers?: StartTokenizers | undefined;
  /** Absent where no replicas share what they know. */
  readonly sharedPrefixes?: SharedPrefixes | undefined;
}

/** Returns a container for the plugins of a configuration. */
export function instancesOf(config: EffectiveConfig, parts: InstancesParts): PluginInstances {
  return new PluginInstances({ ...parts, configured: config.configured });
}

/** Builds the plan of a configuration. @throws SluiceError as `buildPlan` does */
export function planOf(config: EffectiveConfig, instances: PluginInstances): SchedulingPlan {
  const { profiles, handler, screeners, admitters, producers, configured, registry } = config;
  return buildPlan({
    ...{ profiles, handler, screeners, admitters, producers, registry, instances },
    referable: configured,
    configHash: configFingerprint(config),
  });
}

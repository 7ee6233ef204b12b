import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { PluginInstances } from "../../base/plugin/instances.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { EffectiveConfig } from "../config/effective.ts";
import { configFingerprint } from "../config/fingerprint.ts";
import { buildPlan } from "../scheduling/build.ts";
import type { SchedulingPlan } from "../scheduling/profile.ts";

export interface InstancesParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  /** Of the configuration that is replaced, where its plugins may go on with what they have learnt. */
  readonly previous?: PluginInstances | undefined;
}

/** A place for the plugins of a configuration. */
export function instancesOf(config: EffectiveConfig, parts: InstancesParts): PluginInstances {
  return new PluginInstances({ ...parts, configured: config.configured });
}

/** Makes what decides about requests, as a configuration says. @throws SluiceError what `buildPlan` throws */
export function planOf(config: EffectiveConfig, instances: PluginInstances): SchedulingPlan {
  const { profiles, handler, screeners, admitters, producers, configured, registry } = config;
  return buildPlan({
    ...{ profiles, handler, screeners, admitters, producers, registry, instances },
    referable: configured,
    configHash: configFingerprint(config),
  });
}

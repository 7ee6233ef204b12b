import type { PluginInstances } from "../../base/plugin/instances.ts";
import type { OwnHook, RequestParser, SaturationDetector } from "../../base/plugin/kinds.ts";
import type { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { ParserTable } from "../apis/parser-table.ts";
import type { ConfiguredPlugin, EffectiveConfig } from "../config/effective.ts";
import type { DecisionParts } from "../exchange/decide.ts";
import { type PluginCalls, RequestHooks } from "../exchange/request-hooks.ts";
import type { FlowControlSettings } from "../flowcontrol/flow-control.ts";
import { LegacyAdmission } from "../flowcontrol/legacy-admission.ts";
import type { SchedulingPlan } from "../scheduling/profile.ts";
import { type InstancesParts, instancesOf, planOf } from "./plan.ts";

/** The parts made from one configuration. */
export interface InForce extends DecisionParts {
  readonly instances: PluginInstances;
  readonly plan: SchedulingPlan;
  readonly detector: { readonly name: string; readonly plugin: SaturationDetector };
  readonly hooks: RequestHooks;
  /** Undefined: requests do not queue. */
  readonly flowControl: FlowControlSettings | undefined;
  /** The configured parsers; none = the default ones, which work with every protocol. */
  readonly named: readonly { readonly name: string; readonly plugin: RequestParser }[];
}

/** The parts of the process that a configuration needs. */
export interface InForceParts extends InstancesParts {
  /** Request hooks that run after those of the configuration. */
  readonly ownHooks: readonly OwnHook[];
  readonly failures: RateLimitedLog;
  readonly calls: PluginCalls;
}

/** Creates all plugins of a configuration. Throws the error of a plugin's creation; then no created plugin stays open. */
export function makeInForce(config: EffectiveConfig, parts: InForceParts): InForce {
  const instances = instancesOf(config, parts);
  try {
    return inForceOf(config, instances, parts);
  } catch (error) {
    instances.close();
    throw error;
  }
}

function inForceOf(
  config: EffectiveConfig,
  instances: PluginInstances,
  { ownHooks, failures, calls }: InForceParts,
): InForce {
  const make = <K extends "parser" | "request-hook" | "request-header-processor">(plugin: ConfiguredPlugin<K>) => ({
    ...{ name: plugin.name, type: plugin.definition.type },
    plugin: instances.make(plugin),
  });
  const named = config.parsers.map(make);
  const detector = instances.make(config.detector);
  const hooks = config.hooks.map(make);
  return {
    instances,
    named,
    plan: planOf(config, instances),
    detector: { name: config.detector.name, plugin: detector },
    flowControl: undefined,
    admission: new LegacyAdmission(detector),
    parsers: named.length === 0 ? new ParserTable() : new ParserTable(named.map(({ plugin }) => plugin)),
    headerProcessors: config.headerProcessors.map(make),
    hooks: new RequestHooks(
      [...hooks, ...ownHooks],
      (hook, error) =>
        failures.log("error", `hook ${hook}`, { err: error, plugin: hook }, "a request hook failed and was left out"),
      calls,
    ),
  };
}

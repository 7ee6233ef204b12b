import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { PluginInstances } from "../../base/plugin/instances.ts";
import type { OwnHook, PreRequestContext, RequestParser, SaturationDetector } from "../../base/plugin/kinds.ts";
import type { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { CRITICALITY_PRIORITIES } from "../../pool/resources/resolve.ts";
import { ParserTable } from "../apis/parser-table.ts";
import type { ConfiguredPlugin, EffectiveBand, EffectiveConfig, EffectiveFlowControl } from "../config/effective.ts";
import type { DecisionParts } from "../exchange/decide.ts";
import { type PluginCalls, RequestHooks } from "../exchange/request-hooks.ts";
import { LegacyAdmission } from "../flowcontrol/legacy-admission.ts";
import { FLOW_RULES } from "../flowcontrol/rules.ts";
import type { BandSettings, FlowControlSettings } from "../flowcontrol/settings.ts";
import type { SchedulingPlan } from "../scheduling/profile.ts";
import { startTokenizers } from "../tokenizers/start.ts";
import { type InstancesParts, instancesOf, planOf } from "./plan.ts";

/** The parts made from one configuration. */
export interface InForce extends DecisionParts {
  readonly instances: PluginInstances;
  readonly plan: SchedulingPlan;
  readonly detector: { readonly name: string; readonly plugin: SaturationDetector };
  /** Undefined = no request queues. */
  readonly flowControl: FlowControlSettings | undefined;
  /** The configuration leaves it to InferenceModels whether requests queue, and this is how; else undefined. */
  readonly modelFlowControl: EffectiveFlowControl | undefined;
  readonly hooks: RequestHooks;
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
  const instances = instancesOf(config, { startTokenizers, ...parts });
  try {
    return inForceOf(config, instances, parts);
  } catch (error) {
    instances.close();
    throw error;
  }
}

/** The table of the configured parsers; without one, the table of the default ones. */
function parserTable(parsers: readonly RequestParser[]): ParserTable {
  return parsers.length === 0 ? new ParserTable() : new ParserTable(parsers);
}

/**
 * Returns the paths that the parsers of a configuration claim: whole paths, and `*` before a suffix. Creates the parsers for it.
 * Throws the error of a parser's creation.
 */
export function claimedPaths(config: EffectiveConfig, parts: InstancesParts): readonly string[] {
  const instances = instancesOf(config, parts);
  try {
    return parserTable(config.parsers.map((parser) => instances.make(parser))).claimed;
  } finally {
    instances.close();
  }
}

/** With flow control the detector holds requests of every priority back; none is refused besides (scheduling 5.5). */
const ADMITS_ALL: DecisionParts["admission"] = { admit: () => undefined };

/**
 * Returns the settings of flow control with their policies made, each once for all bands that name it.
 * @param detector the saturation detector in force
 */
export function flowControlSettings(
  flowControl: EffectiveFlowControl,
  instances: PluginInstances,
  detector: SaturationDetector,
): FlowControlSettings {
  const bandOf = (band: EffectiveBand): BandSettings => ({
    maxBytes: band.maxBytes,
    maxRequests: band.maxRequests,
    ttl: band.defaultRequestTTL,
    ordering: instances.make(band.orderingPolicy),
    fairness: instances.make(band.fairnessPolicy),
  });
  return {
    maxBytes: flowControl.maxBytes,
    maxRequests: flowControl.maxRequests,
    noEndpointTtl: flowControl.noEndpointRequestTTL,
    bands: new Map([...flowControl.bands].map(([priority, band]) => [priority, bandOf(band)])),
    template: bandOf(flowControl.defaultPriorityBand),
    negativeTemplate: bandOf(flowControl.defaultNegativePriorityBand),
    usageLimit: instances.make(flowControl.usageLimitPolicy),
    eviction: flowControl.eviction,
    rules: FLOW_RULES[flowControl.parity],
    detector,
  };
}

/**
 * Returns a detector that counts endpoints as idle while none of them has fresh metrics. Then nobody knows the load. The operator
 * did not ask for queues, so metrics that cannot be read must not stop the pool.
 */
function openWhileBlind(detector: SaturationDetector): SaturationDetector {
  const known = (figure: number, endpoints: readonly Endpoint[], now: number): number => {
    if (figure < 1 || endpoints.length === 0) return figure;
    detector.saturation(endpoints, now);
    return detector.staleEndpoints === endpoints.length ? 0 : figure;
  };
  const { settles } = detector;
  return {
    saturation: (endpoints, now) => known(detector.saturation(endpoints, now), endpoints, now),
    expected(endpoints, now, further) {
      const figure = detector.expected?.(endpoints, now, further) ?? detector.saturation(endpoints, now);
      return known(figure, endpoints, now);
    },
    ...(settles === undefined ? {} : { settles }),
  };
}

/**
 * Returns the parts for the time with or without InferenceModels; the same parts where those change nothing. Policies keep what
 * they have learnt from one time to the next. Throws the error of a policy's creation.
 * @param present whether InferenceModels of a v1alpha2 pool are present (docs/spec/decisions.md#model-fairness)
 */
export function forModels(inForce: InForce, present: boolean): InForce {
  const { modelFlowControl, flowControl, instances, detector } = inForce;
  if (modelFlowControl === undefined || present === (flowControl !== undefined)) return inForce;
  if (!present) return { ...inForce, flowControl: undefined, admission: new LegacyAdmission(detector.plugin) };
  const settings = flowControlSettings(modelFlowControl, instances, openWhileBlind(detector.plugin));
  const bands = new Map(CRITICALITY_PRIORITIES.map((priority) => [priority, settings.template]));
  return { ...inForce, flowControl: { ...settings, bands }, admission: ADMITS_ALL };
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
  const plan = planOf(config, instances);
  const telling = plan.producers.flatMap(({ name, type, plugin }) =>
    plugin.preRequest === undefined
      ? []
      : [{ name, type, plugin: { preRequest: (context: PreRequestContext) => plugin.preRequest!(context) } }],
  );
  return {
    instances,
    named,
    plan,
    detector: { name: config.detector.name, plugin: detector },
    flowControl: config.flowControl && flowControlSettings(config.flowControl, instances, detector),
    modelFlowControl: config.modelFlowControl,
    admission: config.flowControl === undefined ? new LegacyAdmission(detector) : ADMITS_ALL,
    parsers: parserTable(named.map(({ plugin }) => plugin)),
    headerProcessors: config.headerProcessors.map(make),
    hooks: new RequestHooks(
      [...telling, ...hooks, ...ownHooks],
      (hook, error) =>
        failures.log("error", `hook ${hook}`, { err: error, plugin: hook }, "a request hook failed; Sluice skipped it"),
      calls,
    ),
  };
}

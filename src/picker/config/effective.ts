import type { Document } from "../../base/document/document.ts";
import type { Parity } from "../../base/inference/parity.ts";
import type { PluginDefinition, PluginKind } from "../../base/plugin/kinds.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";

/** A plugin with all that its creation needs. */
export interface ConfiguredPlugin<K extends PluginKind = PluginKind> {
  readonly definition: PluginDefinition<K>;
  /** Instance name; the type when the file gives none. */
  readonly name: string;
  /** The output of the definition's schema for the parameters. */
  readonly parameters: unknown;
}

/** The kinds of plugins in a profile. */
export type MemberKind = "filter" | "scorer" | "picker";

/** A member of the profile. */
export interface ProfilePlugin extends ConfiguredPlugin<MemberKind> {
  /** From 0 up; only scorers use it. */
  readonly weight: number;
}

/** A profile: filters, scorers and exactly one picker, in the order of the file. A picker that Sluice added is last. */
export interface EffectiveProfile {
  readonly name: string;
  readonly plugins: readonly ProfilePlugin[];
}

/** A source of data, and the plugins that it delivers to: extractors that read its pages, or plugins that it tells of changes. */
export interface EffectiveDataSource {
  readonly source: ConfiguredPlugin<"data-source">;
  readonly extractors: readonly ConfiguredPlugin[];
}

/** The queues of one priority (scheduling 4.2). */
export interface EffectiveBand {
  /** Bytes of bodies and number of requests that the band holds. */
  readonly maxBytes: number;
  readonly maxRequests: number;
  /** Milliseconds that a request may wait while there are endpoints; Infinity = any time. */
  readonly defaultRequestTTL: number;
  readonly orderingPolicy: ConfiguredPlugin<"ordering-policy">;
  readonly fairnessPolicy: ConfiguredPlugin<"fairness-policy">;
}

/** `flowControl` with its defaults, except for the saturation detector (scheduling 4.2). */
export interface EffectiveFlowControl {
  /** Limits over all bands; Infinity = no limit. */
  readonly maxBytes: number;
  readonly maxRequests: number;
  /** Milliseconds that a request may wait while there is no endpoint; Infinity = any time. */
  readonly noEndpointRequestTTL: number;
  /** The bands of the file, by priority. */
  readonly bands: ReadonlyMap<number, EffectiveBand>;
  /** For priorities without a band of their own: from 0 up, and below 0. */
  readonly defaultPriorityBand: EffectiveBand;
  readonly defaultNegativePriorityBand: EffectiveBand;
  readonly usageLimitPolicy: ConfiguredPlugin<"usage-limit-policy">;
  /** Whether sheddable requests in flight end when requests of higher priority wait. */
  readonly eviction: boolean;
  /** The release that counts where the engine differs from it. */
  readonly parity: Parity;
}

/** A complete EndpointPickerConfig. */
export interface EffectiveConfig {
  /** The file or flag of the configuration. */
  readonly source: string;
  /** The file as it was read, and the release whose defaults count in it. */
  readonly document: Document;
  readonly parity: Parity;
  /** The types that the configuration may name, with those of its modules. Default producers come from it. */
  readonly registry: PluginRegistry;
  /** At least one. */
  readonly profiles: readonly EffectiveProfile[];
  /** Chooses the profiles that run. */
  readonly handler: ConfiguredPlugin<"profile-handler">;
  /** Plugins of these three kinds act whenever they are configured, in the order of the file. */
  readonly headerProcessors: readonly ConfiguredPlugin<"request-header-processor">[];
  readonly screeners: readonly ConfiguredPlugin<"screener">[];
  readonly admitters: readonly ConfiguredPlugin<"admitter">[];
  /** The producers of the file, in its order. The plan adds missing ones with their defaults. */
  readonly producers: readonly ConfiguredPlugin<"producer">[];
  readonly detector: ConfiguredPlugin<"saturation-detector">;
  /** The gate is on; undefined = it is off, or the file does not set it. */
  readonly flowControl: EffectiveFlowControl | undefined;
  /**
   * Flow control while InferenceModels of a v1alpha2 pool are present: the file does not set the gate. Undefined = the file sets
   * it, or parity with a release without InferenceModels counts.
   */
  readonly modelFlowControl: EffectiveFlowControl | undefined;
  readonly discovery: ConfiguredPlugin<"discovery"> | undefined;
  /** The chosen parsers, in the order of the file; empty = the default set (epp-protocol 10.1). */
  readonly parsers: readonly ConfiguredPlugin<"parser">[];
  /** Every configured request hook, in the order of the file. */
  readonly hooks: readonly ConfiguredPlugin<"request-hook">[];
  /** Every plugin of the file, for plugins that refer to others by name. */
  readonly configured: readonly ConfiguredPlugin[];
  /** The sources of data; without one of metrics, Sluice scrapes nothing. */
  readonly dataSources: readonly EffectiveDataSource[];
  /** Warnings about a file that loads: deprecations, plugins without effect. */
  readonly warnings: readonly string[];
}

/** Returns the policies of flow control, each as often as a band or the section names it; none without flow control. */
export function policiesOf({
  flowControl,
}: {
  readonly flowControl: EffectiveFlowControl | undefined;
}): readonly ConfiguredPlugin[] {
  if (flowControl === undefined) return [];
  const { bands, defaultPriorityBand, defaultNegativePriorityBand, usageLimitPolicy } = flowControl;
  const all = [...bands.values(), defaultPriorityBand, defaultNegativePriorityBand];
  return [...all.flatMap((band) => [band.orderingPolicy, band.fairnessPolicy]), usageLimitPolicy];
}

/** Returns all that has an effect in `flowControl`. @param described says what a plugin is */
export function flowControlMeaning(
  flowControl: EffectiveFlowControl,
  described: (plugin: ConfiguredPlugin) => unknown,
): unknown {
  const meaning = ({ maxBytes, maxRequests, defaultRequestTTL, orderingPolicy, fairnessPolicy }: EffectiveBand) => [
    ...[maxBytes, maxRequests, defaultRequestTTL],
    ...[described(orderingPolicy), described(fairnessPolicy)],
  ];
  const { maxBytes, maxRequests, noEndpointRequestTTL, bands, usageLimitPolicy } = flowControl;
  return [
    ...[maxBytes, maxRequests, noEndpointRequestTTL, described(usageLimitPolicy), flowControl.eviction],
    // The order of the bands in the file has no effect.
    [...bands].sort(([a], [b]) => a - b).map(([priority, band]) => [priority, meaning(band)]),
    meaning(flowControl.defaultPriorityBand),
    meaning(flowControl.defaultNegativePriorityBand),
    ...(flowControl.parity === "" ? [] : [flowControl.parity]),
  ];
}

/**
 * Returns what the file says of flow control, except for the detector: the section with the gate on, and that the gate is off.
 * Where the file does not set the gate, its policies count for the time with InferenceModels.
 */
export function queueingMeaning(
  { flowControl, modelFlowControl, configured }: EffectiveConfig,
  described: (plugin: ConfiguredPlugin) => unknown,
): readonly unknown[] {
  if (flowControl !== undefined) return [flowControlMeaning(flowControl, described)];
  if (modelFlowControl === undefined) return ["off"];
  const own = policiesOf({ flowControl: modelFlowControl }).filter((policy) => configured.includes(policy));
  return own.length === 0 ? [] : [own.map(described)];
}

/** Summarizes the configuration in force for one log line. */
export function effectiveSummary(config: EffectiveConfig): Readonly<Record<string, unknown>> {
  const [only, ...more] = config.profiles.map(profileSummary);
  const rest = {
    headerProcessors: config.headerProcessors,
    screeners: config.screeners,
    admitters: config.admitters,
    parsers: config.parsers,
    hooks: config.hooks,
  };
  return {
    source: config.source,
    ...(more.length === 0 ? only : { profiles: [only, ...more], handler: label(config.handler) }),
    producers: config.producers.map(label),
    saturationDetector: label(config.detector),
    ...(config.flowControl === undefined ? {} : { flowControl: flowControlSummary(config.flowControl) }),
    ...(config.discovery === undefined ? {} : { discovery: label(config.discovery) }),
    ...Object.fromEntries(
      Object.entries(rest).flatMap(([key, plugins]) => (plugins.length === 0 ? [] : [[key, plugins.map(label)]])),
    ),
    metrics: config.dataSources.map(
      ({ source, extractors }) => `${label(source)} read by ${extractors.map(label).join(", ") || "no extractor"}`,
    ),
  };
}

/** Summarizes flow control for one log line. */
export function flowControlSummary(flowControl: EffectiveFlowControl): Readonly<Record<string, unknown>> {
  const { maxBytes, maxRequests, noEndpointRequestTTL, bands, usageLimitPolicy } = flowControl;
  const { defaultPriorityBand, defaultNegativePriorityBand } = flowControl;
  const isOne = defaultNegativePriorityBand === defaultPriorityBand;
  const templates = isOne
    ? [["other", defaultPriorityBand] as const]
    : [["other", defaultPriorityBand] as const, ["other below 0", defaultNegativePriorityBand] as const];
  return {
    ...(maxBytes === Number.POSITIVE_INFINITY ? {} : { maxBytes }),
    ...(maxRequests === Number.POSITIVE_INFINITY ? {} : { maxRequests }),
    noEndpointRequestTTL: waitText(noEndpointRequestTTL),
    usageLimitPolicy: label(usageLimitPolicy),
    ...(flowControl.eviction ? { eviction: true } : {}),
    bands: Object.fromEntries([...bands, ...templates].map(([priority, band]) => [priority, bandSummary(band)])),
  };
}

function bandSummary(band: EffectiveBand): string {
  const policies = `${label(band.orderingPolicy)}, ${label(band.fairnessPolicy)}`;
  return `${policies}, ${band.maxRequests} requests, ${band.maxBytes} bytes, TTL ${waitText(band.defaultRequestTTL)}`;
}

/** @param ms Infinity = any time */
function waitText(ms: number): string {
  return ms === Number.POSITIVE_INFINITY ? "none" : `${ms}ms`;
}

function profileSummary({ name, plugins }: EffectiveProfile): Readonly<Record<string, unknown>> {
  const members = (kind: MemberKind) => plugins.filter(({ definition }) => definition.kind === kind);
  return {
    profile: name,
    filters: members("filter").map(label),
    scorers: members("scorer").map((scorer) => `${label(scorer)} x ${scorer.weight}`),
    picker: members("picker").map(label).join(),
  };
}

function label({ name, definition }: ConfiguredPlugin): string {
  return name === definition.type ? name : `${name} (${definition.type})`;
}

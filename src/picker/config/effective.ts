import type { PluginDefinition, PluginKind } from "../../base/plugin/kinds.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";

/** A plugin as it will be made. */
export interface ConfiguredPlugin<K extends PluginKind = PluginKind> {
  readonly definition: PluginDefinition<K>;
  /** Instance name; the type when the file gives none. */
  readonly name: string;
  /** What the definition's schema made of the parameters. */
  readonly parameters: unknown;
}

/** What may stand in a profile. */
export type MemberKind = "filter" | "scorer" | "picker";

/** A member of the profile. */
export interface ProfilePlugin extends ConfiguredPlugin<MemberKind> {
  /** From 0 up; means something for scorers only. */
  readonly weight: number;
}

/** A profile: filters, scorers and exactly one picker, in the order of the file; a picker that was added stands last. */
export interface EffectiveProfile {
  readonly name: string;
  readonly plugins: readonly ProfilePlugin[];
}

/** A source of metrics and what reads its pages. */
export interface EffectiveDataSource {
  readonly source: ConfiguredPlugin<"data-source">;
  readonly extractors: readonly ConfiguredPlugin<"extractor">[];
}

/** An EndpointPickerConfig with nothing left open. */
export interface EffectiveConfig {
  /** The file or flag it came from. */
  readonly source: string;
  /** The types it may name, those of its modules included: where producers come from that nobody configured. */
  readonly registry: PluginRegistry;
  /** At least one. */
  readonly profiles: readonly EffectiveProfile[];
  /** Says which of them run. */
  readonly handler: ConfiguredPlugin<"profile-handler">;
  /** These three kinds work by being configured, in the order of the file. */
  readonly headerProcessors: readonly ConfiguredPlugin<"request-header-processor">[];
  readonly screeners: readonly ConfiguredPlugin<"screener">[];
  readonly admitters: readonly ConfiguredPlugin<"admitter">[];
  /** The producers that are configured explicitly, in the order of the file. Missing ones are made with their defaults. */
  readonly producers: readonly ConfiguredPlugin<"producer">[];
  readonly detector: ConfiguredPlugin<"saturation-detector">;
  readonly discovery: ConfiguredPlugin<"discovery"> | undefined;
  /** The parsers that are chosen, in the order of the file; empty = the default set (epp-protocol 10.1). */
  readonly parsers: readonly ConfiguredPlugin<"parser">[];
  /** Every configured request hook, in the order of the file. */
  readonly hooks: readonly ConfiguredPlugin<"request-hook">[];
  /** Every plugin of the file, for those that refer to others by name. */
  readonly configured: readonly ConfiguredPlugin[];
  /** Where metrics come from; empty = nothing is scraped. */
  readonly dataSources: readonly EffectiveDataSource[];
  /** What the author of the file should know though it loads: deprecations, plugins without effect. */
  readonly warnings: readonly string[];
}

/** The configuration in force, short enough for one log line. */
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
    ...(config.discovery === undefined ? {} : { discovery: label(config.discovery) }),
    ...Object.fromEntries(
      Object.entries(rest).flatMap(([key, plugins]) => (plugins.length === 0 ? [] : [[key, plugins.map(label)]])),
    ),
    metrics: config.dataSources.map(
      ({ source, extractors }) => `${label(source)} read by ${extractors.map(label).join(", ") || "no extractor"}`,
    ),
  };
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

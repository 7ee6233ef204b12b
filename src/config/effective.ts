import type { PluginDefinition, PluginKind } from "../plugin/kinds.ts";

/** A plugin as it will be made. */
export interface ConfiguredPlugin<K extends PluginKind = PluginKind> {
  readonly definition: PluginDefinition<K>;
  /** Instance name; the type when the file gives none. */
  readonly name: string;
  /** What the definition's schema made of the parameters. */
  readonly parameters: unknown;
}

/** What may stand in a profile. */
export type ProfileKind = "filter" | "scorer" | "picker";

/** A member of the profile. */
export interface ProfilePlugin extends ConfiguredPlugin<ProfileKind> {
  /** From 0 up; means something for scorers only. */
  readonly weight: number;
}

/** An EndpointPickerConfig with nothing left open. */
export interface EffectiveConfig {
  /** The file or flag it came from. */
  readonly source: string;
  readonly profile: {
    readonly name: string;
    /** Filters, scorers and exactly one picker, in the order of the file; a picker that was added stands last. */
    readonly plugins: readonly ProfilePlugin[];
  };
  /** The producers that are configured explicitly, in the order of the file. Missing ones are made with their defaults. */
  readonly producers: readonly ConfiguredPlugin<"producer">[];
  readonly detector: ConfiguredPlugin<"saturation-detector">;
  readonly discovery: ConfiguredPlugin<"discovery"> | undefined;
  /** The parsers that are chosen, in the order of the file; empty = the default set (epp-protocol 10.1). */
  readonly parsers: readonly ConfiguredPlugin<"parser">[];
  /** Every configured request hook, in the order of the file. */
  readonly hooks: readonly ConfiguredPlugin<"request-hook">[];
  /** What the author of the file should know though it loads: deprecations, plugins without effect. */
  readonly warnings: readonly string[];
}

/** The configuration in force, short enough for one log line. */
export function effectiveSummary(config: EffectiveConfig): Readonly<Record<string, unknown>> {
  const members = (kind: ProfileKind) => config.profile.plugins.filter(({ definition }) => definition.kind === kind);
  return {
    source: config.source,
    profile: config.profile.name,
    filters: members("filter").map(label),
    scorers: members("scorer").map((scorer) => `${label(scorer)} x ${scorer.weight}`),
    picker: members("picker").map(label).join(),
    producers: config.producers.map(label),
    saturationDetector: label(config.detector),
    ...(config.discovery === undefined ? {} : { discovery: label(config.discovery) }),
    ...(config.parsers.length === 0 ? {} : { parsers: config.parsers.map(label) }),
    ...(config.hooks.length === 0 ? {} : { hooks: config.hooks.map(label) }),
  };
}

function label({ name, definition }: ConfiguredPlugin): string {
  return name === definition.type ? name : `${name} (${definition.type})`;
}

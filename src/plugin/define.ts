import { z } from "zod";
import type { ColumnKey } from "./keys.ts";
import type { PluginCompanion, PluginContext, PluginDefinition, PluginKind, PluginKinds } from "./kinds.ts";

/** What the author of a plugin writes. */
export interface PluginSource<K extends PluginKind, P extends z.ZodType> {
  /** The published type name, lower-case words with hyphens. */
  readonly type: string;
  /** One sentence: what it prefers, keeps or computes. */
  readonly describe: string;
  /** Schema of `parameters`; unknown keys are refused. Default: none allowed. */
  readonly parameters?: P;
  readonly produces?: readonly ColumnKey[];
  readonly requires?: readonly ColumnKey[];
  readonly optional?: readonly ColumnKey[];
  /** The type is deprecated: what to write instead. */
  readonly deprecated?: string;
  /** What it is as a member of a profile, where its own kind is none. */
  readonly inProfile?: PluginDefinition<"filter">;
  /** Plugins of other kinds that are made along with it when it stands in a profile. */
  companions?(parameters: z.output<P>): readonly PluginCompanion[];
  /** What the author of a configuration should know of parameters that are valid, a sentence each. */
  notes?(parameters: z.output<P>): readonly string[];
  create(parameters: z.output<P>, context: PluginContext): PluginKinds[K];
}

const NO_PARAMETERS = z.strictObject({});

function define<K extends PluginKind>(kind: K) {
  return <P extends z.ZodType = typeof NO_PARAMETERS>(source: PluginSource<K, P>): PluginDefinition<K> => ({
    kind,
    type: source.type,
    describe: source.describe,
    parameters: source.parameters ?? NO_PARAMETERS,
    produces: source.produces ?? [],
    requires: source.requires ?? [],
    optional: source.optional ?? [],
    deprecated: source.deprecated,
    inProfile: source.inProfile,
    companions: source.companions && ((parameters) => source.companions!(parameters as z.output<P>)),
    notes: source.notes && ((parameters) => source.notes!(parameters as z.output<P>)),
    // The registry calls create only with what `parameters` has parsed.
    create: (parameters, context) => source.create(parameters as z.output<P>, context),
  });
}

/** Defines a filter: drops candidates before scoring. */
export const defineFilter = define("filter");
/** Defines a scorer: 0..1 per candidate, a pure function. */
export const defineScorer = define("scorer");
/** Defines a picker: orders the scored candidates. */
export const definePicker = define("picker");
/** Defines a producer: computes columns that scorers read. */
export const defineProducer = define("producer");
/** Defines a profile handler: says which profiles run. */
export const defineProfileHandler = define("profile-handler");
/** Defines a saturation detector. */
export const defineSaturationDetector = define("saturation-detector");
/** Defines a discovery: where endpoints come from when there is no Kubernetes. */
export const defineDiscovery = define("discovery");
/** Defines a parser: reads the bodies of one family of APIs. */
export const defineParser = define("parser");
/** Defines a request hook: is told of the stations of an exchange and may set headers and metadata. */
export const defineRequestHook = define("request-hook");

import { z } from "zod";
import { SluiceError } from "../inference/errors.ts";
import type { DataKey } from "./keys.ts";
import type {
  Payload,
  PluginCompanion,
  PluginContext,
  PluginDefinition,
  PluginKind,
  PluginKinds,
  PluginLifecycle,
  PluginReference,
} from "./kinds.ts";

/** How plugins take a time in their parameters: a Go duration in, milliseconds out. */
export { duration } from "../document/duration-schema.ts";

/** The definition that the author of a plugin writes. */
interface PluginSource<K extends PluginKind, P extends z.ZodType> {
  /** The published type name, lower-case words with hyphens. */
  readonly type: string;
  /** One sentence: what it prefers, keeps or computes. */
  readonly describe: string;
  /** Schema of `parameters`; unknown keys are refused. Default: none allowed. */
  readonly parameters?: P;
  readonly produces?: readonly DataKey[];
  readonly requires?: readonly DataKey[];
  readonly optional?: readonly DataKey[];
  /** The type is deprecated: what to write instead. */
  readonly deprecated?: string;
  /** The filter that it is as a member of a profile, where its own kind has no place in one. */
  readonly inProfile?: PluginDefinition<"filter">;
  /** Of a scorer: the filter that it also is where parameters say so. The filter reads the keys that the scorer declares. */
  alsoFilter?(parameters: z.output<P>): PluginDefinition<"filter"> | undefined;
  /** Plugins of other kinds that are made along with this plugin when a profile lists it. */
  companions?(parameters: z.output<P>): readonly PluginCompanion[];
  /** Other plugins that parameters name. They are made first, and `context.plugin` returns them. */
  references?(parameters: z.output<P>): readonly PluginReference[];
  /** Request headers on which its decision depends, in lower case. Full records keep their values, so name no secrets. */
  headers?(parameters: z.output<P>): readonly string[];
  /** Hints for the author of a configuration about valid parameters, a sentence each. */
  notes?(parameters: z.output<P>): readonly string[];
  /** Of a data source and of an extractor: the data between the two; absent = `metrics`. */
  readonly payload?: Payload;
  /** Of a producer: only plugins read it that name it. */
  readonly onlyByName?: boolean;
  /** Data without which the plugin is refused. */
  readonly needs?: Payload;
  /** The attributes of endpoints that it writes or reads, each as `attribute/producer`. */
  endpointAttributes?(parameters: z.output<P>): readonly string[];
  create(parameters: z.output<P>, context: PluginContext): PluginKinds[K] & PluginLifecycle;
}

const NO_PARAMETERS = z.strictObject({});

function define<K extends PluginKind>(kind: K) {
  return <P extends z.ZodType = typeof NO_PARAMETERS>(source: PluginSource<K, P>): PluginDefinition<K> => {
    // A plugin may come without type checks.
    if (typeof source.create !== "function")
      throw new SluiceError(
        "PLUGIN_LOAD",
        `the plugin ${source.type} has no create, the function that returns its methods`,
      );
    return {
      kind,
      type: source.type,
      describe: source.describe,
      parameters: source.parameters ?? NO_PARAMETERS,
      produces: source.produces ?? [],
      requires: source.requires ?? [],
      optional: source.optional ?? [],
      deprecated: source.deprecated,
      inProfile: source.inProfile,
      alsoFilter: source.alsoFilter && ((parameters) => source.alsoFilter!(parameters as z.output<P>)),
      companions: source.companions && ((parameters) => source.companions!(parameters as z.output<P>)),
      references: source.references && ((parameters) => source.references!(parameters as z.output<P>)),
      headers: source.headers && ((parameters) => source.headers!(parameters as z.output<P>)),
      notes: source.notes && ((parameters) => source.notes!(parameters as z.output<P>)),
      payload: source.payload,
      needs: source.needs,
      onlyByName: source.onlyByName,
      endpointAttributes:
        source.endpointAttributes && ((parameters) => source.endpointAttributes!(parameters as z.output<P>)),
      // The registry calls create only with what `parameters` has parsed.
      create: (parameters, context) => source.create(parameters as z.output<P>, context),
    };
  };
}

/** Defines a filter: drops candidates before scoring. */
export const defineFilter = define("filter");
/** Defines a scorer: 0..1 per candidate, a pure function. */
export const defineScorer = define("scorer");
/** Defines a picker: orders the scored candidates. */
export const definePicker = define("picker");
/** Defines a producer: computes columns that scorers read. */
export const defineProducer = define("producer");
/** Defines a profile handler: says which profiles run, and which of them is the primary one. */
export const defineProfileHandler = define("profile-handler");
/** Defines a decider: decides for a profile handler whether a further stage pays off. */
export const defineDecider = define("decider");
/** Defines a screener: narrows the candidates before anything is computed for them. */
export const defineScreener = define("screener");
/** Defines an admitter: decides whether a request is served at all. */
export const defineAdmitter = define("admitter");
/** Defines a request-header processor: may refuse a request early, or set its fairness ID. */
export const defineRequestHeaderProcessor = define("request-header-processor");
/** Defines a saturation detector. */
export const defineSaturationDetector = define("saturation-detector");
/** Defines an ordering policy: which request of a queue leaves first. */
export const defineOrderingPolicy = define("ordering-policy");
/** Defines a fairness policy: which flow of a band is served next. */
export const defineFairnessPolicy = define("fairness-policy");
/** Defines a usage limit policy: how much of the pool each priority may use. */
export const defineUsageLimitPolicy = define("usage-limit-policy");
/** Defines a discovery: the source of endpoints where there is no Kubernetes. */
export const defineDiscovery = define("discovery");
/** Defines a parser: reads the bodies of one family of APIs. */
export const defineParser = define("parser");
/** Defines a request hook: follows the stages of an exchange and may set headers and metadata. */
export const defineRequestHook = define("request-hook");
/** Defines a data source: where metrics pages are fetched. */
export const defineDataSource = define("data-source");
/** Defines an extractor: how metrics pages are read. */
export const defineExtractor = define("extractor");

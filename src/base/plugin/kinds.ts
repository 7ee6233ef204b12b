import type { z } from "zod";
import type { Clock } from "../clock/clock.ts";
import type { Random } from "../clock/random.ts";
import type { Logger } from "../telemetry/logger.ts";
import type {
  Admitter,
  Decider,
  Filter,
  Picker,
  Producer,
  ProfileHandler,
  RequestHeaderProcessor,
  Scorer,
  Screener,
} from "./decision-kinds.ts";
import type { RequestHook, RequestParser } from "./exchange-kinds.ts";
import type { FairnessPolicy, OrderingPolicy, SaturationDetector, UsageLimitPolicy } from "./flow-kinds.ts";
import type { DataKey } from "./keys.ts";
import type { SharedPrefixes } from "./shared-prefixes.ts";
import type { StartTokenizers } from "./tokenizers.ts";

export type * from "./decision-kinds.ts";
export type * from "./exchange-kinds.ts";
export type * from "./flow-kinds.ts";

/** The context in which a plugin instance is made. */
export interface PluginContext {
  /** Instance name; the type when the configuration gives none. */
  readonly name: string;
  readonly clock: Clock;
  readonly random: Random;
  /** Its lines carry the plugin's name. Nothing per request below `debug`; never prompt text. */
  readonly log: Logger;
  /**
   * The instance of another plugin that `references` of the definition names.
   * @throws SluiceError PLUGIN_UNKNOWN when there is none of that name and kind
   */
  plugin<K extends PluginKind>(name: string, kind: K): PluginKinds[K];
  /** The most bytes of an index that the plugin keeps, where its parameters give no size; absent or Infinity = its own bound. */
  readonly indexBytes?: number | undefined;
  /** Starts tokenizers in threads; absent in a process without them. For the plugins of Sluice itself. */
  readonly startTokenizers?: StartTokenizers | undefined;
  /** Absent where no replicas share what they know. For the plugins of Sluice itself. */
  readonly sharedPrefixes?: SharedPrefixes | undefined;
}

/** Finds endpoints; made and run by `picker/core`. */
export interface Discovery {
  readonly path: string;
  readonly watchFile: boolean;
  /** The endpoints represent other clusters: they have further addresses, and metrics pages elsewhere (api-resources 6A.7). */
  readonly multicluster?: boolean;
}

/** Members that every plugin may have besides the methods of its kind. */
export interface PluginLifecycle {
  /**
   * Whether the plugin can do its work yet, for example after it has loaded its data. Every readiness probe asks, so the answer
   * must come from memory. Absent = always ready. While a plugin returns false, the picker is not ready for Kubernetes, but
   * still serves every request (api-resources 3.6).
   */
  ready?(): boolean;
  /**
   * The instance is no longer needed: a new configuration does not contain it, its configuration was refused, or the process
   * ends. Called once, and not awaited. Requests under way may still call other methods afterwards.
   */
  close?(): void;
}

/** Interface of each kind. */
export interface PluginKinds {
  filter: Filter;
  scorer: Scorer;
  picker: Picker;
  producer: Producer;
  "profile-handler": ProfileHandler;
  decider: Decider;
  screener: Screener;
  admitter: Admitter;
  "request-header-processor": RequestHeaderProcessor;
  "saturation-detector": SaturationDetector;
  "ordering-policy": OrderingPolicy;
  "fairness-policy": FairnessPolicy;
  "usage-limit-policy": UsageLimitPolicy;
  discovery: Discovery;
  parser: RequestParser;
  "request-hook": RequestHook;
  "data-source": DataSource;
  extractor: Extractor;
}

export type PluginKind = keyof PluginKinds;

/** A plugin that comes along with another one. */
export interface PluginCompanion {
  readonly definition: PluginDefinition<"producer"> | PluginDefinition<"request-hook">;
  /** Its parameters, not yet parsed. */
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** Another plugin that an instance needs, by the parameter that names it (scheduling 4.3). */
export interface PluginReference {
  /** Path of the name within `parameters`, such as `["deciders", "prefill"]`. */
  readonly path: readonly (string | number)[];
  /** Instance name. */
  readonly name: string;
  readonly kind: PluginKind;
}

/**
 * The data that a source delivers to its extractors: `metrics` = the metrics pages of model servers, `cluster-metrics` = those
 * of other clusters, `gpu-metrics` = those of GPU exporters, `models` = lists of models, `endpoints` and `pods` = notifications.
 */
export type Payload = "metrics" | "cluster-metrics" | "gpu-metrics" | "models" | "endpoints" | "pods";

/** The result of `define...`: everything that the registry, the configuration and the generated docs need of a plugin. */
export interface PluginDefinition<K extends PluginKind = PluginKind> {
  readonly kind: K;
  /** Published type name. */
  readonly type: string;
  readonly describe: string;
  /** Strict schema of `parameters`. */
  readonly parameters: z.ZodType;
  /** Columns and request attributes it writes. */
  readonly produces: readonly DataKey[];
  /** Keys that it requires. Each needs a producer, which is made with its defaults when the configuration names none. */
  readonly requires: readonly DataKey[];
  /** Keys that it reads when some producer writes them. That producer then runs first. */
  readonly optional?: readonly DataKey[];
  /** Of a deprecated type: what to write instead. */
  readonly deprecated?: string | undefined;
  /**
   * The filter that it is as a member of a profile, where its own kind has no place in one. Detectors can filter
   * (scheduling 3.15).
   */
  readonly inProfile?: PluginDefinition<"filter"> | undefined;
  /**
   * Of a scorer: the filter that it also is, under the same name and with the same parameters, where they say so (scheduling
   * 3.6). The filter reads the keys that the scorer declares.
   */
  readonly alsoFilter?: ((parameters: unknown) => PluginDefinition<"filter"> | undefined) | undefined;
  /**
   * Published types that work at several extension points consist of several plugins. These companions are made along with the
   * plugin when a profile lists it or it handles profiles, unless the file configures one of their type.
   */
  readonly companions?: ((parameters: unknown) => readonly PluginCompanion[]) | undefined;
  /** Other plugins it works with: those are made first. */
  readonly references?: ((parameters: unknown) => readonly PluginReference[]) | undefined;
  /** Request headers on which its decision depends, in lower case. Full records keep their values, so name no secrets. */
  readonly headers?: ((parameters: unknown) => readonly string[]) | undefined;
  /** Hints for the author of a configuration about valid parameters. */
  readonly notes?: ((parameters: unknown) => readonly string[]) | undefined;
  /** Of a data source and of an extractor: the data between the two; absent = `metrics`. */
  readonly payload?: Payload | undefined;
  /** Of a producer: only plugins read it that name it in a parameter ending in `ProducerName`. */
  readonly onlyByName?: boolean | undefined;
  /** Data without which the plugin is refused: a source and an extractor of it must be listed in `dataLayer.sources`. */
  readonly needs?: Payload | undefined;
  /** The attributes of endpoints that it writes or reads, each as `attribute/producer`. */
  readonly endpointAttributes?: ((parameters: unknown) => readonly string[]) | undefined;
  /** Of a user's plugin: identifies the code, since two plugins of one type may differ in it. */
  readonly code?: string | undefined;
  create(parameters: unknown, context: PluginContext): PluginKinds[K];
}

/** The place where a page of an endpoint is fetched (scheduling 1.8); used by `pool/endpoints`. */
export interface PageSource {
  readonly scheme: "http" | "https";
  /** Begins with a slash. */
  readonly path: string;
  /** Undefined = the endpoint's own port. */
  readonly port: number | undefined;
  readonly insecureSkipVerify: boolean;
  /** Files, for `https`; "" = none. */
  readonly caCertPath: string;
  readonly clientCertPath: string;
  readonly clientKeyPath: string;
  /** Milliseconds between two scrapes of an endpoint; undefined = the value of the flag. */
  readonly interval: number | undefined;
  /** The page is at the address of the endpoint's node; absent = at its own. */
  readonly useNodeAddress?: boolean;
}

/** A source that tells plugins of changes; nothing is fetched for it. */
export interface NotificationSource {
  readonly notifies: "endpoints" | "pods";
}

export type DataSource = PageSource | NotificationSource;

/** How the pages of one kind of engine are read: metric specifications (scheduling 1.4), "" = not collected. */
export interface EngineSpecification {
  readonly name: string;
  readonly queuedRequestsSpec: string;
  readonly runningRequestsSpec: string;
  readonly kvUsageSpec: string;
  readonly loraSpec: string;
  readonly cacheInfoSpec: string;
  readonly cacheBlockSizeLabelName: string;
  readonly cacheNumBlocksLabelName: string;
  readonly cacheBlockSizeSpec: string;
  readonly cacheNumBlocksSpec: string;
  /** Numbers that become attributes of the endpoint under these keys. */
  readonly customMetrics?: readonly { readonly attributeKey: string; readonly metricSpec: string }[];
  /** Counts are means, and not whole. */
  readonly hasMeans?: boolean;
}

/** How metrics pages are read (scheduling 1.5). */
export interface EngineExtractor {
  /** Label of an endpoint that names its engine; "" = all endpoints have the default engine. */
  readonly engineLabelKey: string;
  readonly defaultEngine: string;
  /** In place of built-in ones of the same name. */
  readonly engines: readonly EngineSpecification[];
}

/** How a page besides the metrics page is read: it gives values of the endpoint, and says nothing of its state. */
export interface SideExtractor {
  readonly reads: "gpu-metrics" | "models";
}

export type Extractor = EngineExtractor | SideExtractor;

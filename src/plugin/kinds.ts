import type { z } from "zod";
import type { Clock } from "../clock/clock.ts";
import type { Random } from "../clock/random.ts";
import type { Endpoint } from "../inference/endpoint.ts";
import type { HeaderList } from "../inference/headers.ts";
import type { Rejection } from "../inference/outcomes.ts";
import type { InferenceRequest, ParsedBody } from "../inference/request.ts";
import type { ColumnKey } from "./keys.ts";

/** What a plugin instance is given when it is made. */
export interface PluginContext {
  /** Instance name; the type when the configuration gives none. */
  readonly name: string;
  readonly clock: Clock;
  readonly random: Random;
}

/**
 * The candidates of one decision as parallel columns, `count` entries each (the arrays are reused and may be longer).
 * A metric that is missing or stale holds the worst known value of its column; a column nobody knows holds NaN
 * throughout, and must score the same for all.
 */
export interface Candidates {
  readonly count: number;
  /** Monotonic milliseconds of the decision: what ages are measured against. */
  readonly now: number;
  readonly endpoints: readonly Endpoint[];
  readonly waiting: Float64Array;
  readonly running: Float64Array;
  readonly kvUsage: Float64Array;
  /** 1 where the endpoint's own metrics can be believed, else 0: for what a scorer reads from them directly. */
  readonly fresh: Uint8Array;
  /** A column that a producer wrote for this request; throws when no producer of this profile writes it. */
  column(key: ColumnKey): Float64Array;
  /** As `column`, but undefined when no producer of this profile writes it: for keys in `optional`. */
  optionalColumn(key: ColumnKey): Float64Array | undefined;
}

export interface FilterContext {
  readonly request: InferenceRequest;
  readonly candidates: Candidates;
  /** Set `keep[i] = 0` to drop candidate i; arrives all ones. */
  readonly keep: Uint8Array;
}

export interface Filter {
  filter(context: FilterContext): void;
  /**
   * What clients are told when it leaves no candidate. With it a request for which there is no endpoint at all is answered
   * the same, 429, as v0.3 did; without it the filter is named, and no endpoints are a 503.
   */
  readonly refusal?: string;
}

export interface ScoreContext {
  readonly request: InferenceRequest;
  readonly candidates: Candidates;
  /** Write 0..1 per candidate; arrives all zeros; values outside are clamped and NaN counts as 0. */
  readonly out: Float64Array;
}

/** A pure function of the request, the candidates and the producers' columns. */
export interface Scorer {
  score(context: ScoreContext): void;
}

export interface PickContext {
  readonly request: InferenceRequest;
  readonly candidates: Candidates;
  /** Weighted sum per candidate. */
  readonly totals: Float64Array;
  readonly random: Random;
  /** Arrives as 0..count-1; leave the candidates' indices in it in order of preference, best first. */
  readonly order: Uint32Array;
}

export interface Picker {
  /** How many endpoints are offered to the proxy, from 1 up. */
  readonly maxNumOfEndpoints: number;
  /** Orders all candidates and returns how many share the first place. */
  pick(context: PickContext): number;
}

export interface ProduceContext {
  readonly request: InferenceRequest;
  readonly candidates: Candidates;
}

/** Computes columns before scoring, and is told what became of the request. All calls are synchronous. */
export interface Producer {
  produce(context: ProduceContext): void;
  /** The request was routed to `endpoint`, the first of its list. */
  routed?(request: InferenceRequest, endpoint: Endpoint): void;
  /**
   * Called right before `routed` where the request may yet end up elsewhere: returns what to call with the endpoint that
   * served after all. It must not keep the request, whose body is long gone by then.
   */
  follow?(request: InferenceRequest): ((served: Endpoint) => void) | undefined;
  /** The endpoint has left the pool: forget it. */
  endpointRemoved?(endpoint: Endpoint): void;
}

/** Maps endpoints to a load figure; 1 and above means saturated. An empty set is saturated. */
export interface SaturationDetector {
  saturation(endpoints: readonly Endpoint[], now: number): number;
}

/** Finds endpoints; made and run by `app/`. */
export interface Discovery {
  readonly path: string;
  readonly watchFile: boolean;
}

/** Reads out of the bodies of one API what routing needs. */
export interface BodyParser {
  /** As people name it. */
  readonly name: string;
  /** The paths it is for: those that end in one of these, each beginning with a slash. */
  readonly suffixes: readonly string[];
  /** Paths it is for only as a whole, each beginning with a slash; they win over suffixes. */
  readonly paths?: readonly string[];
  /**
   * Never throws: whatever is wrong with the body becomes the client's answer.
   * @param body complete, as received; not copied, must stay unchanged while its ranges are in use
   * @param path without query string
   */
  parse(body: Uint8Array, path: string): ParsedBody | Rejection;
}

/** A family of parsers that a configuration names as one. */
export interface RequestParser {
  readonly parsers: readonly BodyParser[];
  /** For paths that no configured parser claims; of several the first counts. */
  readonly fallback?: BodyParser;
  /** The same, where this family is the only one that is configured. */
  readonly aloneFallback?: BodyParser;
}

/** What happens to a routed request. */
export interface PreRequestContext {
  readonly request: InferenceRequest;
  /** In order of preference. */
  readonly endpoints: readonly Endpoint[];
  /** Sets a header of the forwarded request. @param value one character per byte, as in `HeaderList` */
  setHeader(name: string, value: string): void;
  /** Adds an entry of dynamic metadata; the destination's own entry cannot be overwritten. */
  setMetadata(namespace: string, key: string, value: string | number | boolean): void;
}

export interface ResponseReceivedContext {
  /** Undefined when the proxy showed no request phase. */
  readonly request: InferenceRequest | undefined;
  /** Who serves, as far as known. */
  readonly endpoint: Endpoint | undefined;
  readonly status: number;
  readonly headers: HeaderList;
  /** What the proxy attached in the namespace `envoy.lb`; undefined when the namespace is missing. */
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
  /** Sets a header of the response. @param value one character per byte, as in `HeaderList` */
  setHeader(name: string, value: string): void;
}

/** Token counts of an answer; NaN where it does not say. */
export interface TokenUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly totalTokens: number;
  readonly cachedTokens: number;
}

export interface ResponseCompleteContext {
  readonly request: InferenceRequest | undefined;
  readonly endpoint: Endpoint | undefined;
  readonly status: number;
  readonly usage: TokenUsage | undefined;
  /** `natural` = the whole answer passed by. */
  readonly cause: "natural" | "client-disconnect" | "evicted" | "error";
  /** Adds an entry of dynamic metadata to the last message of the response; without effect unless `cause` is natural. */
  setMetadata(namespace: string, key: string, value: string | number | boolean): void;
}

/** Is told of the stations of a routed exchange (scheduling 3.2); synchronous. What it throws is reported and ignored. */
export interface RequestHook {
  preRequest?(context: PreRequestContext): void;
  responseReceived?(context: ResponseReceivedContext): void;
  /** Once per exchange that was scheduled, however it ends: a request without a body is not. */
  responseComplete?(context: ResponseCompleteContext): void;
}

/** Interface of each kind. */
export interface PluginKinds {
  filter: Filter;
  scorer: Scorer;
  picker: Picker;
  producer: Producer;
  "profile-handler": Record<never, never>;
  "saturation-detector": SaturationDetector;
  discovery: Discovery;
  parser: RequestParser;
  "request-hook": RequestHook;
}

export type PluginKind = keyof PluginKinds;

/** A plugin that comes along with another one. */
export interface PluginCompanion {
  readonly definition: PluginDefinition<"producer"> | PluginDefinition<"request-hook">;
  /** Its parameters, not yet parsed. */
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** What `define...` returns: everything the registry, the configuration and the generated docs need of a plugin. */
export interface PluginDefinition<K extends PluginKind = PluginKind> {
  readonly kind: K;
  /** Published type name. */
  readonly type: string;
  readonly describe: string;
  /** Strict schema of `parameters`. */
  readonly parameters: z.ZodType;
  /** Columns it writes. */
  readonly produces: readonly ColumnKey[];
  /** Columns it reads: each needs a producer, made with its defaults when the configuration names none. */
  readonly requires: readonly ColumnKey[];
  /** Columns it reads when some producer of the profile writes them; that one then runs first. */
  readonly optional?: readonly ColumnKey[];
  /** Of a deprecated type: what to write instead. */
  readonly deprecated?: string | undefined;
  /** What it is as a member of a profile, where its own kind is none: detectors can filter (scheduling 3.15). */
  readonly inProfile?: PluginDefinition<"filter"> | undefined;
  /**
   * Published types that work at several extension points consist of several plugins: these are made along with it when
   * it stands in a profile, unless the file configures one of their type.
   */
  readonly companions?: ((parameters: unknown) => readonly PluginCompanion[]) | undefined;
  /** What the author of a configuration should know of parameters that are valid. */
  readonly notes?: ((parameters: unknown) => readonly string[]) | undefined;
  create(parameters: unknown, context: PluginContext): PluginKinds[K];
}

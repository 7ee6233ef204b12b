import type { Random } from "../clock/random.ts";
import type { Endpoint } from "../inference/endpoint.ts";
import type { Rejection } from "../inference/outcomes.ts";
import type { InferenceRequest } from "../inference/request.ts";
import type { AttributeKey, ColumnKey } from "./keys.ts";

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
  /** A column that a producer wrote for this request. @throws SluiceError DATA_UNDECLARED for a key the plugin does not declare */
  column(key: ColumnKey): Float64Array;
  /** As `column`, but undefined when no producer writes it: for keys in `optional`. */
  optionalColumn(key: ColumnKey): Float64Array | undefined;
}

/** What every plugin that takes part in a decision may look at. */
export interface DecisionContext {
  readonly request: InferenceRequest;
  readonly candidates: Candidates;
  /**
   * What a producer attached to the request; undefined when it attached nothing, or when no producer writes the key.
   * @throws SluiceError DATA_UNDECLARED for a key that the plugin neither requires nor reads optionally
   */
  attribute<T>(key: AttributeKey<T>): T | undefined;
}

export interface RequestHeaderContext {
  /** With the fairness ID it has so far. */
  readonly request: InferenceRequest;
  /** Takes effect where the client names none. */
  setFairnessId(id: string): void;
}

/** Looks at a request after its model and objective are known and before its fairness ID is final (scheduling 3.2). */
export interface RequestHeaderProcessor {
  /** @returns why the request is refused, if it is */
  process(context: RequestHeaderContext): Rejection | undefined;
}

export interface ScreenContext {
  readonly request: InferenceRequest;
  /** All candidates, whatever other screeners say of them. */
  readonly endpoints: readonly Endpoint[];
  /** Set `keep[i] = 0` to leave endpoint i out; arrives all ones. */
  readonly keep: Uint8Array;
}

/** Narrows the candidates before anything is computed for them: what several screeners leave is intersected. */
export interface Screener {
  /** @returns why the request is refused, if it is; when nobody is left it is answered with 503 */
  screen(context: ScreenContext): Rejection | undefined;
}

export interface AdmitContext extends DecisionContext {
  readonly random: Random;
}

/** Decides whether a request is served at all, after the producers have run. */
export interface Admitter {
  /** @returns undefined = admitted; a text = refused with 429 and that text; a rejection = refused as it says */
  admit(context: AdmitContext): Rejection | string | undefined;
}

export interface ProduceContext extends DecisionContext {
  /** What `prepare` resolved to for this request; undefined when it failed, took too long or does not exist. */
  readonly prepared: unknown;
  /** Attaches a value to the request. @throws SluiceError DATA_UNDECLARED for a key the producer does not declare */
  setAttribute<T>(key: AttributeKey<T>, value: T): void;
}

/** Computes columns and request attributes before anything else is decided, and is told what became of the request. */
export interface Producer {
  produce(context: ProduceContext): void;
  /**
   * What has to wait, before the decision: the only asynchronous step. A producer that fails here or exceeds its budget
   * is reported, and `produce` gets nothing from it; the request goes on (scheduling 3.2).
   */
  prepare?(request: InferenceRequest, signal: AbortSignal): Promise<unknown>;
  /** Milliseconds that `prepare` may take; default 400. */
  readonly prepareBudget?: number;
  /**
   * The request was routed to `endpoint`, the first of the primary profile's list.
   * @param others the first endpoints of the other profiles that ran, by name of the profile
   * @param primary name of the primary profile
   */
  routed?(request: InferenceRequest, endpoint: Endpoint, others: ReadonlyMap<string, Endpoint>, primary?: string): void;
  /** Called instead of `routed`, for a request that `produce` has seen and that is refused after all: forget it. */
  refused?(request: InferenceRequest): void;
  /**
   * Called right before `routed` where the request may yet end up elsewhere: returns what to call with the endpoint that
   * served after all. It must not keep the request, whose body is long gone by then.
   */
  follow?(request: InferenceRequest): ((served: Endpoint) => void) | undefined;
  /**
   * Of a producer of `UNCACHED_TOKENS`: what it says includes tokens that are yet to be generated, so the endpoint has them until
   * the end of the answer instead of its first byte (scheduling 3.12).
   */
  readonly estimatesOutput?: boolean;
  /** The endpoint has left the pool: forget it. */
  endpointRemoved?(endpoint: Endpoint): void;
  /** What it knows, as JSON, bounded, without prompt text or ids that clients chose: for `/debug/plugins/state`. */
  debugState?(): unknown;
}

export interface FilterContext extends DecisionContext {
  readonly random: Random;
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

export interface ScoreContext extends DecisionContext {
  /** Write 0..1 per candidate; arrives all zeros; values outside are clamped and NaN counts as 0. */
  readonly out: Float64Array;
}

/** A pure function of the request, the candidates and the producers' columns. */
export interface Scorer {
  score(context: ScoreContext): void;
}

export interface PickContext extends DecisionContext {
  /** Weighted sum per candidate. */
  readonly totals: Float64Array;
  readonly random: Random;
  /** Arrives as 0..count-1; leave the candidates' indices in it in order of preference, best first. */
  readonly order: Uint32Array;
}

export interface Picker {
  /** How many endpoints are offered to the proxy, from 1 up. */
  readonly maxNumOfEndpoints: number;
  /** It draws by chance even where totals differ. */
  readonly byChance?: boolean;
  /** What the next pick depends on besides its arguments and `random`: kept in full records and set for a replay. */
  memory?: number;
  /** Orders all candidates and returns how many share the first place. */
  pick(context: PickContext): number;
}

/** What one run of a profile came to. */
export interface ProfileResult {
  /** In order of preference, at least one. */
  readonly endpoints: readonly Endpoint[];
  /**
   * What a producer's column says of the first of them; undefined when no producer writes it.
   * @throws SluiceError DATA_UNDECLARED for a key that neither the handler nor a plugin it refers to declares
   */
  value(key: ColumnKey): number | undefined;
}

export interface ProfilePickContext {
  readonly request: InferenceRequest;
  /** Names of all profiles, in the order of the file. */
  readonly profiles: readonly string[];
  /** Of the profiles that ran so far; a rejection where one was left without a candidate. */
  readonly results: ReadonlyMap<string, ProfileResult | Rejection>;
}

/** Says which profiles run for a request, and what their results mean (scheduling 3.6, 3.7). Synchronous. */
export interface ProfileHandler {
  /** The profiles to run next, none that ran already; an empty list ends the loop. */
  pick(context: ProfilePickContext): readonly string[];
  /** The profile whose endpoints get the request, or why there is none. */
  processResults(context: ProfilePickContext): string | Rejection;
  /**
   * Of a handler of disaggregated serving: what it came to, such as `prefill-decode`, for the counter of its decisions;
   * undefined when nobody is to serve. Called once per decision, when all profiles have run.
   */
  decisionType?(context: ProfilePickContext): string | undefined;
}

export interface DecideContext {
  readonly request: InferenceRequest;
  /** Of the profile that ran before; undefined where none has. */
  readonly result: ProfileResult | undefined;
  /** Tokens of the prompt, by the best estimate there is. */
  readonly inputTokens: number;
}

/** Says whether a further stage of disaggregated serving is worth its while (scheduling 3.7.1). */
export interface Decider {
  decide(context: DecideContext): boolean;
}

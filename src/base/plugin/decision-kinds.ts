import type { Random } from "../clock/random.ts";
import type { AnswerListener } from "../inference/cache-report.ts";
import type { Endpoint } from "../inference/endpoint.ts";
import type { Rejection } from "../inference/outcomes.ts";
import type { InferenceRequest } from "../inference/request.ts";
import type { PreRequestContext } from "./exchange-kinds.ts";
import type { AttributeKey, ColumnKey } from "./keys.ts";

/**
 * The candidates of one decision as parallel columns, `count` entries each (the arrays are reused and may be longer). A metric
 * that is missing or stale holds the worst known value of its column. A column without any known value holds NaN throughout,
 * and a scorer must then score all candidates the same.
 */
export interface Candidates {
  readonly count: number;
  /** Monotonic milliseconds of the decision: ages are measured against it. */
  readonly now: number;
  readonly endpoints: readonly Endpoint[];
  readonly waiting: Float64Array;
  readonly running: Float64Array;
  readonly kvUsage: Float64Array;
  /** 1 where the endpoint's own metrics are fresh, else 0: for values that a scorer reads from them directly. */
  readonly fresh: Uint8Array;
  /** A column that a producer wrote for this request. @throws SluiceError DATA_UNDECLARED for a key the plugin does not declare */
  column(key: ColumnKey): Float64Array;
  /** As `column`, but undefined when no producer writes it: for keys in `optional`. */
  optionalColumn(key: ColumnKey): Float64Array | undefined;
}

/** The first choice of a profile that ran before for the same request. */
export interface Peer {
  readonly endpoint: Endpoint;
  /**
   * The value of a producer's column for it; undefined when no producer writes the column.
   * @throws SluiceError DATA_UNDECLARED for a key the plugin does not declare
   */
  value(key: ColumnKey): number | undefined;
}

/** The view of a decision that every plugin of the decision reads. */
export interface DecisionContext {
  readonly request: InferenceRequest;
  readonly candidates: Candidates;
  /**
   * In a profile that does not run first: the choice of the one that did, such as that of the decode profile while the prefill
   * profile runs. Absent or undefined = this profile is the first, or the first one found no endpoint.
   */
  readonly peer?: Peer | undefined;
  /**
   * The value that a producer attached to the request; undefined when it attached none, or when no producer writes the key.
   * @throws SluiceError DATA_UNDECLARED for a key that the plugin neither requires nor reads optionally
   */
  attribute<T>(key: AttributeKey<T>): T | undefined;
}

export interface RequestHeaderContext {
  /** With the fairness ID so far. */
  readonly request: InferenceRequest;
  /** Takes effect where the client names no fairness ID. */
  setFairnessId(id: string): void;
}

/** Examines a request after its model and objective are known and before its fairness ID is final (scheduling 3.2). */
export interface RequestHeaderProcessor {
  /** @returns why the request is refused; undefined when it is not */
  process(context: RequestHeaderContext): Rejection | undefined;
}

export interface ScreenContext {
  readonly request: InferenceRequest;
  /** All candidates, also those that other screeners leave out. */
  readonly endpoints: readonly Endpoint[];
  /** Set `keep[i] = 0` to leave endpoint i out; arrives all ones. */
  readonly keep: Uint8Array;
}

/** Narrows the candidates before any producer runs. The candidates that remain are those that every screener leaves. */
export interface Screener {
  /** @returns why the request is refused; undefined when it is not. A request without a candidate left is answered with 503 */
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
  /** The value to which `prepare` resolved for this request; undefined when it failed, took too long or does not exist. */
  readonly prepared: unknown;
  /** Attaches a value to the request. @throws SluiceError DATA_UNDECLARED for a key the producer does not declare */
  setAttribute<T>(key: AttributeKey<T>, value: T): void;
}

/** Computes columns and request attributes before the other plugins run, and learns how the request ended. */
export interface Producer {
  produce(context: ProduceContext): void;
  /**
   * The only asynchronous step, before the decision. When a producer fails here or exceeds its budget, that is reported, and
   * `produce` gets undefined. The request goes on (scheduling 3.2).
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
  /**
   * Called instead of `routed`, for a request that `produce` has seen and that is refused after all. The producer forgets the
   * request.
   */
  refused?(request: InferenceRequest): void;
  /**
   * Called right before `routed` where another endpoint may yet serve the request. Returns a callback that gets the endpoint
   * which served. The callback must not keep the request, whose body is gone by then.
   */
  follow?(request: InferenceRequest): ((served: Endpoint) => void) | undefined;
  /**
   * Called right before `routed`, and after `follow`. Returns what hears of the answer; it must not keep the request. A wire
   * without a response phase reports the end at once.
   */
  listen?(request: InferenceRequest): AnswerListener | undefined;
  /**
   * Of a producer of `UNCACHED_TOKENS`: its figure includes tokens that are yet to be generated. The endpoint therefore holds
   * them until the end of the answer instead of its first byte (scheduling 3.12).
   */
  readonly estimatesOutput?: boolean;
  /**
   * Of a producer of prefix matches, after `routed`: the blocks of that request that only other replicas of this picker had placed
   * at its endpoint.
   */
  readonly peerBlocks?: number;
  /**
   * The endpoint is in the pool. Called for each endpoint once the picker has started, and again after a reload of the
   * configuration.
   */
  endpointAdded?(endpoint: Endpoint): void;
  /** As of `RequestHook`: called after `routed`, in the same stretch. A producer may tell the model server what it knows. */
  preRequest?(context: PreRequestContext): void;
  /** The endpoint has left the pool. The producer forgets it. */
  endpointRemoved?(endpoint: Endpoint): void;
  /** The producer's state for `/debug/plugins/state`: JSON, bounded, without prompt text or ids that clients chose. */
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
   * The message for clients when the filter leaves no candidate. With it, a request without any endpoint also gets 429, as in
   * v0.3. Without it, the answer names the filter, and no endpoints are a 503.
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
  /** The picker draws by chance even where totals differ. */
  readonly byChance?: boolean;
  /**
   * All state on which the next pick depends besides its arguments and `random`. Full records keep it, and a replay sets it.
   */
  memory?: number;
  /** Orders all candidates and returns how many share the first place. */
  pick(context: PickContext): number;
}

/** The result of one run of a profile. */
export interface ProfileResult {
  /** In order of preference, at least one. */
  readonly endpoints: readonly Endpoint[];
  /**
   * The value of a producer's column for the first endpoint; undefined when no producer writes the column.
   * @throws SluiceError DATA_UNDECLARED for a key that neither the handler nor a plugin it refers to declares
   */
  value(key: ColumnKey): number | undefined;
}

export interface ProfilePickContext {
  readonly request: InferenceRequest;
  /** Names of all profiles, in the order of the file. */
  readonly profiles: readonly string[];
  /** Results of the profiles that ran so far; a rejection for a profile that was left without a candidate. */
  readonly results: ReadonlyMap<string, ProfileResult | Rejection>;
}

/** Says which profiles run for a request, and what their results mean (scheduling 3.6, 3.7). Synchronous. */
export interface ProfileHandler {
  /** The profiles to run next, without those that ran already. An empty list ends the loop. */
  pick(context: ProfilePickContext): readonly string[];
  /** The profile whose endpoints get the request, or why there is none. */
  processResults(context: ProfilePickContext): string | Rejection;
  /**
   * Of a handler of disaggregated serving: the kind of the decision, such as `prefill-decode`, for the counter of its
   * decisions; undefined when no endpoint serves the request. Called once per decision, after all profiles have run.
   */
  decisionType?(context: ProfilePickContext): string | undefined;
  /**
   * The port of the sidecar that gets every request, at the address of the chosen endpoint; absent = requests go to the port of
   * the endpoint. A header must tell the sidecar which port was chosen.
   */
  readonly primaryPort?: number | undefined;
}

export interface DecideContext {
  readonly request: InferenceRequest;
  /** Endpoint of the profile that ran before; undefined where none has run. */
  readonly result: ProfileResult | undefined;
  /** Tokens of the prompt, by the best estimate there is. */
  readonly inputTokens: number;
}

/** Decides whether a further stage of disaggregated serving pays off (scheduling 3.7.1). */
export interface Decider {
  decide(context: DecideContext): boolean;
}

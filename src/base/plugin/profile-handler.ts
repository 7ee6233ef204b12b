import type { Endpoint } from "../inference/endpoint.ts";
import type { Rejection } from "../inference/outcomes.ts";
import type { InferenceRequest } from "../inference/request.ts";
import type { ColumnKey } from "./keys.ts";

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

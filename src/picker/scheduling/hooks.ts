import type { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { SchedulingResult } from "../../base/inference/scheduling-result.ts";

/** Where in a request's way a plugin is called: values of the label `extension_point` (scheduling 3.2). */
export type ExtensionPoint =
  | "RequestHeader"
  | "Screener"
  | "DataProducer"
  | "Admission"
  | "ProfilePicker"
  | "Filter"
  | "Scorer"
  | "Picker"
  | "ProcessProfilesResults"
  | "PreRequest";

/** A plugin as metrics and logs name it. */
export interface PluginIdentity {
  readonly name: string;
  readonly type: string;
}

/** What a scheduler tells about itself, all of it optional and called within the decision: be quick, do not throw. */
export interface SchedulerHooks {
  /** Every decision, and how long it took. */
  decided?(outcome: SchedulingResult | Rejection, request: InferenceRequest, seconds: number): void;
  /** Each plugin call of one decision in sixteen: two readings of the clock cost as much as a scorer. */
  pluginCalled?(point: ExtensionPoint, plugin: PluginIdentity, seconds: number): void;
  /** A plugin threw; the decision went on without it, unless it was the picker. */
  pluginFailed?(point: ExtensionPoint, plugin: PluginIdentity, error: unknown): void;
  /** A plugin touched data that it does not declare (scheduling 3.4); `pluginFailed` follows. */
  scopeViolated?(point: ExtensionPoint, plugin: PluginIdentity, access: "read" | "write"): void;
  /**
   * How much of the prompt the chosen endpoint was believed to hold.
   * @param ratio 0..1, undefined for an empty prompt
   */
  prefixMatched?(producer: PluginIdentity, bytes: number, ratio: number | undefined): void;
  /**
   * Which stages of disaggregated serving a profile handler chose.
   * @param model what the model server is asked for
   */
  disaggregated?(handler: PluginIdentity, decisionType: string, model: string): void;
}

/** One step of a decision that is traced; times are monotonic milliseconds. */
export interface TracedStage {
  readonly kind: "profile" | "filter" | "scoring" | "scorer" | "picker" | "handler";
  /** Name; "" for the handler. */
  readonly profile: string;
  readonly plugin: PluginIdentity | undefined;
  readonly started: number;
  readonly ended: number;
  readonly candidates: number;
  readonly left: number;
  /** Of a scorer: its weight, the best and the mean score, and how many got more than 0. */
  readonly weight?: number;
  readonly max?: number;
  readonly mean?: number;
  readonly scored?: number;
  /** Of a picker: the best five. */
  readonly top?: readonly { readonly id: string; readonly score: number }[];
  /** Of a handler: the profiles it chose, comma separated, or `complete`. */
  readonly decision?: string;
}

/** Gathers the steps of one decision, in the order in which they end. */
export interface DecisionTrace {
  stage(stage: TracedStage): void;
}

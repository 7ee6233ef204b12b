import type { Rejection } from "../inference/outcomes.ts";
import type { InferenceRequest } from "../inference/request.ts";
import type { SchedulingResult } from "../inference/scheduling-result.ts";

/** Where in a decision a plugin is called: values of the label `extension_point` (scheduling 3.2). */
export type ExtensionPoint = "DataProducer" | "Filter" | "Scorer" | "Picker" | "PreRequest";

/** A plugin as metrics and logs name it. */
interface PluginIdentity {
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
  /**
   * How much of the prompt the chosen endpoint was believed to hold.
   * @param ratio 0..1, undefined for an empty prompt
   */
  prefixMatched?(producer: PluginIdentity, bytes: number, ratio: number | undefined): void;
}

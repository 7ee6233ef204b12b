import type { Clock } from "../../base/clock/clock.ts";
import type { SchedulingResult } from "../../base/inference/decision-record.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { Profile, WeightedScorer } from "./profile.ts";
import type { Unprepared } from "./unprepared.ts";

/** The point at which the scheduler calls a plugin: values of the label `extension_point` (scheduling 3.2). */
type ExtensionPoint =
  | "RequestHeader"
  | "Screener"
  | "DataProducer"
  | "Admission"
  | "ProfilePicker"
  | "Filter"
  | "Scorer"
  | "Picker"
  | "ProcessProfilesResults"
  | "PreRequest"
  | "ResponseComplete";

/** A plugin as metrics and logs name it. */
interface PluginIdentity {
  readonly name: string;
  readonly type: string;
}

/** Callbacks of a scheduler, all optional. They run within the decision: they must be quick and must not throw. */
export interface SchedulerHooks {
  /** Called for every decision, with its duration. */
  decided?(outcome: SchedulingResult | Rejection, request: InferenceRequest, seconds: number): void;
  /** Called for each plugin call of one decision in sixteen: two readings of the clock cost as much as a scorer. */
  pluginCalled?(point: ExtensionPoint, plugin: PluginIdentity, seconds: number): void;
  /** A plugin threw. The decision went on without it, unless it was the picker or the profile handler. */
  pluginFailed?(point: ExtensionPoint, plugin: PluginIdentity, error: unknown): void;
  /** A plugin used data that it does not declare (scheduling 3.4); `pluginFailed` follows. */
  scopeViolated?(point: ExtensionPoint, plugin: PluginIdentity, access: "read" | "write"): void;
  /** The part of the prompt that the chosen endpoint probably held. @param ratio 0..1, undefined for an empty prompt */
  prefixMatched?(producer: PluginIdentity, bytes: number, ratio: number | undefined): void;
  /** The stages of disaggregated serving that a profile handler chose. @param model the target model */
  disaggregated?(handler: PluginIdentity, decisionType: string, model: string): void;
}

/** One step of a decision that is traced; times are monotonic milliseconds. */
export interface TracedStep {
  readonly kind: "profile" | "filter" | "scoring" | "scorer" | "picker" | "handler";
  /** Name; "" for the handler. */
  readonly profile: string;
  readonly plugin: PluginIdentity | undefined;
  readonly started: number;
  readonly ended: number;
  readonly candidates: number;
  readonly left: number;
  /** Of a scorer: its weight, the best and the mean score, and the number of candidates with more than 0. */
  readonly weight?: number;
  readonly max?: number;
  readonly mean?: number;
  readonly scored?: number;
  /** Of a picker: the best five endpoints. */
  readonly top?: readonly { readonly id: string; readonly score: number }[];
  /** Of a handler: the chosen profiles, comma separated, or `complete`. */
  readonly decision?: string;
}

/** Gathers the steps of one decision, in the order in which they end. */
export interface DecisionTrace {
  step(step: TracedStep): void;
}

/** The most endpoints that the trace of a pick names. */
const TRACED_TOP = 5;

/** The most failed plugins that a decision keeps. */
const MAX_FAILED = 8;
const NONE_FAILED: readonly string[] = [];

/** Reports the plugin calls of a decision: their duration and their failures. */
export class CallReporter {
  /** The trace of the current decision; undefined when it is not traced. */
  trace: DecisionTrace | undefined;
  /** Names of the plugins that failed in the current decision, each once. */
  failures = NONE_FAILED;
  /** Names of the producers whose data was not there in time in the current decision. */
  late = NONE_FAILED;
  readonly #clock: Clock;
  readonly #hooks: SchedulerHooks;

  constructor(clock: Clock, hooks: SchedulerHooks) {
    this.#clock = clock;
    this.#hooks = hooks;
  }

  /** Call this at the beginning and at the end of a decision. */
  begin(trace: DecisionTrace | undefined): void {
    this.trace = trace;
    this.failures = NONE_FAILED;
    this.late = NONE_FAILED;
  }

  /** @param started monotonic milliseconds @returns the monotonic milliseconds of the end of the call */
  called(point: ExtensionPoint, plugin: PluginIdentity, started: number): number {
    const ended = this.#clock.now();
    this.#hooks.pluginCalled?.(point, plugin, (ended - started) / 1000);
    return ended;
  }

  failed(point: ExtensionPoint, plugin: PluginIdentity, error: unknown): void {
    if (error instanceof SluiceError) {
      if (error.code === "DATA_UNDECLARED") this.#hooks.scopeViolated?.(point, plugin, "read");
      else if (error.code === "DATA_NOT_PRODUCED") this.#hooks.scopeViolated?.(point, plugin, "write");
    }
    this.failures = including(this.failures, plugin.name);
    this.#hooks.pluginFailed?.(point, plugin, error);
  }

  /** The decision does without the data of a producer. Its failure is reported already. */
  unprepared({ name }: PluginIdentity, { reason }: Unprepared): void {
    if (reason === "failed") this.failures = including(this.failures, name);
    else this.late = including(this.late, name);
  }

  filtered({ name }: Profile, plugin: PluginIdentity, started: number, candidates: number, left: number): void {
    const ended = this.called("Filter", plugin, started);
    this.trace?.step({ kind: "filter", profile: name, plugin, started, ended, candidates, left });
  }

  /** @param out clamped scores */
  scored({ name }: Profile, scorer: WeightedScorer, started: number, out: Float64Array, count: number): void {
    const ended = this.called("Scorer", scorer, started);
    if (this.trace === undefined) return;
    let max = 0;
    let sum = 0;
    let scored = 0;
    for (let i = 0; i < count; i++) {
      max = Math.max(max, out[i]!);
      sum += out[i]!;
      if (out[i]! > 0) scored++;
    }
    const mean = count === 0 ? 0 : sum / count;
    const { weight } = scorer;
    const figures = { candidates: count, left: count, weight, max, mean, scored };
    this.trace.step({ kind: "scorer", profile: name, plugin: scorer, started, ended, ...figures });
  }

  scoring({ name }: Profile, started: number, count: number): void {
    if (this.trace === undefined) return;
    const ended = this.#clock.now();
    const figures = { candidates: count, left: count };
    this.trace.step({ kind: "scoring", profile: name, plugin: undefined, started, ended, ...figures });
  }

  picked(
    { name, picker }: Profile,
    started: number,
    endpoints: readonly Endpoint[],
    order: Uint32Array,
    totals: Float64Array,
    count: number,
  ): void {
    const ended = this.called("Picker", picker, started);
    if (this.trace === undefined) return;
    const top = [];
    for (let place = 0; place < count && place < TRACED_TOP; place++)
      top.push({ id: endpoints[order[place]!]!.id, score: totals[order[place]!]! });
    const figures = { candidates: count, left: 1, top };
    this.trace.step({ kind: "picker", profile: name, plugin: picker, started, ended, ...figures });
  }

  ran({ name }: Profile, started: number, candidates: number, left: number): void {
    if (this.trace === undefined) return;
    const ended = this.#clock.now();
    this.trace.step({ kind: "profile", profile: name, plugin: undefined, started, ended, candidates, left });
  }

  handled(plugin: PluginIdentity, started: number, candidates: number, decision: string): void {
    const ended = this.called("ProfilePicker", plugin, started);
    const figures = { candidates, left: candidates, decision };
    this.trace?.step({ kind: "handler", profile: "", plugin, started, ended, ...figures });
  }
}

function including(names: readonly string[], name: string): readonly string[] {
  return names.length < MAX_FAILED && !names.includes(name) ? [...names, name] : names;
}

/**
 * Throws when a plugin's method returned a promise. Call it inside the `try` of the plugin call. A plugin author may write
 * `async` or return a promise, and an unhandled rejection ends the process.
 * @throws SluiceError PLUGIN_ASYNC
 */
export function refusePromise(result: unknown): void {
  if (typeof result !== "object" || result === null || !("then" in result)) return;
  Promise.resolve(result).catch(() => {});
  throw new SluiceError(
    "PLUGIN_ASYNC",
    "it returned a promise, but a decision does not wait; wait in `prepare` of a producer instead",
  );
}

/**
 * Refuses what a scorer returned instead of writing it. A typed array is none of that: `out.fill(1)` returns `out`.
 * @throws SluiceError PLUGIN_ASYNC, PLUGIN_ANSWER
 */
export function refuseScores(result: unknown): void {
  if (result === undefined) return;
  refusePromise(result);
  if (Array.isArray(result))
    throw new SluiceError("PLUGIN_ANSWER", "it returned an array; it must write the score of candidate i to `out[i]`");
}

/**
 * Returns the answer of a plugin that may refuse requests.
 * @returns undefined when it did not refuse
 * @throws SluiceError PLUGIN_ASYNC, PLUGIN_ANSWER for anything but a rejection and nothing
 */
export function refusalIn(answer: unknown): Rejection | undefined {
  if (answer === undefined || answer === null) return undefined;
  if (answer instanceof Rejection) return answer;
  refusePromise(answer);
  throw new SluiceError(
    "PLUGIN_ANSWER",
    `it returned a ${typeof answer}; it must return nothing to let the request pass, or a Rejection to refuse the request`,
  );
}

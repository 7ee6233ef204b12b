import type { Clock } from "../../base/clock/clock.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { DecisionTrace, ExtensionPoint, PluginIdentity, SchedulerHooks } from "./hooks.ts";
import type { Profile, WeightedScorer } from "./profile.ts";

/** Best endpoints that the trace of a pick names. */
const TRACED_TOP = 5;

/** Failed plugins that are remembered of a decision. */
const MAX_FAILED = 8;
const NONE_FAILED: readonly string[] = [];

/** Tells what the plugins of a decision did: how long each call took, and which of them failed. */
export class CallReporter {
  /** Of the decision under way; undefined when it is not traced. */
  trace: DecisionTrace | undefined;
  /** Names of the plugins that failed in the decision under way, each once. */
  failures = NONE_FAILED;
  readonly #clock: Clock;
  readonly #hooks: SchedulerHooks;

  constructor(clock: Clock, hooks: SchedulerHooks) {
    this.#clock = clock;
    this.#hooks = hooks;
  }

  /** A decision begins, or has ended. */
  begin(trace: DecisionTrace | undefined): void {
    this.trace = trace;
    this.failures = NONE_FAILED;
  }

  /** @param started monotonic milliseconds @returns when it ended */
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
    if (this.failures.length < MAX_FAILED && !this.failures.includes(plugin.name))
      this.failures = [...this.failures, plugin.name];
    this.#hooks.pluginFailed?.(point, plugin, error);
  }

  filtered({ name }: Profile, plugin: PluginIdentity, started: number, candidates: number, left: number): void {
    const ended = this.called("Filter", plugin, started);
    this.trace?.stage({ kind: "filter", profile: name, plugin, started, ended, candidates, left });
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
    this.trace.stage({ kind: "scorer", profile: name, plugin: scorer, started, ended, ...figures });
  }

  scoring({ name }: Profile, started: number, count: number): void {
    if (this.trace === undefined) return;
    const ended = this.#clock.now();
    const figures = { candidates: count, left: count };
    this.trace.stage({ kind: "scoring", profile: name, plugin: undefined, started, ended, ...figures });
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
    this.trace.stage({ kind: "picker", profile: name, plugin: picker, started, ended, ...figures });
  }

  ran({ name }: Profile, started: number, candidates: number, left: number): void {
    if (this.trace === undefined) return;
    const ended = this.#clock.now();
    this.trace.stage({ kind: "profile", profile: name, plugin: undefined, started, ended, candidates, left });
  }

  handled(plugin: PluginIdentity, started: number, candidates: number, decision: string): void {
    const ended = this.called("ProfilePicker", plugin, started);
    const figures = { candidates, left: candidates, decision };
    this.trace?.stage({ kind: "handler", profile: "", plugin, started, ended, ...figures });
  }
}

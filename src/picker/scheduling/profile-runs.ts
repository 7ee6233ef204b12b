import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { ColumnKey } from "../../base/plugin/keys.ts";
import type { ProfileHandler, ProfilePickContext, ProfileResult } from "../../base/plugin/kinds.ts";
import { CandidateColumns } from "./candidates.ts";
import type { DroppedBy } from "./dropped.ts";
import { type CallReporter, refusePromise, type SchedulerHooks } from "./plugin-calls.ts";
import type { DataScope, ProfileMember, SchedulingPlan } from "./profile.ts";
import { MAX_LISTED, ProfileRun } from "./profile-run.ts";

/** The choice of a profile that is not the primary one. */
export interface OtherRun {
  /** Its name. */
  readonly profile: string;
  readonly endpoints: readonly Endpoint[];
  readonly run: ProfileRun;
}

/** Runs the profiles that a handler asks for, each over all candidates (scheduling 3.6). */
export class ProfileRuns {
  /** The primary profile's run in the last decision. */
  primary: ProfileRun;
  /** The first profile of the last decision whose run had no pick. */
  failed: ProfileRun | undefined;
  readonly #handler: ProfileMember<ProfileHandler>;
  readonly #base: CandidateColumns;
  readonly #runs = new Map<string, ProfileRun>();
  readonly #names: readonly string[];
  readonly #clock: Clock;
  readonly #calls: CallReporter;
  readonly #hooks: SchedulerHooks;
  #results = new Map<string, ProfileResult | Rejection>();
  /** The first run of the present decision that found an endpoint. */
  #first: ProfileRun | undefined;

  /** @param base the candidates with all columns; a run does not change them */
  constructor(
    plan: SchedulingPlan,
    handler: ProfileMember<ProfileHandler>,
    base: CandidateColumns,
    parts: { readonly clock: Clock; readonly random: Random; readonly hooks?: SchedulerHooks },
    calls: CallReporter,
  ) {
    this.#handler = handler;
    this.#base = base;
    this.#clock = parts.clock;
    this.#hooks = parts.hooks ?? {};
    this.#calls = calls;
    // Frozen, because every decision passes this array to handlers.
    this.#names = Object.freeze(plan.profiles.map(({ name }) => name));
    for (const profile of plan.profiles) {
      const columns = new CandidateColumns(plan.columns.length, plan.attributes.length);
      this.#runs.set(profile.name, new ProfileRun(profile, columns, parts.clock, parts.random, calls));
    }
    this.primary = this.#runs.get(this.#names[0]!)!;
  }

  /** @returns the run of the primary profile, or the reason why there is none */
  run(request: InferenceRequest, timed: boolean, tracked: DroppedBy | undefined): ProfileRun | Rejection {
    this.#results = new Map();
    this.failed = undefined;
    this.#first = undefined;
    const context = { request, profiles: this.#names, results: this.#results };
    const { plugin } = this.#handler;
    try {
      // A choice that repeats a profile throws. The count stops a handler that deletes its results and chooses again.
      for (let left = this.#names.length; ; ) {
        const started = timed ? this.#clock.now() : 0;
        const chosen = namesIn(plugin.pick(context));
        if (timed) this.#calls.handled(this.#handler, started, this.#base.count, chosen.join(",") || "complete");
        if (chosen.length === 0) break;
        left -= chosen.length;
        for (const name of chosen) this.#results.set(name, this.#runProfile(name, request, timed, tracked));
        if (left < 0) throw new Error("it chose more profiles than exist");
      }
      const started = timed ? this.#clock.now() : 0;
      const primary = plugin.processResults(context);
      refusePromise(primary);
      if (timed) this.#calls.called("ProcessProfilesResults", this.#handler, started);
      if (primary instanceof Rejection) return primary;
      if (!(this.#results.get(primary) instanceof RunResult))
        throw new Error(`it made ${JSON.stringify(primary)} the primary profile, which has no endpoint`);
      this.#count(context);
      this.primary = this.#runs.get(primary)!;
      return this.primary;
    } catch (error) {
      this.#calls.failed("ProfilePicker", this.#handler, error);
      const { name } = this.#handler;
      return new Rejection("internal", `failed to find target endpoint: ${name} failed: ${messageOf(error)}`);
    }
  }

  /** Returns the choices of the other profiles in the last decision, in the order in which they ran. */
  others(primary: ProfileRun): OtherRun[] {
    const others: OtherRun[] = [];
    for (const [profile, result] of this.#results)
      if (result instanceof RunResult && profile !== primary.profile.name)
        others.push({ profile, endpoints: result.endpoints, run: this.#runs.get(profile)! });
    return others;
  }

  /** Reports the decision type for a counter. A failure here does not change the decision. */
  #count(context: ProfilePickContext): void {
    const { plugin } = this.#handler;
    try {
      const decision: unknown = plugin.decisionType?.(context);
      refusePromise(decision);
      if (typeof decision === "string")
        this.#hooks.disaggregated?.(this.#handler, decision, context.request.targetModel);
    } catch (error) {
      this.#calls.failed("ProcessProfilesResults", this.#handler, error);
    }
  }

  #runProfile(
    name: string,
    request: InferenceRequest,
    timed: boolean,
    tracked: DroppedBy | undefined,
  ): ProfileResult | Rejection {
    const run = this.#runs.get(name);
    if (run === undefined) throw new Error(`it chose the profile ${JSON.stringify(name)}, which does not exist`);
    if (this.#results.has(name)) throw new Error(`it chose the profile ${name} twice`);
    const started = timed ? this.#clock.now() : 0;
    run.columns.copyFrom(this.#base);
    const rejection = run.run(request, timed, tracked, this.#first);
    if (timed) this.#calls.ran(run.profile, started, this.#base.count, run.columns.count);
    if (rejection === undefined) {
      this.#first ??= run;
      return new RunResult(run, this.#handler.scope);
    }
    this.failed ??= run;
    return rejection;
  }
}

/** Returns the names in a handler's choice. @throws SluiceError PLUGIN_ASYNC, PLUGIN_ANSWER */
function namesIn(chosen: unknown): readonly string[] {
  refusePromise(chosen);
  if (Array.isArray(chosen)) return chosen;
  throw new SluiceError("PLUGIN_ANSWER", `it chose a ${typeof chosen}; it must choose a list of profile names`);
}

/** The result of one run; valid until the next decision. */
class RunResult implements ProfileResult {
  readonly endpoints: readonly Endpoint[];
  readonly #run: ProfileRun;
  readonly #scope: DataScope;

  constructor(run: ProfileRun, scope: DataScope) {
    const { columns, order } = run;
    this.#run = run;
    this.#scope = scope;
    const listed = Math.min(columns.count, MAX_LISTED);
    this.endpoints = Array.from({ length: listed }, (_, place) => columns.endpoints[order[place]!]!);
  }

  value(key: ColumnKey): number | undefined {
    const { columns, order } = this.#run;
    columns.scope = this.#scope;
    return columns.optionalColumn(key)?.[order[0]!];
  }
}

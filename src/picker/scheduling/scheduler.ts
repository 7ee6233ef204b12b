import type { Clock } from "../../base/clock/clock.ts";
import type { SeededRandom } from "../../base/clock/random.ts";
import type { RecordedFilter, SchedulingResult, SideLoad } from "../../base/inference/decision-record.ts";
import { type Endpoint, hostPort } from "../../base/inference/endpoint.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { Producer } from "../../base/plugin/kinds.ts";
import { CandidateColumns, DEFAULT_STALENESS_MS } from "./candidates.ts";
import { Data } from "./data.ts";
import { FullCapture } from "./full-record.ts";
import { CallReporter, type DecisionTrace, refusePromise, type SchedulerHooks } from "./plugin-calls.ts";
import type { ProfileMember, SchedulingPlan } from "./profile.ts";
import { MAX_LISTED, ProfileRun } from "./profile-run.ts";
import { ProfileRuns } from "./profile-runs.ts";
import { expectedCache, heldPrefix, precondition, tokensToCompute } from "./prompt-figures.ts";
import { type Deciding, DecisionLog, DecisionRecords } from "./records.ts";
import { answerListener, servedListener, tellRefused, tellRouted } from "./routed.ts";
import { Screening } from "./screening.ts";

/** The scheduler times the plugin calls of one decision in this many. */
const TIMED_EVERY = 16;

export interface SchedulerOptions {
  readonly plan: SchedulingPlan;
  readonly clock: Clock;
  /** Full records keep its state. */
  readonly random: SeededRandom;
  readonly hooks?: SchedulerHooks;
  /** The store of decision records; default: one of its own. */
  readonly records?: DecisionRecords;
  /**
   * Whether the wire uses the endpoints of a result in order. Then each result may learn the endpoint that served. Otherwise
   * this is so only where the picker offers more than one endpoint.
   */
  readonly retries?: boolean;
  /** Adds the totals of all scored endpoints to the result (`--emit-endpoint-scores`). */
  readonly emitScores?: boolean;
  /** The number of endpoints to offer, 1 to 8, in place of the picker's own; absent = the picker decides. */
  readonly maxEndpoints?: number | undefined;
  /** Milliseconds of `isFresh`; default 200. */
  readonly staleness?: number | undefined;
  /** One decision in this many gets a full record; default 0 = only those with `full` set. */
  readonly fullEvery?: number | undefined;
}

/** Optional inputs of one decision, besides request and candidates. */
export interface ScheduleExtras {
  /** Makes a full record. */
  readonly full?: boolean | undefined;
  readonly trace?: DecisionTrace | undefined;
  /** The values that `prepare` of producers resolved to, by producer name. */
  readonly prepared?: ReadonlyMap<string, unknown> | undefined;
  /** Endpoints that were left out because they are down. They become candidates when the filters leave no other. */
  readonly down?: readonly Endpoint[] | undefined;
  /** Endpoints that were left out because they do not serve the model. */
  readonly unserving?: RecordedFilter | undefined;
}

const NOBODY: readonly Endpoint[] = [];
const NO_PEER_BLOCKS = { peerBlocks: 0 };
const NO_EXTRAS: ScheduleExtras = {};

/**
 * Runs the plan for each request: screeners, producers, admitters, then filters, scorers and picker of one or several profiles,
 * and the record (scheduling 3.3, 3.6). It is synchronous, so each decision sees the effects of the one before it.
 *
 * The scheduler reports a plugin that throws and leaves it out of that decision. Then a screener or a filter keeps all
 * candidates, an admitter admits, and a scorer or a producer gives zeros. Only a failed picker or profile handler ends the
 * decision with a rejection.
 */
export class Scheduler {
  readonly records: DecisionRecords;
  readonly #options: SchedulerOptions;
  readonly #clock: Clock;
  readonly #hooks: SchedulerHooks;
  readonly #calls: CallReporter;
  readonly #log: DecisionLog;
  readonly #maxEndpoints: number | undefined;
  #plan!: SchedulingPlan;
  #preparers: readonly ProfileMember<Producer>[] = [];
  #columns!: CandidateColumns;
  #screening!: Screening;
  #data!: Data;
  /** The run of the only profile; undefined where a handler chooses profiles. */
  #only: ProfileRun | undefined;
  #runs: ProfileRuns | undefined;
  #untilTimed = 1;
  #untilFull: number;

  constructor(options: SchedulerOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#hooks = options.hooks ?? {};
    this.#calls = new CallReporter(options.clock, this.#hooks);
    this.#maxEndpoints = options.maxEndpoints;
    this.#untilFull = options.fullEvery ?? 0;
    this.records = options.records ?? new DecisionRecords();
    this.#log = new DecisionLog(this.records, options.clock, this.#calls);
    this.usePlan(options.plan);
  }

  /** The number of endpoints that a proxy is offered, 1 to 8; a result may hold fewer. */
  get offered(): number {
    const { picker } = this.#runs === undefined ? this.#plan.profiles[0]! : this.#runs.primary.profile;
    return Math.min(MAX_LISTED, this.#maxEndpoints ?? picker.plugin.maxNumOfEndpoints);
  }

  get plan(): SchedulingPlan {
    return this.#plan;
  }

  /** The producers that prepare before a decision, in the order of their dependencies. */
  get preparers(): readonly ProfileMember<Producer>[] {
    return this.#preparers;
  }

  /** Replaces the plan. The state of the old plugins is lost; the records stay. */
  usePlan(plan: SchedulingPlan): void {
    const { clock, random, staleness } = this.#options;
    this.#plan = plan;
    this.#preparers = plan.producers.filter(({ plugin }) => plugin.prepare !== undefined);
    this.#columns = new CandidateColumns(plan.columns.length, plan.attributes.length, staleness);
    this.#screening = new Screening(plan.screeners, clock, this.#calls);
    this.#data = new Data(plan, this.#columns, clock, random, this.#calls);
    this.#only = undefined;
    this.#runs = undefined;
    if (plan.handler === undefined)
      this.#only = new ProfileRun(plan.profiles[0]!, this.#columns, clock, random, this.#calls);
    else this.#runs = new ProfileRuns(plan, plan.handler, this.#columns, this.#options, this.#calls);
  }

  /** Tells the plugins that an endpoint is in the pool. */
  endpointAdded(endpoint: Endpoint): void {
    for (const producer of this.#plan.producers) {
      try {
        refusePromise(producer.plugin.endpointAdded?.(endpoint));
      } catch (error) {
        this.#calls.failed("DataProducer", producer, error);
      }
    }
  }

  /** Tells the plugins that an endpoint has left the pool. */
  endpointRemoved(endpoint: Endpoint): void {
    for (const producer of this.#plan.producers) {
      try {
        refusePromise(producer.plugin.endpointRemoved?.(endpoint));
      } catch (error) {
        this.#calls.failed("DataProducer", producer, error);
      }
    }
  }

  /**
   * Chooses endpoints for a request.
   * @param endpoints the candidates; they must not change during the call
   * @param excludedDown number of endpoints left out before because they are down, for the record
   * @returns at most eight endpoints, or a rejection. Its reason is `no_endpoints` (none given, or the screeners left none),
   *   `no_target` (filters left none) or `precondition_failed` (conditional decoding). It is the reason of a plugin that
   *   refused, or `internal` (the picker or the profile handler failed).
   */
  schedule(
    request: InferenceRequest,
    endpoints: readonly Endpoint[],
    excludedDown: number,
    extras: ScheduleExtras = NO_EXTRAS,
  ): SchedulingResult | Rejection {
    const started = this.#clock.now();
    this.#calls.begin(extras.trace);
    const { down = NOBODY } = extras;
    const outcome =
      this.#run(request, endpoints, excludedDown, started, extras, down.length > 0) ??
      this.#run(request, [...endpoints, ...down], 0, started, extras, false)!;
    this.#calls.begin(undefined);
    this.#hooks.decided?.(outcome, request, (this.#clock.now() - started) / 1000);
    return outcome;
  }

  /** Returns the rejection of a request without candidates: `no_endpoints`, unless a filter of a profile has its own. */
  noCandidates(): Rejection {
    for (const { filters } of this.#plan.profiles)
      for (const { plugin } of filters)
        if (plugin.refusal !== undefined) return new Rejection("no_target", plugin.refusal);
    return new Rejection("no_endpoints", "failed to find endpoint candidates for serving the request");
  }

  /** Records a request that was refused before scheduling. @returns the rejection */
  refused(request: InferenceRequest, rejection: Rejection, candidates: number, excludedDown: number): Rejection {
    return this.#refuse({ request, candidates, excludedDown, now: this.#clock.now(), refusal: rejection });
  }

  /** @returns undefined, without a record, when no candidate is left and there are `others` to try */
  #run(
    request: InferenceRequest,
    endpoints: readonly Endpoint[],
    excludedDown: number,
    now: number,
    extras: ScheduleExtras,
    others: boolean,
  ): SchedulingResult | Rejection | undefined {
    const { unserving } = extras;
    const decided = { request, candidates: endpoints.length + (unserving?.dropped ?? 0), excludedDown, now };
    if (endpoints.length === 0) return this.#refuse({ ...decided, refusal: this.noCandidates() });
    const timed = this.#isTimed(extras);
    const capture = this.#isFull(extras) ? this.#capture(request, endpoints, now) : undefined;
    const screened = this.#screening.run(request, endpoints, timed, capture?.dropped);
    const { dropped } = this.#screening;
    const screenedOut = unserving === undefined ? dropped : [unserving, ...dropped];
    const early = { ...decided, screened: screenedOut, capture };
    if (screened instanceof Rejection) return this.#refuse({ ...early, refusal: screened });
    if (screened.length === 0) return others ? undefined : this.#refuse({ ...early, refusal: this.noCandidates() });
    this.#columns.fill(screened, now);
    this.#data.produce(request, timed, extras.prepared);
    capture?.produced(this.#columns, this.#options.random.state);
    const denied = this.#data.admit(request, timed);
    if (denied !== undefined) return this.#refuseSeen({ ...early, refusal: denied });
    const run = this.#only ?? this.#runs!.run(request, timed, capture?.dropped);
    if (run instanceof Rejection)
      return others && run.reason === "no_target"
        ? undefined
        : this.#refuseSeen({ ...early, run: this.#runs?.failed, refusal: run });
    const failed = this.#only === undefined ? undefined : this.#runOnly(request, timed, capture);
    if (others && failed?.reason === "no_target") return undefined;
    const refusal = failed ?? precondition(request, run, this.#plan);
    if (refusal !== undefined) return this.#refuseSeen({ ...early, run, refusal });
    return this.#conclude(early, run, timed);
  }

  #runOnly(request: InferenceRequest, timed: boolean, capture: FullCapture | undefined): Rejection | undefined {
    const only = this.#only!;
    const started = timed ? this.#clock.now() : 0;
    const candidates = this.#columns.count;
    const failed = only.run(request, timed, capture?.dropped);
    if (timed) this.#calls.ran(only.profile, started, candidates, this.#columns.count);
    return failed;
  }

  #isTimed({ trace }: ScheduleExtras): boolean {
    if (trace !== undefined) return true;
    if (this.#hooks.pluginCalled === undefined || --this.#untilTimed > 0) return false;
    this.#untilTimed = TIMED_EVERY;
    return true;
  }

  #isFull({ full }: ScheduleExtras): boolean {
    if (full) return true;
    if (this.#untilFull === 0 || --this.#untilFull > 0) return false;
    this.#untilFull = this.#options.fullEvery ?? 0;
    return true;
  }

  #capture(request: InferenceRequest, endpoints: readonly Endpoint[], now: number): FullCapture {
    const { random, staleness = DEFAULT_STALENESS_MS } = this.#options;
    return new FullCapture(this.#plan, request, endpoints, { now, randomState: random.state, staleness });
  }

  #conclude(decided: Deciding, run: ProfileRun, timed: boolean): SchedulingResult {
    const { request } = decided;
    const { columns, order } = run;
    const { figures, keepsTokens, prefixProducer, producers } = this.#plan;
    const held = heldPrefix(request, run, figures);
    if (held !== undefined) this.#hooks.prefixMatched?.(prefixProducer!, held.matchedBytes, held.ratio);
    // Of its exact length: the record keeps it.
    const listed = new Array<Endpoint>(Math.min(columns.count, MAX_LISTED));
    for (let i = 0; i < listed.length; i++) listed[i] = columns.endpoints[order[i]!]!;
    const uncachedTokens = tokensToCompute(request, run, figures);
    const others = this.#runs?.others(run);
    const record = this.#log.record(this.#plan, {
      ...decided,
      run,
      listed,
      promptBytes: held?.hashedBytes ?? 0,
      others: others?.map(({ profile, endpoints }) => ({ profile, id: endpoints[0]!.id })),
      cache: others === undefined ? expectedCache(run, figures) : undefined,
    });
    const walks = listed.length > 1 && (this.#options.retries === true || this.offered > 1);
    const moved = walks ? servedListener(producers, request, this.#calls, this.#columns) : undefined;
    const listener = answerListener(producers, request, this.#calls, this.#columns);
    tellRouted(
      producers,
      request,
      listed[0]!,
      others,
      timed ? this.#clock : undefined,
      this.#calls,
      columns,
      run.profile.name,
    );
    const { peerBlocks = 0 } = prefixProducer?.plugin ?? NO_PEER_BLOCKS;
    if (peerBlocks > 0) record.peerBlocks = peerBlocks;
    this.#log.add(record);
    const scores = this.#scored(run);
    const result = { endpoints: listed, uncachedTokens, keepsTokens, record, moved, listener, scores };
    if (others === undefined) return result;
    const sideLoads = others.map((other): SideLoad => {
      return { endpoint: other.endpoints[0]!, uncachedTokens: tokensToCompute(request, other.run, figures) };
    });
    const { primaryPort } = this.#plan.handler!.plugin;
    const via = primaryPort === undefined ? undefined : hostPort(listed[0]!.address, primaryPort);
    const profiles = new Map([[run.profile.name, listed], ...others.map((o) => [o.profile, o.endpoints] as const)]);
    return { ...result, profiles, sideLoads, ...(via === undefined ? {} : { via }) };
  }

  /** Returns the totals of the candidates that passed the filters; undefined without a scorer (epp-protocol 3.6). */
  #scored({ profile, columns, totals }: ProfileRun): Record<string, number> | undefined {
    if (!this.#options.emitScores || profile.scorers.length === 0) return undefined;
    const scores: Record<string, number> = {};
    for (let i = 0; i < columns.count; i++) scores[columns.endpoints[i]!.hostPort] = totals[i]!;
    return scores;
  }

  /** Refuses a request that the producers have seen. */
  #refuseSeen(deciding: Deciding & { readonly refusal: Rejection }): Rejection {
    const { producers } = this.#plan;
    const rejection = this.#refuse(deciding);
    tellRefused(producers, deciding.request, this.#calls);
    return rejection;
  }

  #refuse(deciding: Deciding & { readonly refusal: Rejection }): Rejection {
    return this.#log.refuse(this.#plan, deciding);
  }
}

import type { Clock } from "../clock/clock.ts";
import type { Random } from "../clock/random.ts";
import type { Endpoint } from "../inference/endpoint.ts";
import { messageOf } from "../inference/errors.ts";
import { Rejection } from "../inference/outcomes.ts";
import { type InferenceRequest, promptBytes } from "../inference/request.ts";
import type { SchedulingResult } from "../inference/scheduling-result.ts";
import { PREFIX_BLOCK_TOKENS, PREFIX_MATCHED_BLOCKS, PREFIX_TOTAL_BLOCKS, UNCACHED_TOKENS } from "../plugin/keys.ts";
import { BYTES_PER_TOKEN } from "../prefix/block-hash.ts";
import { CandidateColumns } from "./candidates.ts";
import type { ExtensionPoint, SchedulerHooks } from "./hooks.ts";
import type { Profile, ProfileMember, ProfileProducer } from "./profile.ts";
import { CompactRecord } from "./record.ts";
import { DecisionRecords } from "./records.ts";

/** The most endpoints a result lists. */
const MAX_LISTED = 8;
/** One decision in this many has its plugin calls timed. */
const TIMED_EVERY = 16;

export interface SchedulerOptions {
  readonly profile: Profile;
  readonly clock: Clock;
  readonly random: Random;
  readonly hooks?: SchedulerHooks;
  /** Where decisions are remembered; one of its own by default. */
  readonly records?: DecisionRecords;
  /**
   * Whether the wire walks down the list by itself: then every result can be told who served. Otherwise only where the
   * picker offers more than one endpoint.
   */
  readonly retries?: boolean;
  /** Puts the totals of all scored endpoints into the result (`--emit-endpoint-scores`). */
  readonly emitScores?: boolean;
  /** How many endpoints are offered, 1 to 8, whatever the picker says; absent = as it says. */
  readonly maxEndpoints?: number | undefined;
  /** Milliseconds of `isFresh`; default 200. */
  readonly staleness?: number;
}

/**
 * Runs the profile for each request: producers, filters, scorers, picker, record (scheduling 3.6). Synchronous, so each
 * decision sees the effects of the one before it.
 *
 * A plugin that throws is reported and left out of that decision: a filter keeps everybody, a scorer and a producer
 * count as zeros. Only without a working picker there is no answer.
 */
export class Scheduler {
  readonly records: DecisionRecords;
  readonly #clock: Clock;
  readonly #hooks: SchedulerHooks;
  readonly #staleness: number | undefined;
  readonly #retries: boolean;
  readonly #emitScores: boolean;
  readonly #maxEndpoints: number | undefined;
  #profile!: Profile;
  #columns!: CandidateColumns;
  #prefixProducer: ProfileProducer | undefined;
  /** Clamped scores, one array per scorer. */
  #scores: Float64Array[] = [];
  #keep = new Uint8Array(0);
  #untilTimed = 1;

  // The one context object each plugin call gets, reused.
  readonly #context: {
    request: InferenceRequest;
    candidates: CandidateColumns;
    keep: Uint8Array;
    out: Float64Array;
    totals: Float64Array;
    order: Uint32Array;
    random: Random;
  };

  constructor(options: SchedulerOptions) {
    this.#clock = options.clock;
    this.#hooks = options.hooks ?? {};
    this.#staleness = options.staleness;
    this.#retries = options.retries ?? false;
    this.#emitScores = options.emitScores ?? false;
    this.#maxEndpoints = options.maxEndpoints;
    this.records = options.records ?? new DecisionRecords();
    this.#context = {
      request: NO_REQUEST,
      candidates: new CandidateColumns([]),
      keep: this.#keep,
      out: new Float64Array(0),
      totals: new Float64Array(0),
      order: new Uint32Array(0),
      random: options.random,
    };
    this.useProfile(options.profile);
  }

  /** How many endpoints of a result are offered to a proxy, 1 to 8; a result may hold fewer. */
  get offered(): number {
    return Math.min(MAX_LISTED, this.#maxEndpoints ?? this.#profile.picker.plugin.maxNumOfEndpoints);
  }

  get profile(): Profile {
    return this.#profile;
  }

  /** Replaces the profile, and with it whatever its plugins had learnt; the records stay. */
  useProfile(profile: Profile): void {
    this.#profile = profile;
    this.#columns = new CandidateColumns(
      profile.producers.flatMap((producer) => producer.produces),
      this.#staleness,
    );
    this.#context.candidates = this.#columns;
    this.#prefixProducer = profile.producers.find((producer) => producer.produces.includes(PREFIX_MATCHED_BLOCKS));
    this.#reserve(0);
  }

  /** Lets the plugins forget an endpoint that has left the pool. */
  endpointRemoved(endpoint: Endpoint): void {
    for (const producer of this.#profile.producers) {
      try {
        producer.plugin.endpointRemoved?.(endpoint);
      } catch (error) {
        this.#hooks.pluginFailed?.("DataProducer", producer, error);
      }
    }
  }

  /**
   * Chooses endpoints for a request.
   * @param endpoints the candidates; not changed, and not to be changed meanwhile
   * @param excludedDown how many were left out before because they are down, for the record
   * @returns at most eight endpoints, or `no_endpoints` (none given), `no_target` (filters left none), `internal` (the
   *   picker failed)
   */
  schedule(
    request: InferenceRequest,
    endpoints: readonly Endpoint[],
    excludedDown: number,
  ): SchedulingResult | Rejection {
    const started = this.#clock.now();
    this.#context.request = request;
    const outcome = this.#run(request, endpoints, excludedDown, started);
    this.#context.request = NO_REQUEST;
    this.#hooks.decided?.(outcome, request, (this.#clock.now() - started) / 1000);
    return outcome;
  }

  /** The answer to a request for which there is no endpoint: `no_endpoints`, unless a filter of the profile has its own. */
  noCandidates(): Rejection {
    const refusal = this.#profile.filters.find(({ plugin }) => plugin.refusal !== undefined)?.plugin.refusal;
    if (refusal !== undefined) return new Rejection("no_target", refusal);
    return new Rejection("no_endpoints", "failed to find endpoint candidates for serving the request");
  }

  #run(
    request: InferenceRequest,
    endpoints: readonly Endpoint[],
    excludedDown: number,
    now: number,
  ): SchedulingResult | Rejection {
    if (endpoints.length === 0) return this.noCandidates();
    const timed = this.#hooks.pluginCalled !== undefined && --this.#untilTimed === 0;
    if (timed) this.#untilTimed = TIMED_EVERY;
    const columns = this.#columns;
    columns.fill(endpoints, now);
    if (columns.room > this.#keep.length) this.#reserve(columns.room);
    this.#produce(timed);
    const filteredOut = this.#filter(timed, endpoints.length);
    if (filteredOut !== undefined) return filteredOut;
    this.#score(timed);
    const tied = this.#pick(timed);
    if (tied instanceof Rejection) return tied;
    return this.#conclude(request, endpoints.length, excludedDown, tied, now, timed);
  }

  #produce(timed: boolean): void {
    for (const producer of this.#profile.producers) {
      const started = timed ? this.#clock.now() : 0;
      try {
        producer.plugin.produce(this.#context);
      } catch (error) {
        this.#columns.clear(producer.produces);
        this.#hooks.pluginFailed?.("DataProducer", producer, error);
      }
      if (timed) this.#called("DataProducer", producer, started);
    }
  }

  #filter(timed: boolean, before: number): Rejection | undefined {
    for (const filter of this.#profile.filters) {
      const started = timed ? this.#clock.now() : 0;
      this.#keep.fill(1, 0, this.#columns.count);
      try {
        filter.plugin.filter(this.#context);
      } catch (error) {
        this.#keep.fill(1, 0, this.#columns.count);
        this.#hooks.pluginFailed?.("Filter", filter, error);
      }
      if (timed) this.#called("Filter", filter, started);
      if (this.#columns.retain(this.#keep) === 0)
        return new Rejection(
          "no_target",
          filter.plugin.refusal ?? `failed to find target endpoint: ${filter.name} left none of ${before} candidates`,
        );
    }
    return undefined;
  }

  #score(timed: boolean): void {
    const { count } = this.#columns;
    const { totals } = this.#context;
    totals.fill(0, 0, count);
    for (let s = 0; s < this.#profile.scorers.length; s++) {
      const scorer = this.#profile.scorers[s]!;
      const out = this.#scores[s]!;
      const started = timed ? this.#clock.now() : 0;
      out.fill(0, 0, count);
      this.#context.out = out;
      try {
        scorer.plugin.score(this.#context);
      } catch (error) {
        out.fill(0, 0, count);
        this.#hooks.pluginFailed?.("Scorer", scorer, error);
      }
      if (timed) this.#called("Scorer", scorer, started);
      const { weight } = scorer;
      for (let i = 0; i < count; i++) {
        const raw = out[i]!;
        // Written so that NaN becomes 0.
        const score = raw >= 0 ? (raw <= 1 ? raw : 1) : 0;
        out[i] = score;
        totals[i]! += score * weight;
      }
    }
  }

  /** @returns how many share the first place */
  #pick(timed: boolean): number | Rejection {
    const { picker } = this.#profile;
    const { count } = this.#columns;
    const { order } = this.#context;
    const started = timed ? this.#clock.now() : 0;
    for (let i = 0; i < count; i++) order[i] = i;
    try {
      const tied = picker.plugin.pick(this.#context);
      if (timed) this.#called("Picker", picker, started);
      if (isOrder(order, count)) return tied >= 1 && tied <= count ? tied : 1;
      throw new Error("it left an order that repeats a candidate or names one that does not exist");
    } catch (error) {
      this.#hooks.pluginFailed?.("Picker", picker, error);
      return new Rejection("internal", `failed to find target endpoint: ${picker.name} failed: ${messageOf(error)}`);
    }
  }

  #conclude(
    request: InferenceRequest,
    candidates: number,
    excludedDown: number,
    tied: number,
    now: number,
    timed: boolean,
  ): SchedulingResult {
    const columns = this.#columns;
    const { order, totals } = this.#context;
    const first = order[0]!;
    const bytes = promptBytes(request);
    const matched = columns.optionalColumn(PREFIX_MATCHED_BLOCKS);
    const total = columns.optionalColumn(PREFIX_TOTAL_BLOCKS);
    const blockTokens = columns.optionalColumn(PREFIX_BLOCK_TOKENS);
    let hashed = 0;
    if (matched !== undefined && total !== undefined && blockTokens !== undefined) {
      const blockBytes = blockTokens[first]! * BYTES_PER_TOKEN;
      hashed = Math.min(bytes, total[first]! * blockBytes);
      const ratio = total[first]! > 0 ? matched[first]! / total[first]! : undefined;
      this.#hooks.prefixMatched?.(this.#prefixProducer!, matched[first]! * blockBytes, ratio);
    }
    const listed: Endpoint[] = [];
    for (let i = 0; i < columns.count && i < MAX_LISTED; i++) listed.push(columns.endpoints[order[i]!]!);
    const record = new CompactRecord({
      sequence: this.records.nextSequence,
      request,
      at: this.#clock.wall(),
      now,
      promptBytes: hashed,
      profile: this.#profile,
      candidates,
      excludedDown,
      listed,
      columns,
      order,
      totals,
      scores: this.#scores,
      tied,
    });
    const uncached = columns.optionalColumn(UNCACHED_TOKENS);
    const uncachedTokens = uncached === undefined ? Math.ceil(bytes / BYTES_PER_TOKEN) : uncached[first]!;
    const moved = listed.length > 1 && (this.#retries || this.offered > 1) ? this.#follow(request) : undefined;
    this.#tellRouted(request, listed[0]!, timed);
    this.records.add(record);
    return { endpoints: listed, uncachedTokens, record, moved, scores: this.#emitScores ? this.#scored() : undefined };
  }

  /** The totals of the candidates that passed the filters; undefined when nobody scored them (epp-protocol 3.6). */
  #scored(): Record<string, number> | undefined {
    if (this.#profile.scorers.length === 0) return undefined;
    const scores: Record<string, number> = {};
    const { count, endpoints } = this.#columns;
    for (let i = 0; i < count; i++) scores[endpoints[i]!.hostPort] = this.#context.totals[i]!;
    return scores;
  }

  #follow(request: InferenceRequest): ((served: Endpoint) => void) | undefined {
    const calls: ((served: Endpoint) => void)[] = [];
    for (const producer of this.#profile.producers) {
      if (producer.plugin.follow === undefined) continue;
      const report = this.#reporter(producer);
      const call = guarded(() => producer.plugin.follow?.(request), report);
      if (call !== undefined) calls.push((served) => guarded(() => call(served), report));
    }
    if (calls.length === 0) return undefined;
    return (served) => {
      for (const call of calls) call(served);
    };
  }

  #reporter(plugin: ProfileMember<unknown>): (error: unknown) => void {
    return (error) => this.#hooks.pluginFailed?.("PreRequest", plugin, error);
  }

  #tellRouted(request: InferenceRequest, endpoint: Endpoint, timed: boolean): void {
    for (const producer of this.#profile.producers) {
      if (producer.plugin.routed === undefined) continue;
      const started = timed ? this.#clock.now() : 0;
      try {
        producer.plugin.routed(request, endpoint);
      } catch (error) {
        this.#hooks.pluginFailed?.("PreRequest", producer, error);
      }
      if (timed) this.#called("PreRequest", producer, started);
    }
  }

  #called(point: ExtensionPoint, plugin: ProfileMember<unknown>, started: number): void {
    this.#hooks.pluginCalled?.(point, plugin, (this.#clock.now() - started) / 1000);
  }

  #reserve(room: number): void {
    this.#keep = new Uint8Array(room);
    this.#scores = this.#profile.scorers.map(() => new Float64Array(room));
    this.#context.keep = this.#keep;
    this.#context.totals = new Float64Array(room);
    this.#context.order = new Uint32Array(room);
  }
}

/** Whether the places a result is made of name distinct candidates. */
function isOrder(order: Uint32Array, count: number): boolean {
  const listed = Math.min(count, MAX_LISTED);
  for (let i = 0; i < listed; i++) {
    if (order[i]! >= count) return false;
    for (let j = 0; j < i; j++) if (order[j] === order[i]) return false;
  }
  return true;
}

function guarded<T>(call: () => T, onError: (error: unknown) => void): T | undefined {
  try {
    return call();
  } catch (error) {
    onError(error);
    return undefined;
  }
}

/** Stands in the context between decisions, so that it keeps no body alive. */
const NO_REQUEST = {} as InferenceRequest;

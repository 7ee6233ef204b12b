import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { RecordedFilter } from "../../base/inference/decision-record.ts";
import { messageOf } from "../../base/inference/errors.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { AttributeKey } from "../../base/plugin/keys.ts";
import type { Peer } from "../../base/plugin/kinds.ts";
import { type CandidateColumns, fillFirst } from "./candidates.ts";
import { type DroppedBy, droppedOnes } from "./dropped.ts";
import { type CallReporter, refusePromise, refuseScores } from "./plugin-calls.ts";
import type { Profile } from "./profile.ts";

/** The most endpoints of a result. */
export const MAX_LISTED = 8;

const NONE_DROPPED: readonly RecordedFilter[] = [];

/** The name in records of the rule that drops down endpoints while another one is left. */
const DOWN = "down";

/** Runs one profile: filters, scorers, picker (scheduling 3.6). Its arrays keep the last run until the next one. */
export class ProfileRun {
  readonly profile: Profile;
  readonly columns: CandidateColumns;
  /** The number of candidates that share the first place. */
  tied = 0;
  /** Filters of this run that dropped candidates. */
  dropped: readonly RecordedFilter[] = NONE_DROPPED;
  /** Clamped scores, one array per scorer. */
  scores: Float64Array[] = [];
  readonly #calls: CallReporter;
  readonly #clock: Clock;
  // A plugin may replace these arrays in its context, so each call gets the original ones again.
  #keep = new Uint8Array(0);
  #totals = new Float64Array(0);
  #order = new Uint32Array(0);

  // The one context object of all plugin calls.
  readonly #context: {
    request: InferenceRequest;
    candidates: CandidateColumns;
    keep: Uint8Array;
    out: Float64Array;
    totals: Float64Array;
    order: Uint32Array;
    peer: Peer | undefined;
    readonly random: Random;
    readonly attribute: <T>(key: AttributeKey<T>) => T | undefined;
  };

  /** @param columns the candidates of the run; filters drop some of them */
  constructor(profile: Profile, columns: CandidateColumns, clock: Clock, random: Random, calls: CallReporter) {
    this.profile = profile;
    this.columns = columns;
    this.#clock = clock;
    this.#calls = calls;
    this.#context = {
      request: NO_REQUEST,
      candidates: columns,
      keep: this.#keep,
      out: new Float64Array(0),
      totals: this.#totals,
      order: this.#order,
      peer: undefined,
      random,
      attribute: (key) => columns.attribute(key),
    };
  }

  /** Places of the remaining candidates, best first. */
  get order(): Uint32Array {
    return this.#order;
  }

  /** The weighted sum of each remaining candidate. */
  get totals(): Float64Array {
    return this.#totals;
  }

  /**
   * Runs the profile over the candidates in its columns.
   * @param timed whether to time the calls of its plugins
   * @param tracked receives each candidate that a filter drops, for a full record
   * @param first the profile that ran first and found an endpoint, if it is another one
   * @returns undefined when the run has a pick, else the reason why not
   */
  run(
    request: InferenceRequest,
    timed: boolean,
    tracked: DroppedBy | undefined,
    first?: ProfileRun,
  ): Rejection | undefined {
    if (this.columns.room > this.#keep.length) this.#reserve(this.columns.room);
    this.#context.request = request;
    this.#context.peer = first === undefined ? undefined : this.#peer(first);
    const refused = this.#filter(timed, tracked);
    if (refused === undefined) this.#score(timed);
    const failed = refused ?? this.#pick(timed);
    this.#context.request = NO_REQUEST;
    this.#context.peer = undefined;
    return failed;
  }

  /** The first choice of another run, with the columns that the present plugin of this run may read. */
  #peer({ columns, order }: ProfileRun): Peer {
    const at = order[0]!;
    return {
      endpoint: columns.endpoints[at]!,
      value: (key) => {
        columns.scope = this.columns.scope;
        return columns.optionalColumn(key)?.[at];
      },
    };
  }

  #filter(timed: boolean, tracked: DroppedBy | undefined): Rejection | undefined {
    const { columns } = this;
    const before = columns.count;
    this.dropped = NONE_DROPPED;
    for (const filter of this.profile.filters) {
      const started = timed ? this.#clock.now() : 0;
      const candidates = columns.count;
      this.#keep.fill(1, 0, candidates);
      this.#context.keep = this.#keep;
      columns.scope = filter.scope;
      try {
        refusePromise(filter.plugin.filter(this.#context));
      } catch (error) {
        this.#keep.fill(1, 0, candidates);
        this.#calls.failed("Filter", filter, error);
      }
      const { endpoints } = columns;
      const left = columns.retain(this.#keep);
      if (timed) this.#calls.filtered(this.profile, filter, started, candidates, left);
      if (left === candidates) continue;
      this.dropped = [...this.dropped, droppedOnes(filter.name, endpoints, this.#keep, candidates)];
      tracked?.note(this.profile.name, filter.name, endpoints, this.#keep, candidates);
      if (left === 0)
        return new Rejection(
          "no_target",
          filter.plugin.refusal ?? `failed to find target endpoint: ${filter.name} left none of ${before} candidates`,
        );
    }
    if (columns.mixed) this.#dropDown(tracked);
    return undefined;
  }

  /**
   * Drops down endpoints after the filters, because only filters know which endpoints this profile can use. Down endpoints stay
   * when no other one is left.
   */
  #dropDown(tracked: DroppedBy | undefined): void {
    const { columns } = this;
    const { count, endpoints } = columns;
    let left = 0;
    for (let i = 0; i < count; i++) left += this.#keep[i] = endpoints[i]!.state === "down" ? 0 : 1;
    if (left === 0 || left === count) return;
    columns.retain(this.#keep);
    this.dropped = [...this.dropped, droppedOnes(DOWN, endpoints, this.#keep, count)];
    tracked?.note(this.profile.name, DOWN, endpoints, this.#keep, count);
  }

  #score(timed: boolean): void {
    const { columns } = this;
    const { count } = columns;
    const totals = this.#totals;
    fillFirst(totals, 0, count);
    const begun = timed ? this.#clock.now() : 0;
    for (let s = 0; s < this.profile.scorers.length; s++) {
      const scorer = this.profile.scorers[s]!;
      const out = this.scores[s]!;
      const started = timed ? this.#clock.now() : 0;
      fillFirst(out, 0, count);
      this.#context.out = out;
      columns.scope = scorer.scope;
      try {
        refuseScores(scorer.plugin.score(this.#context));
      } catch (error) {
        out.fill(0, 0, count);
        this.#calls.failed("Scorer", scorer, error);
      }
      const { weight } = scorer;
      for (let i = 0; i < count; i++) {
        const raw = out[i]!;
        // This form of the comparison turns NaN into 0.
        const score = raw >= 0 ? (raw <= 1 ? raw : 1) : 0;
        out[i] = score;
        totals[i]! += score * weight;
      }
      if (timed) this.#calls.scored(this.profile, scorer, started, out, count);
    }
    if (timed) this.#calls.scoring(this.profile, begun, count);
  }

  #pick(timed: boolean): Rejection | undefined {
    const { picker } = this.profile;
    const { columns } = this;
    const { count } = columns;
    const order = this.#order;
    const started = timed ? this.#clock.now() : 0;
    for (let i = 0; i < count; i++) order[i] = i;
    columns.scope = picker.scope;
    this.#context.totals = this.#totals;
    this.#context.order = order;
    try {
      const tied = picker.plugin.pick(this.#context);
      refusePromise(tied);
      if (!isOrder(order, count))
        throw new Error("its order repeats a candidate, or names a candidate that does not exist");
      this.tied = Number.isInteger(tied) && tied >= 1 && tied <= count ? tied : 1;
    } catch (error) {
      this.#calls.failed("Picker", picker, error);
      return new Rejection("internal", `failed to find target endpoint: ${picker.name} failed: ${messageOf(error)}`);
    }
    if (timed) this.#calls.picked(this.profile, started, columns.endpoints, order, this.totals, count);
    return undefined;
  }

  #reserve(room: number): void {
    this.#keep = new Uint8Array(room);
    this.scores = this.profile.scorers.map(() => new Float64Array(room));
    this.#totals = new Float64Array(room);
    this.#order = new Uint32Array(room);
  }
}

/** Whether the listed places name distinct candidates. */
function isOrder(order: Uint32Array, count: number): boolean {
  const listed = Math.min(count, MAX_LISTED);
  for (let i = 0; i < listed; i++) {
    if (order[i]! >= count) return false;
    for (let j = 0; j < i; j++) if (order[j] === order[i]) return false;
  }
  return true;
}

/** The request in the context between decisions: the context then keeps no body alive. */
export const NO_REQUEST = {} as InferenceRequest;

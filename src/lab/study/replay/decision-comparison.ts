import type { DecisionRecord, FullRecord } from "../../../base/inference/decision-record.ts";
import { messageOf } from "../../../base/inference/errors.ts";
import { explain } from "../../../picker/decisions/explain.ts";
import type { ReplayOutcome } from "../../../picker/decisions/replay.ts";
import {
  type Counted,
  Counts,
  type DecidedBy,
  type DecisionStudy,
  type EndpointPicks,
  type Move,
  type ReplayExample,
} from "./replay-result.ts";
import type { ReplayedConfiguration } from "./replayed-configuration.ts";

/** The most records to replay. */
const MAX_RECORDS = 100_000;
const MAX_REASONS = 20;
/** The most different moves, data, configurations and endpoints that are counted separately. */
const MAX_MOVES = 100_000;
const LISTED_MOVES = 20;
const MAX_MISSING = 100;
const MAX_CONFIGURATIONS = 100;
const MAX_ENDPOINTS = 10_000;
const LISTED_ENDPOINTS = 1000;
const EXAMPLES = 5;

/** Headers that every record holds, under any configuration. */
const ALWAYS_RECORDED = ["prefer"];

/** The name for all configurations beyond the limit. */
const FURTHER = "further configurations";

/** Decisions of one configuration. */
interface Decided {
  decisions: number;
  same: number;
  difference: string | undefined;
  /** Decisions that lack data, or that the replay with their own configuration changes. */
  doubtful: number;
  /** Headers that occur in records. */
  readonly headers: Set<string>;
}

/** Replays recorded decisions with another configuration, one after the other, and keeps sums of the results. */
export class DecisionComparison {
  readonly #other: ReplayedConfiguration;
  readonly #known: ReadonlyMap<string, ReplayedConfiguration>;
  readonly #most: number;
  readonly #seen = new Set<string>();
  readonly #decided = new Map<string, Decided>();
  readonly #notReplayable = new Counts(MAX_REASONS);
  readonly #missing = new Counts(MAX_MISSING);
  readonly #moves = new Map<string, { readonly from: string | null; readonly to: string | null; count: number }>();
  readonly #picks = new Map<string, { before: number; after: number }>();
  /** One example of each kind of move, and further ones in case there are fewer kinds. */
  readonly #examples: ReplayExample[] = [];
  readonly #spare: ReplayExample[] = [];
  readonly #sums = { records: 0, repeated: 0, beyond: 0, replayed: 0, elsewhere: 0, tossUps: 0, otherProfiles: 0 };
  readonly #refusals = { becameRouted: 0, becameRefused: 0 };
  #otherMoves = 0;
  #from = Number.POSITIVE_INFINITY;
  #to = Number.NEGATIVE_INFINITY;

  /**
   * @param other the configuration to try
   * @param known configurations that may have made the recorded decisions
   * @param most limit of replayed records, >= 1
   */
  constructor(other: ReplayedConfiguration, known: readonly ReplayedConfiguration[], most = MAX_RECORDS) {
    this.#other = other;
    this.#known = new Map([...known, other].map((one) => [one.hash, one]));
    this.#most = most;
  }

  add(record: DecisionRecord): void {
    // Files that were fetched one after the other overlap.
    const key = `${record.configHash} ${record.sequence} ${record.at} ${record.requestId}`;
    if (this.#seen.has(key)) {
      this.#sums.repeated++;
      return;
    }
    if (this.#seen.size >= this.#most) {
      this.#sums.beyond++;
      return;
    }
    this.#seen.add(key);
    this.#sums.records++;
    const { full } = record;
    if (full === undefined) this.#notReplayable.add("was not kept in full: save what sluice explain ID --full prints");
    else this.#compare(record, full);
  }

  result(): DecisionStudy {
    const endpoints = [...this.#picks].map(([id, picks]): EndpointPicks => ({ id, ...picks }));
    endpoints.sort((a, b) => b.before - a.before || b.after - a.after || (a.id < b.id ? -1 : 1));
    const moves: Move[] = [...this.#moves.values()].map((move) => ({ ...move })).sort((a, b) => b.count - a.count);
    const listed = moves.slice(0, LISTED_MOVES);
    const unlisted = moves.slice(LISTED_MOVES).reduce((sum, { count }) => sum + count, 0);
    const spread = (of: (picks: EndpointPicks) => number): number => {
      const picks = endpoints.map(of);
      const sum = picks.reduce((total, one) => total + one, 0);
      return (Math.max(0, ...picks) * picks.length) / sum;
    };
    return {
      ...this.#sums,
      ...this.#refusals,
      ...(this.#sums.replayed === 0 ? { from: 0, to: 0 } : { from: this.#from, to: this.#to }),
      notReplayable: this.#notReplayable.list("other reasons"),
      decidedBy: [...this.#decided].map(([hash, decided]) => this.#decidedBy(hash, decided)),
      moves: listed,
      otherMoves: this.#otherMoves + unlisted,
      endpoints: endpoints.slice(0, LISTED_ENDPOINTS),
      otherEndpoints: Math.max(0, endpoints.length - LISTED_ENDPOINTS),
      maxToMean: { before: spread(({ before }) => before), after: spread(({ after }) => after) },
      missing: this.#missing.list("other data"),
      missingHeaders: this.#missingHeaders(),
      doubtful: this.#doubtful(),
      notes: this.#notes(),
      examples: [...this.#examples, ...this.#spare].slice(0, EXAMPLES),
    };
  }

  #compare(record: DecisionRecord, full: FullRecord): void {
    let outcome: ReplayOutcome | undefined;
    let own: ReplayOutcome | undefined;
    const known = record.configHash === "" ? undefined : this.#known.get(record.configHash);
    try {
      outcome = this.#other.replay(record, full);
      own = known === this.#other ? outcome : known?.replay(record, full);
    } catch (error) {
      this.#notReplayable.add(`cannot be replayed: ${messageOf(error).slice(0, 200)}`);
      return;
    }
    if (outcome === undefined) {
      const why = record.refusal === undefined ? "" : ` (${record.refusal.reason})`;
      this.#notReplayable.add(`was refused before Sluice computed anything${why}`);
      return;
    }
    this.#sums.replayed++;
    this.#from = Math.min(this.#from, record.at);
    this.#to = Math.max(this.#to, record.at);
    // Data that a configuration lacks in its own records has no effect on it, or shows as a difference.
    const missing = known === this.#other ? [] : outcome.missing;
    for (const name of missing) this.#missing.add(name);
    this.#note(record, full, known, own, missing.length > 0);
    this.#count(record, full, outcome.record);
  }

  /**
   * @param known the configuration of the recorded decision, if it is known
   * @param own the decision in the replay with that configuration
   */
  #note(
    { configHash }: DecisionRecord,
    { request }: FullRecord,
    known: ReplayedConfiguration | undefined,
    own: ReplayOutcome | undefined,
    lacking: boolean,
  ): void {
    const name = this.#decided.has(configHash) || this.#decided.size < MAX_CONFIGURATIONS ? configHash : FURTHER;
    let decided = this.#decided.get(name);
    if (decided === undefined) {
      decided = { decisions: 0, same: 0, difference: undefined, doubtful: 0, headers: new Set(known?.headers) };
      this.#decided.set(name, decided);
    }
    decided.decisions++;
    for (const [header] of request.headers) if (decided.headers.size < MAX_MISSING) decided.headers.add(header);
    const unsteady = own !== undefined && own.differences.length > 0;
    if (own !== undefined && !unsteady) decided.same++;
    if (unsteady) decided.difference ??= own.differences[0];
    if (unsteady || lacking) decided.doubtful++;
  }

  #count(record: DecisionRecord, full: FullRecord, again: DecisionRecord): void {
    const from = record.refusal === undefined ? record.top[0]?.id : undefined;
    const to = again.refusal === undefined ? again.top[0]?.id : undefined;
    for (const place of full.screened) this.#picksOf(full.endpoints[place]!.id);
    if (from !== undefined) this.#picksOf(from).before++;
    if (to !== undefined) this.#picksOf(to).after++;
    if (from === to) {
      if (othersOf(record) !== othersOf(again)) this.#sums.otherProfiles++;
      return;
    }
    if (from === undefined) this.#refusals.becameRouted++;
    else if (to === undefined) this.#refusals.becameRefused++;
    else {
      this.#sums.elsewhere++;
      if (isTossUp(from, to, again)) this.#sums.tossUps++;
    }
    this.#moved(from ?? null, to ?? null, record, again);
  }

  #moved(from: string | null, to: string | null, record: DecisionRecord, again: DecisionRecord): void {
    const key = `${from} ${to}`;
    const move = this.#moves.get(key);
    const examples = move === undefined ? this.#examples : this.#spare;
    if (move !== undefined) move.count++;
    else if (this.#moves.size < MAX_MOVES) this.#moves.set(key, { from, to, count: 1 });
    else this.#otherMoves++;
    if (examples.length >= EXAMPLES) return;
    const { sequence, requestId } = record;
    examples.push({ sequence, requestId, before: explain(record).sentence, after: explain(again).sentence });
  }

  #picksOf(id: string): { before: number; after: number } {
    let picks = this.#picks.get(id);
    if (picks === undefined) {
      picks = { before: 0, after: 0 };
      if (this.#picks.size < MAX_ENDPOINTS) this.#picks.set(id, picks);
    }
    return picks;
  }

  #decidedBy(configHash: string, { decisions, same, difference }: Decided): DecidedBy {
    return { configHash, decisions, configuration: this.#known.get(configHash)?.source, same, difference };
  }

  /** Headers that the other configuration reads and that records of this one may lack. */
  #headersLacking({ headers }: Decided): readonly string[] {
    return this.#other.headers.filter((name) => !headers.has(name) && !ALWAYS_RECORDED.includes(name));
  }

  #missingHeaders(): readonly Counted[] {
    const missing = new Counts(MAX_MISSING);
    for (const decided of this.#decided.values())
      for (const name of this.#headersLacking(decided)) missing.add(name, decided.decisions);
    return missing.list("other headers");
  }

  #doubtful(): number {
    const all = [...this.#decided.values()];
    return all.reduce((sum, one) => sum + (this.#headersLacking(one).length > 0 ? one.decisions : one.doubtful), 0);
  }

  #notes(): string[] {
    const notes = [
      "Each decision has its recorded loads and caches, not those that the other configuration would produce over time.",
    ];
    if ([...this.#decided.keys()].some((hash) => hash !== this.#other.hash)) {
      notes.push(
        "The results of producers, such as prefix matches, are the recorded ones: other producer parameters have no effect here.",
      );
      if (this.#other.screens) notes.push("Screeners do not run again: the candidates are the recorded ones.");
    }
    return notes;
  }
}

function othersOf({ others }: DecisionRecord): string {
  return others.map(({ profile, id }) => `${profile} ${id}`).join("\n");
}

/** Whether the other configuration might equally pick the recorded endpoint. */
function isTossUp(from: string, to: string, again: DecisionRecord): boolean {
  if (again.pickerByChance) return true;
  const totals = new Map(again.full!.endpoints.map(({ id, total }) => [id, total]));
  return totals.get(from) === totals.get(to);
}

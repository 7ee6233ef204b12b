import type {
  DecisionRecord,
  FullRecord,
  RecordedCandidate,
  RecordedFilter,
  RecordedScorer,
} from "../../base/inference/decision-record.ts";
import type { Endpoint, EndpointState } from "../../base/inference/endpoint.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { NumberRing } from "./number-ring.ts";
import type { Profile } from "./profile.ts";
import type { ProfileRun } from "./profile-run.ts";

/** Characters of a name or an id that a record keeps, if a client chose it. */
const KEPT_CHARACTERS = 256;
const STATES: readonly EndpointState[] = ["up", "blind", "down"];
/** Numbers per candidate before its scores: total, waiting, running, KV usage, in flight, age, freshness, state. */
const FIXED = 8;
/** More where replicas share their load: requests of peers, the age of what they said, and what they had sent since. */
const OF_PEERS = 3;

/** One decision, while its columns are still valid. */
export interface DecidedNow {
  readonly sequence: number;
  readonly request: InferenceRequest;
  /** Wall-clock milliseconds. */
  readonly at: number;
  /** Monotonic milliseconds of the decision; ages count up to it. */
  readonly now: number;
  readonly promptBytes: number;
  readonly configHash: string;
  /**
   * The run of the primary profile, or of the profile without a pick. Undefined when the request was refused before any run.
   */
  readonly run: ProfileRun | undefined;
  readonly candidates: number;
  readonly excludedDown: number;
  /** The screeners that dropped candidates. */
  readonly screened: readonly RecordedFilter[];
  /** Names of the plugins that failed. */
  readonly failed: readonly string[];
  /** Names of the producers whose data was not there in time. */
  readonly late: readonly string[];
  /** The endpoints of the result, in order: the record holds their numbers. */
  readonly listed: readonly Endpoint[];
  readonly others: DecisionRecord["others"];
  readonly refusal: Rejection | undefined;
  readonly full: FullRecord | undefined;
  readonly cache: DecisionRecord["cache"];
}

/**
 * Copies the data that explains a decision out of the columns, before the next decision overwrites them. Its numbers are in a
 * ring that all records share, and a read builds `top`. As objects, they would take most of the time of a decision, with their
 * garbage collection. When the store has dropped the record, `top` is empty.
 */
export class CompactRecord implements DecisionRecord {
  readonly sequence: number;
  readonly requestId: string;
  readonly at: number;
  readonly model: string;
  readonly targetModel: string;
  readonly priority: number;
  readonly promptBytes: number;
  readonly configHash: string;
  readonly profile: string;
  readonly picker: string;
  readonly pickerByChance: boolean;
  readonly candidates: number;
  readonly excludedDown: number;
  readonly filters: readonly RecordedFilter[];
  readonly scorers: readonly RecordedScorer[];
  readonly failed: readonly string[];
  readonly late: readonly string[] | undefined;
  readonly tied: number;
  readonly others: DecisionRecord["others"];
  readonly refusal: DecisionRecord["refusal"];
  served: DecisionRecord["served"] = undefined;
  queued: DecisionRecord["queued"] = undefined;
  cache: DecisionRecord["cache"];
  /** Removed earlier than the rest of the record, because only few records are full. */
  full: FullRecord | undefined;
  peerBlocks: number | undefined = undefined;
  readonly #listed: readonly Endpoint[];
  readonly #numbers: NumberRing;
  /** The numbers of this record: position of the first, and how many there are. */
  readonly #from: number;
  readonly #count: number;
  readonly #sharesLoad: boolean;

  /** @param numbers receives the numbers of the record */
  constructor(decided: DecidedNow, numbers: NumberRing) {
    const { request, run, listed, screened, refusal } = decided;
    this.sequence = decided.sequence;
    this.requestId = detached(shortened(request.id));
    this.at = decided.at;
    this.model = shortened(request.model);
    this.targetModel = shortened(request.targetModel);
    this.priority = request.priority;
    this.promptBytes = decided.promptBytes;
    this.configHash = decided.configHash;
    this.profile = run?.profile.name ?? "";
    this.picker = run?.profile.picker.name ?? "";
    this.pickerByChance = run?.profile.picker.plugin.byChance ?? false;
    this.candidates = decided.candidates;
    this.excludedDown = decided.excludedDown;
    const dropped = run?.dropped ?? screened;
    this.filters = screened.length === 0 || run === undefined ? dropped : [...screened, ...dropped];
    this.scorers = run === undefined ? NO_SCORERS : recordedScorers(run.profile);
    this.failed = decided.failed;
    this.late = decided.late.length === 0 ? undefined : decided.late;
    this.tied = run === undefined || listed.length === 0 ? 0 : run.tied;
    this.others = decided.others;
    this.refusal = refusal && { reason: refusal.reason, detail: shortened(refusal.detail) };
    this.full = decided.full;
    this.cache = decided.cache;
    this.#listed = listed;
    this.#numbers = numbers;
    this.#from = numbers.next;
    this.#sharesLoad = listed.length > 0 && listed[0]!.peers !== undefined;
    if (run !== undefined) addNumbers(numbers, run, listed, decided.now, this.#sharesLoad);
    this.#count = numbers.next - this.#from;
  }

  /** The position behind the last number of the record. */
  get behind(): number {
    return this.#from + this.#count;
  }

  get top(): readonly RecordedCandidate[] {
    const fixed = fixedOf(this.#sharesLoad);
    const stride = fixed + this.scorers.length;
    const numbers = this.#numbers.read(this.#from, this.#count);
    if (numbers === undefined) return [];
    return this.#listed.map(({ id, hostPort }, place) => {
      const start = place * stride;
      const [total, waiting, running, kvUsage, inFlight, ageMs, fresh, state] = numbers.slice(start, start + FIXED);
      return {
        id,
        hostPort,
        total: total!,
        scores: numbers.slice(start + fixed, start + stride),
        waiting: waiting!,
        running: running!,
        kvUsage: kvUsage!,
        inFlight: inFlight!,
        ...(this.#sharesLoad ? { peers: peersIn(numbers, start + FIXED) } : undefined),
        ageMs: ageMs!,
        stale: fresh === 0,
        state: STATES[state!]!,
      };
    });
  }

  /** Includes `top`: it is a getter of the class, which JSON would leave out. */
  toJSON(): DecisionRecord {
    return { ...this, top: this.top };
  }

  /**
   * Estimates the bytes that the record keeps alive, rounded up: two bytes per character, and endpoints as if no other record
   * shared them.
   */
  get estimatedBytes(): number {
    return (
      450 +
      2 * (this.requestId.length + this.model.length + this.targetModel.length) +
      (this.refusal === undefined ? 0 : 64 + 2 * this.refusal.detail.length) +
      FILTER_BYTES * this.filters.length +
      NAME_BYTES * (this.failed.length + (this.late?.length ?? 0)) +
      ENDPOINT_BYTES * this.others.length +
      8 * this.#count +
      ENDPOINT_BYTES * this.#listed.length
    );
  }
}

/** Eight ids, which belong to endpoints, and their array. */
const FILTER_BYTES = 256;
/** A pointer: the configuration owns the names. */
const NAME_BYTES = 8;
/** A pointer, and the parts of an endpoint that only records may keep alive. */
const ENDPOINT_BYTES = 256;

const NO_SCORERS: readonly RecordedScorer[] = [];

/** The numbers of one candidate. */
let row = new Float64Array(32);

function addNumbers(
  numbers: NumberRing,
  { columns, order, totals, scores }: ProfileRun,
  listed: readonly Endpoint[],
  now: number,
  sharesLoad: boolean,
): void {
  const fixed = fixedOf(sharesLoad);
  const stride = fixed + scores.length;
  numbers.reserve(listed.length * stride);
  if (row.length < stride) row = new Float64Array(2 * stride);
  const { waiting, running, kvUsage, fresh } = columns;
  for (let place = 0; place < listed.length; place++) {
    const i = order[place]!;
    const endpoint = listed[place]!;
    row[0] = totals[i]!;
    // The values that the scorers saw: the worst known value replaces a missing or stale one.
    row[1] = waiting[i]!;
    row[2] = running[i]!;
    row[3] = kvUsage[i]!;
    row[4] = endpoint.inFlight.requests;
    row[5] = now - endpoint.metrics.scrapedAt;
    row[6] = fresh[i]!;
    row[7] = STATES.indexOf(endpoint.state);
    if (sharesLoad) {
      row[FIXED] = endpoint.peers?.requests ?? 0;
      row[FIXED + 1] = endpoint.peers?.ageMs(now) ?? 0;
      row[FIXED + 2] = endpoint.peers?.unseen(now).requests ?? 0;
    }
    for (let s = 0; s < scores.length; s++) row[fixed + s] = scores[s]![i]!;
    numbers.push(row, stride);
  }
}

/** Numbers per candidate before its scores. */
function fixedOf(sharesLoad: boolean): number {
  return sharesLoad ? FIXED + OF_PEERS : FIXED;
}

function peersIn(numbers: readonly number[], at: number): RecordedCandidate["peers"] {
  return { inFlight: numbers[at]!, ageMs: numbers[at + 1]!, unseen: numbers[at + 2]! };
}

const scorersOf = new WeakMap<Profile, readonly RecordedScorer[]>();

/** All records of a profile share this list. */
function recordedScorers(profile: Profile): readonly RecordedScorer[] {
  let scorers = scorersOf.get(profile);
  if (scorers === undefined) {
    scorers = profile.scorers.map(({ name, weight }) => ({ name, weight }));
    scorersOf.set(profile, scorers);
  }
  return scorers;
}

/**
 * Shortens a name or an id for a record: clients choose the length, and a record must not keep a megabyte alive. The function
 * joins characters, because a slice would refer to the whole of `text`.
 */
export function shortened(text: string): string {
  if (text.length <= KEPT_CHARACTERS) return text;
  const codes: number[] = [];
  for (let i = 0; i < KEPT_CHARACTERS; i++) codes.push(text.charCodeAt(i));
  return String.fromCharCode(...codes);
}

/**
 * Returns the text as a string of its own. An id is a substring of the headers of its request, and V8 lets a substring refer to
 * the whole. So the function takes a substring of a new text that is one character longer.
 */
function detached(text: string): string {
  return ` ${text}`.slice(1);
}

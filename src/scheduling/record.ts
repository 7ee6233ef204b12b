import type { Endpoint, EndpointState } from "../inference/endpoint.ts";
import type { InferenceRequest } from "../inference/request.ts";
import type { DecisionRecord, RecordedCandidate, RecordedScorer } from "../inference/scheduling-result.ts";
import type { CandidateColumns } from "./candidates.ts";
import type { Profile } from "./profile.ts";

/** Characters kept of a name or an id that a client chose. */
const KEPT_CHARACTERS = 256;
const STATES: readonly EndpointState[] = ["up", "blind", "down"];
/** Numbers per candidate before its scores: total, waiting, running, KV usage, in flight, age, state. */
const FIXED = 7;

/** One decision, while its columns are still there. */
export interface DecidedNow {
  readonly sequence: number;
  readonly request: InferenceRequest;
  /** Wall-clock milliseconds. */
  readonly at: number;
  /** Monotonic milliseconds of the decision, which ages are counted from. */
  readonly now: number;
  readonly promptBytes: number;
  readonly profile: Profile;
  readonly candidates: number;
  readonly excludedDown: number;
  /** The endpoints of the result, in order: those that are recorded. */
  readonly listed: readonly Endpoint[];
  readonly columns: CandidateColumns;
  readonly order: Uint32Array;
  readonly totals: Float64Array;
  readonly scores: readonly Float64Array[];
  readonly tied: number;
}

/**
 * Copies what explains a decision out of the columns, which the next one overwrites. Its numbers lie in one array and
 * `top` is put together when somebody looks: as objects, most of a decision's time went into them and their collection.
 */
export class CompactRecord implements DecisionRecord {
  readonly sequence: number;
  readonly requestId: string;
  readonly at: number;
  readonly model: string;
  readonly targetModel: string;
  readonly priority: number;
  readonly promptBytes: number;
  readonly profile: string;
  readonly picker: string;
  readonly candidates: number;
  readonly excludedDown: number;
  readonly scorers: readonly RecordedScorer[];
  readonly tied: number;
  readonly #listed: readonly Endpoint[];
  readonly #numbers: number[];

  constructor(decided: DecidedNow) {
    const { request, profile, listed, columns, scores } = decided;
    this.sequence = decided.sequence;
    this.requestId = shortened(request.id);
    this.at = decided.at;
    this.model = shortened(request.model);
    this.targetModel = shortened(request.targetModel);
    this.priority = request.priority;
    this.promptBytes = decided.promptBytes;
    this.profile = profile.name;
    this.picker = profile.picker.name;
    this.candidates = decided.candidates;
    this.excludedDown = decided.excludedDown;
    this.scorers = recordedScorers(profile);
    this.tied = decided.tied;
    this.#listed = listed;
    const numbers = new Array<number>(listed.length * (FIXED + scores.length));
    let at = 0;
    for (let place = 0; place < listed.length; place++) {
      const i = decided.order[place]!;
      const endpoint = listed[place]!;
      numbers[at++] = decided.totals[i]!;
      // As the scorers saw them: a missing or stale value stands replaced by the worst known one.
      numbers[at++] = columns.waiting[i]!;
      numbers[at++] = columns.running[i]!;
      numbers[at++] = columns.kvUsage[i]!;
      numbers[at++] = endpoint.inFlight.requests;
      numbers[at++] = decided.now - endpoint.metrics.scrapedAt;
      numbers[at++] = STATES.indexOf(endpoint.state);
      for (let s = 0; s < scores.length; s++) numbers[at++] = scores[s]![i]!;
    }
    this.#numbers = numbers;
  }

  get top(): readonly RecordedCandidate[] {
    const stride = FIXED + this.scorers.length;
    return this.#listed.map(({ id, hostPort }, place) => {
      const start = place * stride;
      const [total, waiting, running, kvUsage, inFlight, ageMs, state] = this.#numbers.slice(start, start + FIXED);
      return {
        id,
        hostPort,
        total: total!,
        scores: this.#numbers.slice(start + FIXED, start + stride),
        waiting: waiting!,
        running: running!,
        kvUsage: kvUsage!,
        inFlight: inFlight!,
        ageMs: ageMs!,
        state: STATES[state!]!,
      };
    });
  }

  /** `top` is no property of the object itself, and JSON would leave it out. */
  toJSON(): DecisionRecord {
    return { ...this, top: this.top };
  }

  /** Bytes it keeps alive, rounded up: strings at two bytes per character, endpoints as if nobody shared them. */
  get estimatedBytes(): number {
    return (
      320 +
      2 * (this.requestId.length + this.model.length + this.targetModel.length) +
      8 * this.#numbers.length +
      ENDPOINT_BYTES * this.#listed.length
    );
  }
}

/** A pointer, and what of an endpoint may live on in records alone. */
const ENDPOINT_BYTES = 256;

const scorersOf = new WeakMap<Profile, readonly RecordedScorer[]>();

/** The list is the same for all records of a profile: they share it. */
function recordedScorers(profile: Profile): readonly RecordedScorer[] {
  let scorers = scorersOf.get(profile);
  if (scorers === undefined) {
    scorers = profile.scorers.map(({ name, weight }) => ({ name, weight }));
    scorersOf.set(profile, scorers);
  }
  return scorers;
}

/**
 * A name or an id as records keep it: clients choose how long theirs are, and a record must not keep a megabyte alive.
 * The cut is built from its characters because a slice would refer to the whole of `text`.
 */
export function shortened(text: string): string {
  if (text.length <= KEPT_CHARACTERS) return text;
  const codes: number[] = [];
  for (let i = 0; i < KEPT_CHARACTERS; i++) codes.push(text.charCodeAt(i));
  return String.fromCharCode(...codes);
}

import type { Study } from "../result.ts";

/** The results of recorded decisions, or of recorded traffic, under another configuration. Plain JSON. */
export interface ReplayStudy {
  /** Version of Sluice. */
  readonly version: string;
  /** Source and fingerprint of the other configuration. */
  readonly configuration: string;
  readonly configHash: string;
  readonly files: readonly ReplayedFile[];
  /** The unreadable items: their number, and the first of them. */
  readonly broken: { readonly count: number; readonly first: readonly BrokenItem[] };
  /** Undefined when the files hold no records. */
  readonly decisions: DecisionStudy | undefined;
  /** Undefined when no request of an access log can be replayed; then `notPlayed` says what the files hold instead. */
  readonly traffic: TrafficStudy | undefined;
  readonly notPlayed: readonly Counted[];
}

interface ReplayedFile {
  readonly name: string;
  readonly bytes: number;
  /** Lines, or members of a JSON array, that are not empty. */
  readonly items: number;
  /** The file is longer than the limit; the rest was not read. */
  readonly cut: boolean;
}

export interface BrokenItem {
  readonly file: string;
  /** `line 7`, or `member 7` of an array. */
  readonly place: string;
  readonly problem: string;
}

/** A thing with the number of its occurrences. */
export interface Counted {
  readonly what: string;
  readonly count: number;
}

/** Every recorded decision, replayed separately. */
export interface DecisionStudy {
  /** Different records within the limit. */
  readonly records: number;
  /** Records that occurred before. */
  readonly repeated: number;
  /** Records beyond the limit, not read. */
  readonly beyond: number;
  readonly replayed: number;
  /** The reasons why records were not replayed, the most frequent first. */
  readonly notReplayable: readonly Counted[];
  /** Wall-clock milliseconds of the first and the last replayed record. */
  readonly from: number;
  readonly to: number;
  /** Fingerprints of the configurations of the recorded decisions. */
  readonly decidedBy: readonly DecidedBy[];
  /** Routed in the record and in the replay, to different endpoints. */
  readonly elsewhere: number;
  /** Those of `elsewhere` in which both endpoints have equal scores, or the picker plugin draws by chance. */
  readonly tossUps: number;
  /** Same endpoint, but another profile (prefill, encode) chose a different one. */
  readonly otherProfiles: number;
  /** Refused in the record, routed in the replay. */
  readonly becameRouted: number;
  /** Routed in the record, refused in the replay. */
  readonly becameRefused: number;
  /** The most frequent moves; null = refused. */
  readonly moves: readonly Move[];
  /** Changes that `moves` does not contain. */
  readonly otherMoves: number;
  readonly endpoints: readonly EndpointPicks[];
  /** Endpoints beyond the limit. */
  readonly otherEndpoints: number;
  /** Picks of the most picked endpoint divided by those of the mean one; NaN without picks. */
  readonly maxToMean: { readonly before: number; readonly after: number };
  /** Data that the configuration reads and records lack: it counts as 0. */
  readonly missing: readonly Counted[];
  /** Headers that the configuration reads and that the records may lack: they count as absent. */
  readonly missingHeaders: readonly Counted[];
  /** Comparisons that depend on unknown data. */
  readonly doubtful: number;
  /** Further notes for the reader. */
  readonly notes: readonly string[];
  readonly examples: readonly ReplayExample[];
}

/** The decisions of one configuration, and whether a replay with that configuration gives the same decisions. */
export interface DecidedBy {
  /** "" when the record has none. */
  readonly configHash: string;
  readonly decisions: number;
  /** The source of that configuration; undefined = not found, so no check was possible. */
  readonly configuration: string | undefined;
  /** Of `decisions`, those whose replay with it is the same bit by bit. */
  readonly same: number;
  /** The difference in the first of the others. */
  readonly difference: string | undefined;
}

export interface Move {
  readonly from: string | null;
  readonly to: string | null;
  readonly count: number;
}

export interface EndpointPicks {
  readonly id: string;
  readonly before: number;
  readonly after: number;
}

export interface ReplayExample {
  readonly sequence: number;
  readonly requestId: string;
  readonly before: string;
  readonly after: string;
}

/** Recorded traffic, replayed with simulated servers. */
export interface TrafficStudy {
  readonly log: LogSummary;
  readonly study: Study;
}

/** The contents of an access log, and the assumptions about it. */
export interface LogSummary {
  /** Replayed requests. */
  readonly requests: number;
  /** Usable requests beyond the limit of requests or of time. */
  readonly beyond: number;
  /** Entries that are not replayed, by reason, the most frequent first. */
  readonly skipped: readonly Counted[];
  /** Wall-clock milliseconds of the first arrival; 0 when the log has relative times. */
  readonly from: number;
  readonly durationMs: number;
  /** Requests per second. */
  readonly rate: number;
  /** Recorded milliseconds from the arrival to the last byte; undefined when the log has no durations. */
  readonly recorded: { readonly p50: number; readonly p90: number; readonly p99: number } | undefined;
  /** Requests by recorded upstream, the busiest first. */
  readonly upstreams: readonly Counted[];
  readonly sessions: number;
  readonly models: readonly Counted[];
  /** Mean lengths in tokens. */
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Number of requests with a guessed length. */
  readonly guessedPrompts: number;
  readonly guessedOutputs: number;
  readonly notes: readonly string[];
}

/** Counts occurrences of at most so many different things. Further things share one count. */
export class Counts {
  readonly #most: number;
  readonly #counts = new Map<string, number>();
  #others = 0;

  /** @param most different things, >= 1 */
  constructor(most: number) {
    this.#most = most;
  }

  /** Number of different things with their own count. */
  get size(): number {
    return this.#counts.size;
  }

  add(what: string, count = 1): void {
    const before = this.#counts.get(what);
    if (before === undefined && this.#counts.size >= this.#most) this.#others += count;
    else this.#counts.set(what, (before ?? 0) + count);
  }

  /** The counts, most frequent first. @param others name of the shared count */
  list(others = "others"): readonly Counted[] {
    const counted = [...this.#counts].map(([what, count]) => ({ what, count }));
    counted.sort((a, b) => b.count - a.count || (a.what < b.what ? -1 : 1));
    return this.#others === 0 ? counted : [...counted, { what: others, count: this.#others }];
  }
}

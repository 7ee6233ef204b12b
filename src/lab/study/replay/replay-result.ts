import type { Study } from "../result.ts";

/** What recorded decisions, or recorded traffic, come to under another configuration. Plain JSON. */
export interface ReplayStudy {
  /** Of Sluice. */
  readonly version: string;
  /** Where the other configuration came from, and its fingerprint. */
  readonly configuration: string;
  readonly configHash: string;
  readonly files: readonly ReplayedFile[];
  /** What could not be read: how many, and the first of them. */
  readonly broken: { readonly count: number; readonly first: readonly BrokenItem[] };
  /** Undefined where the files hold none. */
  readonly decisions: DecisionStudy | undefined;
  /** Undefined where no request of an access log can be played; then `notPlayed` says what there was instead. */
  readonly traffic: TrafficStudy | undefined;
  readonly notPlayed: readonly Counted[];
}

interface ReplayedFile {
  readonly name: string;
  readonly bytes: number;
  /** Lines, or members of a JSON array, that were not empty. */
  readonly items: number;
  /** It is larger than is read; the rest was not looked at. */
  readonly cut: boolean;
}

export interface BrokenItem {
  readonly file: string;
  /** `line 7`, or `member 7` of an array. */
  readonly place: string;
  readonly problem: string;
}

/** Something with how often it occurred. */
export interface Counted {
  readonly what: string;
  readonly count: number;
}

/** Every recorded decision made again, each by itself. */
export interface DecisionStudy {
  /** Different records, but for those behind the bound. */
  readonly records: number;
  /** Given more than once. */
  readonly repeated: number;
  /** Behind the bound, not looked at. */
  readonly beyond: number;
  readonly replayed: number;
  /** Why the others were not, the most frequent first. */
  readonly notReplayable: readonly Counted[];
  /** Wall-clock milliseconds of the first and the last replayed one. */
  readonly from: number;
  readonly to: number;
  /** Fingerprints of the configurations that decided. */
  readonly decidedBy: readonly DecidedBy[];
  /** Routed then and now, to another endpoint. */
  readonly elsewhere: number;
  /** Of those: it might as well have stayed, since both are equal to the configuration, or its picker draws lots. */
  readonly tossUps: number;
  /** Same endpoint, but another profile (prefill, encode) chose otherwise. */
  readonly otherProfiles: number;
  /** Refused then, routed now. */
  readonly becameRouted: number;
  /** Routed then, refused now. */
  readonly becameRefused: number;
  /** The most frequent moves; null = refused. */
  readonly moves: readonly Move[];
  /** Changes that are not among them. */
  readonly otherMoves: number;
  readonly endpoints: readonly EndpointPicks[];
  /** Endpoints behind the bound. */
  readonly otherEndpoints: number;
  /** Picks of the most picked endpoint by those of the mean one; NaN without picks. */
  readonly maxToMean: { readonly before: number; readonly after: number };
  /** Data that the configuration reads and records lack: it counted as 0. */
  readonly missing: readonly Counted[];
  /** Headers that the configuration reads and that the records may lack: they counted as absent. */
  readonly missingHeaders: readonly Counted[];
  /** Comparisons in which something counted that was not known. */
  readonly doubtful: number;
  /** What else a reader has to know. */
  readonly notes: readonly string[];
  readonly examples: readonly ReplayExample[];
}

/** The decisions of one configuration, and whether its own decisions come out the same when they are made again. */
export interface DecidedBy {
  /** "" where nobody gave one. */
  readonly configHash: string;
  readonly decisions: number;
  /** Where that configuration was found; undefined = nowhere, so that nothing could be checked. */
  readonly configuration: string | undefined;
  /** Of `decisions`, those that came out bit by bit the same with it. */
  readonly same: number;
  /** In what the first of the others differed. */
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

/** Recorded traffic played against simulated servers. */
export interface TrafficStudy {
  readonly log: LogSummary;
  readonly study: Study;
}

/** What an access log holds, and what had to be assumed. */
export interface LogSummary {
  /** Requests that are played. */
  readonly requests: number;
  /** Usable ones behind the bound of requests or of time. */
  readonly beyond: number;
  /** What is not played, and why, the most frequent first. */
  readonly skipped: readonly Counted[];
  /** Wall-clock milliseconds of the first arrival; 0 where the log counts from its own beginning. */
  readonly from: number;
  readonly durationMs: number;
  /** Requests per second. */
  readonly rate: number;
  /** Recorded milliseconds from the arrival to the last byte; undefined where the log has none. */
  readonly recorded: { readonly p50: number; readonly p90: number; readonly p99: number } | undefined;
  /** Requests by recorded upstream, the busiest first. */
  readonly upstreams: readonly Counted[];
  readonly sessions: number;
  readonly models: readonly Counted[];
  /** Means. */
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** In how many requests a length is a guess. */
  readonly guessedPrompts: number;
  readonly guessedOutputs: number;
  readonly notes: readonly string[];
}

/** How often what occurred, for no more than so many different things; the rest is counted together. */
export class Counts {
  readonly #most: number;
  readonly #counts = new Map<string, number>();
  #others = 0;

  /** @param most different things, >= 1 */
  constructor(most: number) {
    this.#most = most;
  }

  /** Different things, at most as many as are told apart. */
  get size(): number {
    return this.#counts.size;
  }

  add(what: string, count = 1): void {
    const before = this.#counts.get(what);
    if (before === undefined && this.#counts.size >= this.#most) this.#others += count;
    else this.#counts.set(what, (before ?? 0) + count);
  }

  /** The most frequent first. @param others how those are called that were not told apart */
  list(others = "others"): readonly Counted[] {
    const counted = [...this.#counts].map(([what, count]) => ({ what, count }));
    counted.sort((a, b) => b.count - a.count || (a.what < b.what ? -1 : 1));
    return this.#others === 0 ? counted : [...counted, { what: others, count: this.#others }];
  }
}

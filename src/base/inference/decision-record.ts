import type { Endpoint, EndpointMetrics, EndpointState } from "./endpoint.ts";
import type { OutcomeReason } from "./outcomes.ts";

/** One scorer's part in a decision. */
export interface RecordedScorer {
  readonly name: string;
  readonly weight: number;
}

/** One candidate of a decision, as it was seen at that moment. */
export interface RecordedCandidate {
  readonly id: string;
  readonly hostPort: string;
  /** Weighted sum. */
  readonly total: number;
  /** Raw score 0..1 per scorer, in the order of `DecisionRecord.scorers`. */
  readonly scores: readonly number[];
  readonly waiting: number;
  readonly running: number;
  readonly kvUsage: number;
  readonly inFlight: number;
  /** Age of the metrics in milliseconds; Infinity when never scraped. */
  readonly ageMs: number;
  /** The metrics were too old to be believed: in their place stand the worst known values. */
  readonly stale: boolean;
  readonly state: string;
}

/** A screener or filter that left somebody out. */
export interface RecordedFilter {
  /** Instance name. */
  readonly name: string;
  readonly dropped: number;
  /** Ids of those it dropped, at most eight. */
  readonly ids: readonly string[];
}

/** Another endpoint than the one that was decided on. */
interface ServedElsewhere {
  readonly id: string;
  readonly hostPort: string;
}

/**
 * Why a request went where it went, or why it went nowhere. Holds no prompt text, no header but the request id, and at most
 * eight candidates.
 */
export interface DecisionRecord {
  /** Its own number, from 1 up: the id of the record. */
  readonly sequence: number;
  readonly requestId: string;
  /** Wall-clock milliseconds. */
  readonly at: number;
  readonly model: string;
  readonly targetModel: string;
  readonly priority: number;
  /** Bytes of the prompt that were hashed. */
  readonly promptBytes: number;
  /** Fingerprint of the configuration in force; "" where nobody gave one. */
  readonly configHash: string;
  /** The primary profile; "" when it was refused before one ran. */
  readonly profile: string;
  readonly picker: string;
  /** Whether the picker draws by chance even where totals differ. */
  readonly pickerByChance: boolean;
  /** Candidates before filters. */
  readonly candidates: number;
  /** Endpoints left out before scheduling because they are down. */
  readonly excludedDown: number;
  /** Screeners and filters that left somebody out, in the order in which they ran; empty when none did. */
  readonly filters: readonly RecordedFilter[];
  readonly scorers: readonly RecordedScorer[];
  /** Plugins that failed and were left out, by instance name, at most eight; empty when none did. */
  readonly failed: readonly string[];
  /** The best eight in the order the picker left them; the first is the pick. Empty when the request was refused. */
  readonly top: readonly RecordedCandidate[];
  /** How many shared the best total, the pick included: above 1 chance decided. */
  readonly tied: number;
  /** What other profiles chose: name of the profile, id of its first endpoint. */
  readonly others: readonly { readonly profile: string; readonly id: string }[];
  /** Why it was refused; undefined when it was routed. */
  readonly refusal: { readonly reason: OutcomeReason; readonly detail: string } | undefined;
  /**
   * Who answered where it was not the first of `top`, which could not be reached or was passed over; "nobody" when every
   * attempt failed. Undefined otherwise, and until it is known: it is set when the answer begins.
   */
  served: ServedElsewhere | "nobody" | undefined;
  /** Everything the decision depended on, where it was recorded. */
  readonly full: FullRecord | undefined;
}

/** An endpoint as a full record keeps it: all that plugins may read of it. */
export interface RecordedEndpoint {
  readonly id: string;
  readonly slot: number;
  readonly namespace: string;
  readonly name: string;
  readonly address: string;
  readonly port: number;
  readonly hostPort: string;
  readonly rank: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly state: EndpointState;
  readonly scrapeInterval: number;
  readonly inFlight: { readonly requests: number; readonly tokens: number };
  readonly metrics: EndpointMetrics;
  /** Which screener or filter of the primary profile dropped it; undefined when it was scored. */
  readonly droppedBy: string | undefined;
  /** Weighted sum; NaN when it was not scored. */
  readonly total: number;
  /** Per scorer of the primary profile; empty when it was not scored. */
  readonly scores: readonly number[];
}

/** Everything a decision depended on: fed to the same profiles it gives the same pick, bit by bit. */
export interface FullRecord {
  /** Monotonic milliseconds of the decision. */
  readonly now: number;
  /** State of the generator of chance when the producers had run, or before the decision where none did. */
  readonly randomState: number;
  /** What pickers remembered, by name of the picker. */
  readonly memories: Readonly<Record<string, number>>;
  readonly request: {
    readonly objective: string;
    readonly fairnessId: string;
    readonly streaming: boolean;
    readonly maxTokens: number;
    readonly shedAt: number;
    /** As received. */
    readonly promptBytes: number;
    /** How many of them only escapes add. */
    readonly escapeBytes: number;
    /** What was known of the model's text at that moment. */
    readonly bytesPerToken: number;
    /** Those that plugins of the configuration declare to read, lower-case name and value. */
    readonly headers: readonly (readonly [string, string])[];
  };
  /** Milliseconds after which metrics counted as stale. */
  readonly staleness: number;
  /** All candidates, before screeners. */
  readonly endpoints: readonly RecordedEndpoint[];
  /** Places in `endpoints` of those that the screeners left. */
  readonly screened: readonly number[];
  /** What producers wrote: `producer/key`, one number per candidate that was left by the screeners. */
  readonly columns: Readonly<Record<string, readonly number[]>>;
  /**
   * The same for request attributes; only numbers, booleans and the length of a tokenized prompt are kept, since texts may be
   * the client's.
   */
  readonly attributes: Readonly<Record<string, number | boolean>>;
}

/** Load that a request puts on an endpoint besides the one that answers it. */
export interface SideLoad {
  readonly endpoint: Endpoint;
  /** Prompt tokens it must compute. */
  readonly uncachedTokens: number;
}

/** What scheduling answers: endpoints in order of preference, at least one, at most eight. */
export interface SchedulingResult {
  readonly endpoints: readonly Endpoint[];
  /** Prompt tokens the first endpoint must compute, by the estimate of the in-flight load producer. */
  readonly uncachedTokens: number;
  /** They stay with it until the end of the answer: they include what is yet to be generated. Else until its first byte. */
  readonly keepsTokens?: boolean | undefined;
  readonly record: DecisionRecord;
  /** Where several profiles may run: what each that ran chose, by its name, the primary one included. */
  readonly profiles?: ReadonlyMap<string, readonly Endpoint[]> | undefined;
  /** The first endpoints of the other profiles: they work for this request too, until the answer begins. */
  readonly sideLoads?: readonly SideLoad[] | undefined;
  /** Weighted sum of every endpoint that was scored, by `ip:port`, where the scheduler was told to keep them. */
  readonly scores?: Readonly<Record<string, number>> | undefined;
  /** Tells the plugins that another endpoint than the first got the request. */
  readonly moved?: ((endpoint: Endpoint) => void) | undefined;
}

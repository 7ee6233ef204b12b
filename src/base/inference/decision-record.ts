import type { AnswerListener } from "./cache-report.ts";
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
  /** With the requests of peers. */
  readonly inFlight: number;
  /**
   * The requests of `inFlight` that other replicas of this picker have sent. The age of what they said, in milliseconds: of the
   * replica with load there that was silent longest. And the further requests that they had probably sent by then, which counted,
   * too. Absent where no replicas share their load.
   */
  readonly peers?: { readonly inFlight: number; readonly ageMs: number; readonly unseen: number } | undefined;
  /** Age of the metrics in milliseconds; Infinity when never scraped. */
  readonly ageMs: number;
  /** The metrics were stale: the worst known values replace them. */
  readonly stale: boolean;
  readonly state: string;
}

/** The name of the choice by model among the filters of a decision record. */
export const SERVED_MODELS = "served-models";

/** A screener or filter that left out a candidate, or the choice by model. */
export interface RecordedFilter {
  /** Instance name, or `SERVED_MODELS`. */
  readonly name: string;
  readonly dropped: number;
  /** Ids of the candidates that it dropped, at most eight. */
  readonly ids: readonly string[];
}

/** The endpoint that served, when it is not the chosen one. */
interface ServedElsewhere {
  readonly id: string;
  readonly hostPort: string;
}

/** The wait of a request in flow control. */
export interface RecordedWait {
  /** Priority of the band that held it. */
  readonly band: number;
  readonly fairnessId: string;
  /** Requests of the band, and of the bands above it, that were queued when it came. */
  readonly behind: number;
  /** Milliseconds. */
  readonly waitedMs: number;
  /** Why it was let go: the saturation of the pool at that moment, and the ceiling of its band. NaN when it was refused. */
  readonly saturation: number;
  readonly ceiling: number;
}

/** How much of the prompt the endpoint had in its cache, in tokens, by each source that knows it; NaN = it does not. */
export interface RecordedCache {
  /** By what was routed there before (`approx-prefix-cache-producer`). */
  predicted: number;
  /** By its KV-cache events (`precise-prefix-cache-producer`), and what its events have not confirmed yet. */
  events: number;
  /** Those of `events` that Sluice only expects, since it routed a request with them there; absent = none. */
  unconfirmed?: number | undefined;
  /** By the answer. */
  reported: number;
  /** The whole prompt, by the answer. */
  prompt: number;
}

/**
 * Why a request went to its endpoint, or why it went nowhere. Holds no prompt text, no header but the request id, and at most
 * eight candidates.
 */
export interface DecisionRecord {
  /** Number of the record, from 1 up: its id. */
  readonly sequence: number;
  readonly requestId: string;
  /** Wall-clock milliseconds. */
  readonly at: number;
  readonly model: string;
  readonly targetModel: string;
  readonly priority: number;
  /** Bytes of the prompt that were hashed. */
  readonly promptBytes: number;
  /** Fingerprint of the configuration in force; "" where none was given. */
  readonly configHash: string;
  /** The primary profile; "" when the request was refused before one ran. */
  readonly profile: string;
  readonly picker: string;
  /** Whether the picker draws by chance even where totals differ. */
  readonly pickerByChance: boolean;
  /** Candidates before filters. */
  readonly candidates: number;
  /** Endpoints left out before scheduling because they are down. */
  readonly excludedDown: number;
  /** Screeners and filters that left out a candidate, in the order in which they ran; empty when none did. */
  readonly filters: readonly RecordedFilter[];
  readonly scorers: readonly RecordedScorer[];
  /** Plugins that failed and were left out, by instance name, at most eight; empty when none did. */
  readonly failed: readonly string[];
  /**
   * Producers whose data was not there in time, or for which too many requests waited, by instance name, at most eight. The
   * decision did without their data. Undefined when there were none.
   */
  readonly late?: readonly string[] | undefined;
  /** The best eight in the picker's order; the first is the pick. Empty when the request was refused. */
  readonly top: readonly RecordedCandidate[];
  /** How many candidates shared the best total, the pick included: above 1 chance decided. */
  readonly tied: number;
  /** Choices of the other profiles: name of the profile, id of its first endpoint. */
  readonly others: readonly { readonly profile: string; readonly id: string }[];
  /** Why the request was refused; undefined when it was routed. */
  readonly refusal: { readonly reason: OutcomeReason; readonly detail: string } | undefined;
  /**
   * The endpoint that answered when the first of `top` could not be reached or was passed over; "nobody" when every attempt
   * failed. Undefined otherwise, and until the answer begins.
   */
  served: ServedElsewhere | "nobody" | undefined;
  /** Undefined where the request did not wait in a queue. */
  queued: RecordedWait | undefined;
  /**
   * Of the endpoint that serves. The last two come with the end of the answer. Undefined where no producer knows of caches, where
   * several profiles ran, and when the request was refused.
   */
  cache: RecordedCache | undefined;
  /**
   * The blocks of the prompt that the pick held by what other replicas of this picker said, and not by what this one knew. Absent
   * where there are none.
   */
  peerBlocks?: number | undefined;
  /** All inputs of the decision, where they were recorded. */
  readonly full: FullRecord | undefined;
}

/** An endpoint in a full record: all of it that plugins may read. */
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
  /** As of `Endpoint`. */
  readonly attributes?: ReadonlyMap<string, number> | undefined;
  readonly listedModels?: readonly string[] | undefined;
  readonly node?: string | undefined;
  /** The screener or filter of the primary profile that dropped it; undefined when it was scored. */
  readonly droppedBy: string | undefined;
  /** Weighted sum; NaN when it was not scored. */
  readonly total: number;
  /** Per scorer of the primary profile; empty when it was not scored. */
  readonly scores: readonly number[];
}

/** All inputs of a decision. The same profiles pick the same endpoint from them, bit by bit. */
export interface FullRecord {
  /** Monotonic milliseconds of the decision. */
  readonly now: number;
  /** State of the generator of chance when the producers had run, or before the decision where none did. */
  readonly randomState: number;
  /** The memory of pickers, by name of the picker. */
  readonly memories: Readonly<Record<string, number>>;
  readonly request: {
    readonly objective: string;
    readonly fairnessId: string;
    readonly streaming: boolean;
    readonly maxTokens: number;
    readonly shedAt: number;
    /** As received. */
    readonly promptBytes: number;
    /** How many of these bytes only escapes add. */
    readonly escapeBytes: number;
    /** The bytes per token that were known of the model at that moment. */
    readonly bytesPerToken: number;
    /** Headers that plugins of the configuration declare to read, lower-case name and value. */
    readonly headers: readonly (readonly [string, string])[];
  };
  /** Milliseconds after which metrics counted as stale. */
  readonly staleness: number;
  /** All candidates, before screeners. */
  readonly endpoints: readonly RecordedEndpoint[];
  /** Places in `endpoints` of the candidates that the screeners left. */
  readonly screened: readonly number[];
  /** Columns of the producers: `producer/key`, one number per candidate that the screeners left. */
  readonly columns: Readonly<Record<string, readonly number[]>>;
  /**
   * The same for request attributes. Only numbers, booleans and the length of a tokenized prompt are kept, since texts may be
   * the client's. Null: no producer wrote it.
   */
  readonly attributes: Readonly<Record<string, number | boolean | null>>;
}

/** Load that a request puts on an endpoint besides the one that answers it. */
export interface SideLoad {
  readonly endpoint: Endpoint;
  /** Prompt tokens that the endpoint must compute. */
  readonly uncachedTokens: number;
}

/** The answer of scheduling: endpoints in order of preference, at least one, at most eight. */
export interface SchedulingResult {
  readonly endpoints: readonly Endpoint[];
  /** Prompt tokens the first endpoint must compute, by the estimate of the in-flight load producer. */
  readonly uncachedTokens: number;
  /**
   * The tokens stay with the endpoint until the end of the answer, because they include tokens yet to be generated. Otherwise
   * they stay until its first byte.
   */
  readonly keepsTokens?: boolean | undefined;
  readonly record: DecisionRecord;
  /** Where several profiles may run: the endpoints of each that ran, by its name, the primary one included. */
  readonly profiles?: ReadonlyMap<string, readonly Endpoint[]> | undefined;
  /** The first endpoints of the other profiles: they work for this request too, until the answer begins. */
  readonly sideLoads?: readonly SideLoad[] | undefined;
  /** The address that gets the request for the first endpoint: that of a sidecar beside it. Absent = the endpoint's own. */
  readonly via?: string | undefined;
  /** Weighted sum of every endpoint that was scored, by `ip:port`, where the scheduler is set to keep them. */
  readonly scores?: Readonly<Record<string, number>> | undefined;
  /** Reports to the plugins that another endpoint than the first got the request. */
  readonly moved?: ((endpoint: Endpoint) => void) | undefined;
  /** Hears of the answer. */
  readonly listener?: Required<AnswerListener> | undefined;
}

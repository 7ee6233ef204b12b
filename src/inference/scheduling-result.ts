import type { Endpoint } from "./endpoint.ts";

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
  readonly state: string;
}

/**
 * Why a request went where it went. Holds no prompt text, no header but the request id, and at most eight candidates.
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
  readonly profile: string;
  readonly picker: string;
  /** Candidates before filters. */
  readonly candidates: number;
  /** Endpoints left out before scheduling because they are down. */
  readonly excludedDown: number;
  readonly scorers: readonly RecordedScorer[];
  /** The best eight in the order the picker left them; the first is the pick. */
  readonly top: readonly RecordedCandidate[];
  /** How many shared the best total, the pick included: above 1 chance decided. */
  readonly tied: number;
}

/** What scheduling answers: endpoints in order of preference, at least one, at most eight. */
export interface SchedulingResult {
  readonly endpoints: readonly Endpoint[];
  /** Prompt tokens the first endpoint must compute, by the estimate of the in-flight load producer. */
  readonly uncachedTokens: number;
  readonly record: DecisionRecord;
  /** Weighted sum of every endpoint that was scored, by `ip:port`, where the scheduler was told to keep them. */
  readonly scores?: Readonly<Record<string, number>> | undefined;
  /** Tells the plugins that another endpoint than the first got the request. */
  readonly moved?: ((endpoint: Endpoint) => void) | undefined;
}

import type { Outcome } from "./overview.ts";

/** One decision in a list. */
export interface DecisionRow {
  readonly sequence: number;
  readonly requestId: string;
  readonly at: number;
  readonly model: string;
  readonly targetModel: string;
  readonly priority: number;
  /** Name of the caller's key or token; null = none, or the process has no keys. Never the key. */
  readonly key: string | null;
  /** The chosen endpoint, null = refused. */
  readonly endpoint: string | null;
  /** The one that answered, where it is another; `nobody` = every attempt failed. */
  readonly served: string | null;
  /** Reason of the refusal. */
  readonly refused: string | null;
  /** Why, in one sentence without the id. */
  readonly why: string;
  /** Weighted totals of the pick and of the runner-up; null = none. */
  readonly total: number | null;
  readonly runnerUp: { readonly id: string; readonly total: number } | null;
  readonly candidates: number;
  /** Milliseconds in flow control; 0 = did not wait. */
  readonly waitedMs: number;
  readonly journey: JourneyRow;
  /** Whether the record has all inputs, so that it can be replayed. */
  readonly full: boolean;
}

/** How far a request has come. Null = not yet, or not known. */
export interface JourneyRow {
  /** Undefined while it runs. `lost`: the figures are no longer kept. */
  readonly outcome: Outcome | "running" | "lost";
  /** HTTP status of the answer, of the model server or of Sluice. */
  readonly status: number | null;
  readonly ttftMs: number | null;
  readonly durationMs: number | null;
  readonly promptTokens: number | null;
  readonly cachedTokens: number | null;
  readonly outputTokens: number | null;
  /** Attempts at endpoints. */
  readonly attempts: number;
}

/** The answer of `/debug/feed/decisions`, the newest first. */
export interface DecisionsFeed {
  readonly rows: readonly DecisionRow[];
  /** Give it as `before` for the next page; null = there are no older ones. */
  readonly next: number | null;
  readonly kept: { readonly count: number; readonly most: number; readonly oldestAt: number | null };
  /** Request ids with the start `q`, when several have it, at most 10. */
  readonly alike: readonly string[];
}

/** The answer of `/debug/feed/decision`. */
export interface DecisionDetail {
  readonly row: DecisionRow;
  /** As `/debug/decisions/ID`: `Explanation` of src/picker/decisions/explain.ts. */
  readonly explanation: ExplanationJson;
  /**
   * The record as `recordJson` of src/picker/decisions/explain-record.ts writes it; with its part `full` it can be replayed.
   * NaN, the infinities and -0 are texts in it.
   */
  readonly record: RecordJson;
  readonly journey: Journey;
  /** Whether the configuration of the decision is still in force. */
  readonly configInForce: boolean;
}

export type ExplanationJson = import("../../../picker/decisions/explain.ts").Explanation;
export type RecordJson = Readonly<Record<string, unknown>>;

/** The way of a request. */
export interface Journey extends JourneyRow {
  readonly requestId: string;
  /** The arrival of its headers. */
  readonly receivedAt: number | null;
  /** In order of time. */
  readonly steps: readonly JourneyStep[];
  readonly streaming: boolean;
}

export interface JourneyStep {
  readonly kind:
    | "received"
    | "queued"
    | "left-queue"
    | "decided"
    | "refused"
    | "attempt"
    | "attempt-failed"
    | "first-token"
    | "end";
  /** Milliseconds since `received`. */
  readonly ms: number;
  readonly endpoint: string | null;
  /** For people: the cause of a failure, the wait, the outcome. */
  readonly text: string;
}

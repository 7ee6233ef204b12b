import type { EndCause } from "../../exchange/wire.ts";

/** How a request ended, from what its exchange knows. */
export type TrafficOutcome =
  | "answered"
  | "server-error"
  | "refused"
  | "cancelled"
  | "interrupted"
  | "unfollowed"
  | "failed";

export const TRAFFIC_OUTCOMES: readonly TrafficOutcome[] = [
  "answered",
  "server-error",
  "refused",
  "cancelled",
  "interrupted",
  "unfollowed",
  "failed",
];

/** @param succeeded whether the model server answered with a status of 2xx; undefined = it did not answer */
export function outcomeOf(cause: EndCause, succeeded: boolean | undefined): TrafficOutcome {
  switch (cause) {
    case "complete":
      // A complete exchange without an answer of a model server: the proxy answered in its place.
      return succeeded === true ? "answered" : "server-error";
    case "client-gone":
      return "cancelled";
    case "interrupted":
      return "interrupted";
    case "no-response-phase":
      return "unfollowed";
    case "rejected":
      return "refused";
    case "error":
      return "failed";
  }
}

/** A failed attempt, or an answer that began. Milliseconds are monotonic. */
export interface JourneyAttempt {
  readonly endpoint: string;
  readonly at: number;
  /** Undefined = it answered. */
  readonly failure: string | undefined;
}

/** The way of one request beside its decision record. Times are monotonic milliseconds; NaN = not yet, or not known. */
export interface JourneyState {
  readonly sequence: number;
  readonly receivedAt: number;
  readonly decidedAt: number;
  readonly caller: string | undefined;
  /** Id of the chosen endpoint; "" = refused. */
  readonly endpoint: string;
  readonly streaming: boolean;
  readonly attempts: readonly JourneyAttempt[];
  readonly firstByteAt: number;
  readonly endedAt: number;
  /** Undefined while it runs. */
  readonly outcome: TrafficOutcome | undefined;
  /** HTTP status; 0 = none yet. */
  readonly status: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
}

type Writable<T> = { -readonly [K in keyof T]: T[K] };

const NO_ATTEMPTS: readonly JourneyAttempt[] = [];
/** The most attempts kept for one request. */
const MAX_ATTEMPTS = 16;
const MAX_TEXT = 256;

/** The ways of the last requests that were decided about: one for each decision record that the process keeps. */
export class Journeys {
  readonly #ring: (Writable<JourneyState> | undefined)[];

  constructor(capacity: number) {
    this.#ring = new Array<Writable<JourneyState> | undefined>(capacity).fill(undefined);
  }

  /** A text of the ring: names of keys are the operator's, but of tokens an issuer's. */
  decided(
    sequence: number,
    begin: Pick<JourneyState, "receivedAt" | "decidedAt" | "caller" | "endpoint" | "streaming">,
  ): void {
    const { receivedAt, decidedAt, caller, endpoint, streaming } = begin;
    this.#ring[sequence % this.#ring.length] = {
      sequence,
      receivedAt,
      decidedAt,
      caller: caller === undefined || caller.length <= MAX_TEXT ? caller : caller.slice(0, MAX_TEXT),
      endpoint,
      streaming,
      attempts: NO_ATTEMPTS,
      firstByteAt: Number.NaN,
      endedAt: Number.NaN,
      outcome: undefined,
      status: 0,
      promptTokens: Number.NaN,
      cachedTokens: Number.NaN,
      outputTokens: Number.NaN,
    };
  }

  /** Undefined when it is no longer kept. */
  of(sequence: number): JourneyState | undefined {
    return this.#find(sequence);
  }

  attempted(sequence: number, attempt: JourneyAttempt): void {
    const found = this.#find(sequence);
    if (found === undefined || found.attempts.length >= MAX_ATTEMPTS) return;
    found.attempts = [...found.attempts, attempt];
  }

  /** @param change what is known at the end, or at the first byte */
  change(sequence: number, change: Partial<Omit<JourneyState, "sequence" | "attempts">>): void {
    const found = this.#find(sequence);
    if (found !== undefined) Object.assign(found, change);
  }

  #find(sequence: number): Writable<JourneyState> | undefined {
    const found = this.#ring[sequence % this.#ring.length];
    return found?.sequence === sequence ? found : undefined;
  }
}

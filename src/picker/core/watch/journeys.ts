import type { ObservedDecision } from "../../exchange/exchange-observer.ts";
import type { TrafficOutcome } from "./traffic-outcome.ts";

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

/** What is known at the end. */
type JourneyEnd = Pick<
  JourneyState,
  "endedAt" | "outcome" | "status" | "streaming" | "firstByteAt" | "promptTokens" | "outputTokens" | "cachedTokens"
>;

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

  /** A request begins its way. @param decidedAt monotonic milliseconds */
  decided({ record, endpoint, receivedAt, caller, streaming }: ObservedDecision, decidedAt: number): void {
    const { sequence } = record;
    this.#ring[sequence % this.#ring.length] = {
      sequence,
      receivedAt,
      decidedAt,
      // The operator chooses the names of keys, but an issuer those of tokens.
      caller: caller === undefined || caller.length <= MAX_TEXT ? caller : caller.slice(0, MAX_TEXT),
      endpoint: endpoint?.id ?? "",
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
    if (found !== undefined) add(found, attempt);
  }

  /** The first byte of the answer has come. */
  answered(sequence: number, endpoint: string, at: number): void {
    const found = this.#find(sequence);
    if (found === undefined) return;
    add(found, { endpoint, at, failure: undefined });
    found.firstByteAt = at;
  }

  ended(sequence: number, end: JourneyEnd): void {
    const found = this.#find(sequence);
    if (found === undefined) return;
    // Each request comes by here: Object.assign takes several times as long.
    found.endedAt = end.endedAt;
    found.outcome = end.outcome;
    found.status = end.status;
    found.streaming = end.streaming;
    found.firstByteAt = end.firstByteAt;
    found.promptTokens = end.promptTokens;
    found.outputTokens = end.outputTokens;
    found.cachedTokens = end.cachedTokens;
  }

  #find(sequence: number): Writable<JourneyState> | undefined {
    const found = this.#ring[sequence % this.#ring.length];
    return found?.sequence === sequence ? found : undefined;
  }
}

function add(journey: Writable<JourneyState>, attempt: JourneyAttempt): void {
  const { attempts } = journey;
  if (attempts.length < MAX_ATTEMPTS) journey.attempts = attempts.length === 0 ? [attempt] : [...attempts, attempt];
}

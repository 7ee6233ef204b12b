import type { ObservedDecision } from "../../exchange/exchange-observer.ts";
import { TRAFFIC_OUTCOMES, type TrafficOutcome } from "./traffic-outcome.ts";

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
  "endedAt" | "status" | "streaming" | "firstByteAt" | "promptTokens" | "outputTokens" | "cachedTokens"
> & { readonly outcome: TrafficOutcome };

const NO_ATTEMPTS: readonly JourneyAttempt[] = [];
/** The most attempts kept for one request. */
const MAX_ATTEMPTS = 16;
const MAX_TEXT = 256;

/** Numbers of a journey, side by side. */
const SEQUENCE = 0;
const RECEIVED_AT = 1;
const DECIDED_AT = 2;
const FIRST_BYTE_AT = 3;
const ENDED_AT = 4;
/** Place in `TRAFFIC_OUTCOMES`; NaN while the request runs. */
const OUTCOME = 5;
const STATUS = 6;
/** 1 = yes. */
const STREAMING = 7;
const PROMPT = 8;
const CACHED = 9;
const OUTPUT = 10;
/** When the endpoint of `#answerers` began to answer. */
const ANSWERED_AT = 11;
const COLUMNS = 12;

/**
 * The ways of the last requests that were decided about: one for each decision record that the process keeps. Numbers lie outside of
 * the heap, because objects for all requests would be most of what survives young collections.
 */
export class Journeys {
  readonly #capacity: number;
  readonly #numbers: Float64Array;
  readonly #callers: (string | undefined)[];
  readonly #endpoints: string[];
  /** The endpoint that answered as the first one that was tried, which is the usual case. */
  readonly #answerers: (string | undefined)[];
  /** All attempts of other requests. */
  readonly #attempts: (JourneyAttempt[] | undefined)[];

  constructor(capacity: number) {
    this.#capacity = capacity;
    this.#numbers = new Float64Array(capacity * COLUMNS);
    this.#callers = new Array<string | undefined>(capacity).fill(undefined);
    this.#endpoints = new Array<string>(capacity).fill("");
    this.#answerers = new Array<string | undefined>(capacity).fill(undefined);
    this.#attempts = new Array<JourneyAttempt[] | undefined>(capacity).fill(undefined);
  }

  /** Bytes of the numbers. */
  get bytes(): number {
    return this.#numbers.byteLength;
  }

  /** A request begins its way. @param decidedAt monotonic milliseconds */
  decided({ record, endpoint, receivedAt, caller, streaming }: ObservedDecision, decidedAt: number): void {
    const { sequence } = record;
    const place = sequence % this.#capacity;
    // The operator chooses the names of keys, but an issuer those of tokens.
    this.#callers[place] = caller === undefined || caller.length <= MAX_TEXT ? caller : caller.slice(0, MAX_TEXT);
    this.#endpoints[place] = endpoint?.id ?? "";
    this.#answerers[place] = undefined;
    this.#attempts[place] = undefined;
    const numbers = this.#numbers;
    const at = place * COLUMNS;
    numbers[at + SEQUENCE] = sequence;
    numbers[at + RECEIVED_AT] = receivedAt;
    numbers[at + DECIDED_AT] = decidedAt;
    numbers[at + FIRST_BYTE_AT] = Number.NaN;
    numbers[at + ENDED_AT] = Number.NaN;
    numbers[at + OUTCOME] = Number.NaN;
    numbers[at + STATUS] = 0;
    numbers[at + STREAMING] = streaming ? 1 : 0;
    numbers[at + PROMPT] = Number.NaN;
    numbers[at + CACHED] = Number.NaN;
    numbers[at + OUTPUT] = Number.NaN;
  }

  /** Undefined when it is no longer kept. */
  of(sequence: number): JourneyState | undefined {
    const place = this.#find(sequence);
    if (place < 0) return undefined;
    const number = (column: number): number => this.#numbers[place * COLUMNS + column]!;
    return {
      sequence,
      receivedAt: number(RECEIVED_AT),
      decidedAt: number(DECIDED_AT),
      caller: this.#callers[place],
      endpoint: this.#endpoints[place]!,
      streaming: number(STREAMING) === 1,
      attempts: this.#attemptsOf(place),
      firstByteAt: number(FIRST_BYTE_AT),
      endedAt: number(ENDED_AT),
      outcome: TRAFFIC_OUTCOMES[number(OUTCOME)],
      status: number(STATUS),
      promptTokens: number(PROMPT),
      cachedTokens: number(CACHED),
      outputTokens: number(OUTPUT),
    };
  }

  attempted(sequence: number, attempt: JourneyAttempt): void {
    const place = this.#find(sequence);
    if (place >= 0) this.#add(place, attempt);
  }

  /** The first byte of the answer has come. */
  answered(sequence: number, endpoint: string, at: number): void {
    const place = this.#find(sequence);
    if (place < 0) return;
    const isFirst = this.#answerers[place] === undefined && this.#attempts[place] === undefined;
    if (isFirst) {
      this.#answerers[place] = endpoint;
      this.#numbers[place * COLUMNS + ANSWERED_AT] = at;
    } else this.#add(place, { endpoint, at, failure: undefined });
    this.#numbers[place * COLUMNS + FIRST_BYTE_AT] = at;
  }

  ended(sequence: number, end: JourneyEnd): void {
    const place = this.#find(sequence);
    if (place < 0) return;
    const numbers = this.#numbers;
    const at = place * COLUMNS;
    numbers[at + FIRST_BYTE_AT] = end.firstByteAt;
    numbers[at + ENDED_AT] = end.endedAt;
    numbers[at + OUTCOME] = TRAFFIC_OUTCOMES.indexOf(end.outcome);
    numbers[at + STATUS] = end.status;
    numbers[at + STREAMING] = end.streaming ? 1 : 0;
    numbers[at + PROMPT] = end.promptTokens;
    numbers[at + CACHED] = end.cachedTokens;
    numbers[at + OUTPUT] = end.outputTokens;
  }

  /** The place of a journey; -1 = it is not kept. */
  #find(sequence: number): number {
    const place = sequence % this.#capacity;
    return this.#numbers[place * COLUMNS + SEQUENCE] === sequence ? place : -1;
  }

  #attemptsOf(place: number): readonly JourneyAttempt[] {
    const attempts = this.#attempts[place];
    if (attempts !== undefined) return attempts;
    const endpoint = this.#answerers[place];
    if (endpoint === undefined) return NO_ATTEMPTS;
    return [{ endpoint, at: this.#numbers[place * COLUMNS + ANSWERED_AT]!, failure: undefined }];
  }

  #add(place: number, attempt: JourneyAttempt): void {
    const attempts = this.#attemptsOf(place);
    if (attempts.length < MAX_ATTEMPTS) this.#attempts[place] = [...attempts, attempt];
  }
}

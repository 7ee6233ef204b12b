import type { Clock } from "../../../base/clock/clock.ts";
import type { AttemptFailure, Endpoint } from "../../../base/inference/endpoint.ts";
import { oneLine } from "../../../base/inference/errors.ts";
import { EventRing } from "../../../base/telemetry/event-ring.ts";
import { SecondRing } from "../../../base/telemetry/second-ring.ts";
import { SteadyWall } from "../../../base/telemetry/steady-wall.ts";
import type { EndedExchange } from "../../exchange/exchange-metrics.ts";
import type { ExchangeObserver, ObservedDecision } from "../../exchange/exchange-observer.ts";
import { EndpointWatch } from "./endpoint-watch.ts";
import { Journeys } from "./journeys.ts";
import type { ProcessEventKind } from "./process-events.ts";
import { ReloadLog } from "./reload-log.ts";
import { outcomeOf, TRAFFIC_OUTCOMES, type TrafficOutcome } from "./traffic-outcome.ts";

/** Seconds of the ring: 15 minutes. */
const SECONDS = 900;
/** The most causes of errors that are told apart; the last one stands for all others. */
const MAX_CAUSES = 64;

/** Sums of a second; the outcomes follow. */
export const SUM = {
  started: 0,
  decisions: 1,
  retries: 2,
  prompt: 3,
  output: 4,
  cached: 5,
  /** Prompt tokens of answers whose usage has the cached tokens. */
  cachedBase: 6,
  /** Bytes of prompts that the index had of the chosen endpoint, and all bytes that were looked up. */
  predicted: 7,
  predictedBase: 8,
  refusedInQueue: 9,
  outcomes: 10,
} as const;
export const GAUGE = { saturation: 0, inFlight: 1, waiting: 2, up: 3, blind: 4, down: 5, cpu: 6, lag: 7 } as const;
export const HISTOGRAM = { ttft: 0, duration: 1, queued: 2 } as const;

/** A cause of an error, as the ring counts it. */
export interface WatchedCause {
  readonly outcome: TrafficOutcome;
  /** A reason of the table of outcomes, `status 500`, or a word. */
  readonly cause: string;
}

const OTHER_CAUSE: WatchedCause = { outcome: "failed", cause: "other" };

/**
 * What the page shows of the traffic: a ring of 900 seconds, the totals since the start, the way of each recorded request and
 * the history of each endpoint. A request costs a few writes into arrays; all else is computed when somebody reads.
 */
export class TrafficWatch implements ExchangeObserver {
  readonly ring: SecondRing;
  readonly journeys: Journeys;
  readonly endpoints: EndpointWatch;
  readonly events: EventRing<ProcessEventKind>;
  readonly reloads = new ReloadLog();
  /** Since the start, in the order of `TRAFFIC_OUTCOMES`. */
  readonly totals = new Float64Array(TRAFFIC_OUTCOMES.length);
  readonly tokens = { prompt: 0, output: 0, cached: 0 };
  /** Requests for which an endpoint was chosen. */
  routed = 0;
  readonly causes: WatchedCause[] = [];
  readonly #clock: Clock;
  readonly #wall: SteadyWall;
  /** Of the decision under way. */
  #matched = 0;
  readonly #causes = new Map<string, number>();

  /** @param records the most decision records of the process */
  constructor(clock: Clock, records: number) {
    this.#clock = clock;
    this.#wall = new SteadyWall(clock);
    const second = this.second();
    this.ring = new SecondRing(
      {
        seconds: SECONDS,
        sums: SUM.outcomes + TRAFFIC_OUTCOMES.length,
        gauges: Object.keys(GAUGE).length,
        histograms: Object.keys(HISTOGRAM).length,
        counts: MAX_CAUSES,
      },
      second,
    );
    this.journeys = new Journeys(records);
    this.endpoints = new EndpointWatch(second);
    this.events = new EventRing(() => clock.wall());
  }

  /** Bytes of all typed arrays. */
  get bytes(): number {
    return this.ring.bytes + this.endpoints.bytes + this.journeys.bytes;
  }

  /** The present second in Unix seconds. Seconds never fall. */
  second(): number {
    return this.#wall.second();
  }

  /** Follows a wall clock that has jumped ahead. Once a second. */
  align(): void {
    this.#wall.align();
  }

  /** The wall-clock time of a monotonic one, in milliseconds. */
  wallOf(monotonic: number): number {
    return this.#wall.of(monotonic);
  }

  opened(at: number): void {
    this.#ringAt(at).add(SUM.started, 1);
  }

  /** The decision that follows found this share of its prompt in the prefix index of the chosen endpoint. */
  prefixMatched(share: number): void {
    this.#matched = share;
  }

  decided(decision: ObservedDecision): void {
    const { record, endpoint } = decision;
    const decidedAt = this.#clock.now();
    const ring = this.#ringAt(decidedAt);
    ring.add(SUM.decisions, 1);
    if (record.promptBytes > 0 && endpoint !== undefined) {
      ring.add(SUM.predictedBase, record.promptBytes);
      ring.add(SUM.predicted, this.#matched * record.promptBytes);
    }
    this.#matched = 0;
    if (record.queued !== undefined) {
      ring.observe(HISTOGRAM.queued, record.queued.waitedMs);
      if (endpoint === undefined) ring.add(SUM.refusedInQueue, 1);
    }
    this.journeys.decided(decision, decidedAt);
    if (endpoint === undefined) return;
    this.routed++;
    this.endpoints.of(endpoint)?.routed();
  }

  attemptFailed(
    sequence: number,
    endpoint: Endpoint,
    failure: AttemptFailure,
    detail: string,
    next: Endpoint | undefined,
  ): void {
    const at = this.#clock.now();
    if (next !== undefined) this.#ringAt(at).add(SUM.retries, 1);
    const history = this.endpoints.of(endpoint);
    if (history !== undefined) history.failures++;
    const text = oneLine(`${failure}: ${detail}`).slice(0, 200);
    if (sequence > 0) this.journeys.attempted(sequence, { endpoint: endpoint.id, at, failure: text });
  }

  answered(sequence: number, endpoint: Endpoint): void {
    if (sequence > 0) this.journeys.answered(sequence, endpoint.id, this.#clock.now());
  }

  ended(exchange: EndedExchange, sequence: number, endpoint: Endpoint | undefined): void {
    const { cause, response, rejection, streaming, receivedAt, endedAt } = exchange;
    const answered = response.status !== 0;
    const outcome = outcomeOf(cause, answered ? response.succeeded : undefined);
    const status = answered ? response.status : (rejection?.status ?? 0);
    const counted = outcome === "server-error" && answered ? `status ${status}` : (rejection?.reason ?? cause);
    const ring = this.#ringAt(endedAt);
    this.#count(outcome, counted);
    const complete = cause === "complete" && answered;
    const duration = endedAt - receivedAt;
    const usage = complete ? response.usage : undefined;
    const prompt = usage !== undefined && usage.promptTokens > 0 ? usage.promptTokens : 0;
    const output = usage?.completionTokens ?? Number.NaN;
    const cached = usage?.cachedTokens ?? Number.NaN;
    let ttft = Number.NaN;
    if (complete) {
      ring.observe(HISTOGRAM.duration, duration);
      if (!Number.isNaN(response.firstByteAt)) {
        // As in the metrics: an answer that is not streamed has its first token with its last (scheduling 8.3, rule 7).
        ttft = streaming ? response.firstByteAt - receivedAt : duration;
        ring.observe(HISTOGRAM.ttft, ttft);
      }
      this.#countTokens(prompt, output, cached);
      if (endpoint !== undefined) {
        const tpot = streaming && output > 1 ? (duration - ttft) / (output - 1) : Number.NaN;
        this.endpoints.of(endpoint)?.ended(output, ttft, tpot);
      }
    }
    if (sequence > 0)
      this.journeys.ended(sequence, {
        endedAt,
        outcome,
        status,
        streaming,
        firstByteAt: response.firstByteAt,
        promptTokens: prompt > 0 ? prompt : Number.NaN,
        outputTokens: output,
        cachedTokens: cached,
      });
  }

  /** The wire refused a request before there was an exchange. @param reason a word */
  unopened(reason: string, failed: boolean): void {
    this.#ringAt(this.#clock.now());
    this.#count(failed ? "failed" : "refused", reason);
  }

  #countTokens(prompt: number, output: number, cached: number): void {
    const ring = this.ring;
    ring.add(SUM.prompt, prompt);
    this.tokens.prompt += prompt;
    if (output > 0) {
      ring.add(SUM.output, output);
      this.tokens.output += output;
    }
    if (cached >= 0) {
      ring.add(SUM.cached, cached);
      ring.add(SUM.cachedBase, prompt);
      this.tokens.cached += cached;
    }
  }

  /** Counts in the second of the ring. */
  #count(outcome: TrafficOutcome, cause: string): void {
    const place = TRAFFIC_OUTCOMES.indexOf(outcome);
    const { ring } = this;
    ring.add(SUM.outcomes + place, 1);
    this.totals[place]!++;
    if (outcome !== "answered" && outcome !== "unfollowed") ring.count(this.#causePlace(outcome, cause));
  }

  #causePlace(outcome: TrafficOutcome, cause: string): number {
    const key = `${outcome} ${cause}`;
    let place = this.#causes.get(key);
    if (place === undefined) {
      place = Math.min(this.causes.length, MAX_CAUSES - 1);
      this.causes[place] = place === MAX_CAUSES - 1 ? OTHER_CAUSE : { outcome, cause };
      if (this.#causes.size < 4 * MAX_CAUSES) this.#causes.set(key, place);
    }
    return place;
  }

  /** The ring at the second of a present monotonic time: a request reads the clock anyway, and each reading costs. */
  #ringAt(at: number): SecondRing {
    this.ring.advance(this.#wall.secondOf(at));
    return this.ring;
  }
}

import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { Settlement } from "../brokers/broker.ts";
import type { ErrorCode, ResultMessage } from "../brokers/messages/message.ts";
import { errorResult } from "../brokers/messages/result.ts";
import type { BrokerTime } from "./broker-time.ts";
import type { Delivery } from "./delivery.ts";
import { deadlineResult, type ResultCounter } from "./send/classify.ts";
import type { QueueSeries } from "./series.ts";
import type { SettlementWriter } from "./settlement-writer.ts";

/**
 * Seconds before the deadline at which the last attempt begins at the latest. A later attempt would find its message expired,
 * and the gateway's earlier answer would be lost.
 */
const LAST_ATTEMPT = 1;
/** Longest pause before a retry without `Retry-After`, seconds. */
const LONGEST_PAUSE = 60;

/** Label with the outcome of the last attempt: labels travel with a message to the next process that claims it. */
const LAST_FAILURE = "last_failure";
const LONGEST_CAUSE = 300;

/** The message ends with a result. */
interface ResultOutcome {
  readonly kind: "result";
  readonly result: ResultMessage;
  /** The counter of the result. */
  readonly counts: ResultCounter | "cancelled" | "dropped";
}

/** The one outcome of a message that leaves this process. */
export type MessageOutcome =
  | ResultOutcome
  /** The deadline has passed. */
  | { readonly kind: "expired" }
  /** The message can never be sent: its owner gets a result, and the message becomes a dead letter that a person may mend. */
  | { readonly kind: "unusable"; readonly problem: string }
  /** Another attempt later, or the end when there is no time for one. */
  | {
      readonly kind: "retry";
      /** The pause that the gateway asked for, milliseconds; undefined = none. */
      readonly retryAfterMs: number | undefined;
      /** The result when there is no time: the last HTTP answer, else the passed deadline. */
      readonly last: ResultMessage;
      /** The outcome of the attempt, in one line; the result quotes it if the deadline passes before the next attempt. */
      readonly cause: string;
    }
  /** To be claimed again after some seconds. The message has no fault in it, so this counts as no retry. */
  | { readonly kind: "later"; readonly seconds: number }
  /** Back into the queue at the same place. `gateClosed`: the gate lets no other message of the queue pass either. */
  | { readonly kind: "back"; readonly gateClosed?: boolean };

export const BACK: MessageOutcome = { kind: "back" };
export const EXPIRED: MessageOutcome = { kind: "expired" };
/** It is unknown for now whether the message may be sent. */
export const IN_A_SECOND: MessageOutcome = { kind: "later", seconds: 1 };

/**
 * The reason why a message cannot be sent: the process ends, another process may have its lease by now, or its deadline has
 * passed.
 */
export function unsendable(
  { signal, claim, leaseUntil }: Delivery,
  clock: Clock,
  time: BrokerTime,
): MessageOutcome | undefined {
  if (signal.aborted || claim.lost || clock.now() > leaseUntil) return BACK;
  return time.now() > claim.message.request.deadline * 1000 ? EXPIRED : undefined;
}

/** The end of a message with a result that is no HTTP answer. */
export function errorOutcome(
  { claim }: Delivery,
  code: ErrorCode,
  message: string,
  counts: ResultOutcome["counts"] = "failed",
): MessageOutcome {
  return { kind: "result", result: errorResult(claim.message.request.id, code, message), counts };
}

/** The end of a message that a producer cancelled: the result has the code CANCELLED. */
export function cancelledOutcome(delivery: Delivery): MessageOutcome {
  return errorOutcome(delivery, "CANCELLED", "cancelled", "cancelled");
}

export interface OutcomesOptions {
  readonly writer: SettlementWriter;
  readonly time: BrokerTime;
  readonly random: Random;
  readonly series: QueueSeries;
}

/** Takes messages of one queue out of this process: each gives back what it took, is counted, and is written once. */
export class Outcomes {
  readonly #options: OutcomesOptions;
  #ended = 0;

  constructor(options: OutcomesOptions) {
    this.#options = options;
  }

  /** Messages of the queue that ended here. */
  get ended(): number {
    return this.#ended;
  }

  /** @returns false when the message left before: then nothing is written or counted */
  settle(delivery: Delivery, outcome: MessageOutcome): boolean {
    if (!delivery.end()) return false;
    this.#options.writer.add(this.#settlement(delivery, outcome));
    return true;
  }

  #settlement(delivery: Delivery, outcome: MessageOutcome): Settlement {
    const { series, time } = this.#options;
    const { claim, labels } = delivery;
    const { id } = claim.message.request;
    switch (outcome.kind) {
      case "result":
        return this.#result(delivery, outcome.result, outcome.counts);
      case "expired":
        return this.#result(delivery, deadlineResult(id, labels[LAST_FAILURE] ?? ""), "exceeded");
      case "unusable": {
        this.#ended++;
        this.#countRequest(delivery);
        series.failed();
        const { problem } = outcome;
        return { kind: "dead", claim, reason: problem, result: errorResult(id, "INVALID_REQUEST", problem) };
      }
      case "retry":
        return this.#retry(delivery, outcome);
      case "later": {
        const since = time.now();
        const { retryCount } = claim.message.routing;
        return { kind: "retry", claim, due: since / 1000 + outcome.seconds, since, retryCount, labels: { ...labels } };
      }
      case "back":
        return { kind: "refuse", claim, labels: { ...labels } };
    }
  }

  #result(delivery: Delivery, result: ResultMessage, counts: ResultOutcome["counts"]): Settlement {
    const { series, time } = this.#options;
    const { claim } = delivery;
    this.#ended++;
    this.#countRequest(delivery);
    if (counts === "success") {
      series.succeeded();
      if (!Number.isNaN(claim.publishedAt)) series.messageLatency(Math.max(0, time.now() - claim.publishedAt));
    } else if (counts === "exceeded") series.deadlineExceeded();
    else if (counts === "failed") series.failed();
    return { kind: "result", claim, result };
  }

  #retry(delivery: Delivery, outcome: MessageOutcome & { readonly kind: "retry" }): Settlement {
    const { time, random, series } = this.#options;
    const { claim } = delivery;
    const { deadline } = claim.message.request;
    const { retryCount } = claim.message.routing;
    const since = time.now();
    const now = since / 1000;
    const secondsToDeadline = deadline - Math.floor(now);
    const retryAfter = outcome.retryAfterMs === undefined ? undefined : outcome.retryAfterMs / 1000;
    const delay = secondsToDeadline > 0 ? retryDelay({ retryCount, secondsToDeadline, retryAfter }, random) : 0;
    const due = Math.min(Math.floor(now) + delay, deadline - LAST_ATTEMPT);
    if (due <= now && secondsToDeadline <= LAST_ATTEMPT + 1) return this.#result(delivery, outcome.last, "exceeded");
    this.#countRequest(delivery);
    series.retried();
    const labels = { ...delivery.labels, [LAST_FAILURE]: outcome.cause.slice(0, LONGEST_CAUSE) };
    return { kind: "retry", claim, due, since, retryCount: retryCount + 1, labels };
  }

  /**
   * `request_total` counts a message after its first attempt, not when a worker takes it: otherwise a message that goes back to
   * the queue first would count each time (H-39).
   */
  #countRequest({ claim }: Delivery): void {
    if (claim.message.routing.retryCount === 0) this.#options.series.requested();
  }
}

/**
 * Seconds until the next attempt: from [2, 4) doubling to [30, 60), never beyond the deadline; `Retry-After` counts when it
 * is longer, up to half of the time left and a quarter on top. Source: async-processor 5.2.6.
 * @param failure retries so far, >= 0; seconds to the deadline, > 0; seconds that the gateway asked for, undefined = nothing
 */
export function retryDelay(
  {
    retryCount,
    secondsToDeadline,
    retryAfter,
  }: { readonly retryCount: number; readonly secondsToDeadline: number; readonly retryAfter: number | undefined },
  random: Random,
): number {
  const cap = Math.min(LONGEST_PAUSE, secondsToDeadline);
  const longest = Math.min(cap, 2 * 2 ** Math.min(retryCount + 1, 10));
  const delay = longest / 2 + (random.next() * longest) / 2;
  if (retryAfter === undefined || retryAfter <= delay) return delay;
  const asked = Math.min(retryAfter, secondsToDeadline / 2);
  return Math.max(delay, asked * (1 + random.next() / 4));
}

import type { Random } from "../../base/clock/random.ts";
import type { ErrorCode, ResultMessage } from "../brokers/messages/message.ts";
import { errorResult } from "../brokers/messages/result.ts";
import { retryDelay } from "./backoff.ts";
import type { BrokerTime } from "./broker-time.ts";
import type { Delivery } from "./delivery.ts";
import type { QueueSeries } from "./queue-series.ts";
import { deadlineResult } from "./send/classify.ts";
import type { SettlementWriter } from "./settlement-writer.ts";

/**
 * Seconds before the deadline at which the last attempt begins at the latest: one that is queued again later finds its
 * message expired, and the answer that the gateway gave before would be lost.
 */
const LAST_ATTEMPT = 1;

/** Label that carries what the last attempt came to: labels travel with a message, whoever claims it next. */
const LAST_FAILURE = "last_failure";
const LONGEST_CAUSE = 300;

/** What a result counts as. */
export type Ending = "succeeded" | "failed" | "deadline-exceeded" | "cancelled" | "dropped";

export interface EndingsOptions {
  readonly writer: SettlementWriter;
  readonly time: BrokerTime;
  readonly random: Random;
  readonly series: QueueSeries;
}

/**
 * The ways in which a delivery of one queue leaves this process: each gives back what it had taken and is written once. What
 * has left stays gone, whoever else had it in hand.
 */
export class Endings {
  readonly #options: EndingsOptions;
  /** Messages that ended here. */
  ended = 0;

  constructor(options: EndingsOptions) {
    this.#options = options;
  }

  /** With its one result. */
  result(delivery: Delivery, result: ResultMessage, ending: Ending): void {
    const { series, writer, time } = this.#options;
    const { claim } = delivery;
    if (!delivery.end()) return;
    this.ended++;
    this.#countRequest(delivery);
    if (ending === "succeeded") {
      series.succeeded();
      if (!Number.isNaN(claim.publishedAt)) series.messageLatency(Math.max(0, time.now() - claim.publishedAt));
    } else if (ending === "deadline-exceeded") series.deadlineExceeded();
    else if (ending === "failed") series.failed();
    writer.add({ kind: "result", claim, result });
  }

  /** With a result that is no HTTP answer. */
  error(delivery: Delivery, code: ErrorCode, message: string): void {
    const ending =
      code === "DEADLINE_EXCEEDED"
        ? "deadline-exceeded"
        : code === "CANCELLED"
          ? "cancelled"
          : code === "GATE_DROPPED"
            ? "dropped"
            : "failed";
    this.result(delivery, errorResult(delivery.claim.message.request.id, code, message), ending);
  }

  /** It can never be sent: its owner is told, and it stands in the dead letters for whoever mends it. */
  unusable(delivery: Delivery, problem: string): void {
    const { writer, series } = this.#options;
    const { claim } = delivery;
    delivery.release();
    this.ended++;
    this.#countRequest(delivery);
    series.failed();
    const result = errorResult(claim.message.request.id, "INVALID_REQUEST", problem);
    writer.add({ kind: "dead", claim, reason: problem, result });
  }

  expired(delivery: Delivery): void {
    this.result(
      delivery,
      deadlineResult(delivery.claim.message.request.id, delivery.labels[LAST_FAILURE] ?? ""),
      "deadline-exceeded",
    );
  }

  cancelled(delivery: Delivery): void {
    this.error(delivery, "CANCELLED", "cancelled");
  }

  /**
   * Another attempt later, or the end when there is no time for one.
   * @param last the result it then ends with: the last HTTP answer, else that the deadline passed
   * @param cause what the attempt came to, in one line: should the deadline pass before the next one, the result says it
   */
  retry(delivery: Delivery, retryAfterMs: number | undefined, last: ResultMessage, cause: string): void {
    const { time, random, series, writer } = this.#options;
    const { claim } = delivery;
    const { deadline } = claim.message.request;
    const { retryCount } = claim.message.routing;
    const since = time.now();
    const now = since / 1000;
    const secondsToDeadline = deadline - Math.floor(now);
    const retryAfter = retryAfterMs === undefined ? undefined : retryAfterMs / 1000;
    const delay = secondsToDeadline > 0 ? retryDelay({ retryCount, secondsToDeadline, retryAfter }, random) : 0;
    const due = Math.min(Math.floor(now) + delay, deadline - LAST_ATTEMPT);
    if (due <= now && secondsToDeadline <= LAST_ATTEMPT + 1) {
      this.result(delivery, last, "deadline-exceeded");
      return;
    }
    if (!delivery.end()) return;
    this.#countRequest(delivery);
    series.retried();
    const labels = { ...delivery.labels, [LAST_FAILURE]: cause.slice(0, LONGEST_CAUSE) };
    writer.add({ kind: "retry", claim, due, since, retryCount: retryCount + 1, labels });
  }

  /** Not now, through no fault of its own: it counts as no retry. @param seconds until it may be claimed again */
  later(delivery: Delivery, seconds: number): void {
    const { writer, time } = this.#options;
    const { claim } = delivery;
    if (!delivery.end()) return;
    const since = time.now();
    const due = since / 1000 + seconds;
    const { retryCount } = claim.message.routing;
    writer.add({ kind: "retry", claim, due, since, retryCount, labels: { ...delivery.labels } });
  }

  /** Back where it was. @returns false when it has left before */
  refuse(delivery: Delivery): boolean {
    if (!delivery.end()) return false;
    this.#options.writer.add({ kind: "refuse", claim: delivery.claim, labels: { ...delivery.labels } });
    return true;
  }

  /**
   * `request_total` counts a message when its first attempt has come to something, not when a worker takes it: a message that
   * goes back to the queue first would be counted each time (H-39).
   */
  #countRequest({ claim }: Delivery): void {
    if (claim.message.routing.retryCount === 0) this.#options.series.requested();
  }
}

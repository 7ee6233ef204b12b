import type { Clock } from "../../base/clock/clock.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { LogFields, Logger } from "../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import type { Span, Tracing } from "../../base/telemetry/tracing.ts";
import type { Broker } from "../brokers/broker.ts";
import type { Admission } from "./admission.ts";
import type { BrokerTime } from "./broker-time.ts";
import type { Delivery } from "./delivery.ts";
import type { GateRunner, Hold, Passage } from "./gate-runner.ts";
import type { MergePolicy } from "./merge/merge-policy.ts";
import { BACK, cancelledOutcome, errorOutcome, IN_A_SECOND, type MessageOutcome, unsendable } from "./outcomes.ts";
import { type Classified, classify } from "./send/classify.ts";
import type { InferenceClient } from "./send/inference-client.ts";
import { buildRequest } from "./send/outbound.ts";
import type { QueueSeries } from "./series.ts";
import type { RequestTransform, TransformedBody } from "./transforms/transform.ts";

/** Milliseconds after which a message is checked again before it leaves: was it cancelled, or did its gate close? */
const STALE = 1000;

export interface WorkerOptions {
  readonly broker: Pick<Broker, "cancelled">;
  readonly client: InferenceClient;
  readonly transforms: RequestTransform;
  readonly tracing: Tracing;
  readonly time: BrokerTime;
  readonly clock: Clock;
  readonly log: Logger;
  /** Milliseconds per attempt. */
  readonly requestTimeout: number;
  readonly deadlineHeader: string | undefined;
  /** The key that gateways ask for; absent = none. */
  readonly gatewayKey?: string | undefined;
  /** Aborted when the time of running requests is over. */
  readonly cutOff: AbortSignal;
  /** The gate of the pool. */
  readonly gate: GateRunner;
  readonly policy: MergePolicy;
}

/** The parts of a message's queue that a worker needs. */
export interface MessageSource {
  readonly series: QueueSeries;
  readonly admission: Admission;
}

/**
 * Takes messages past the gate of one pool, sends them to the gateway, and returns the outcome of each (async-processor 7.6).
 */
export class Worker {
  readonly #options: WorkerOptions;
  readonly #quietly: RateLimitedLog;

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#quietly = new RateLimitedLog(options.log, options.clock, { intervalMs: 10_000, maxKeys: 100 });
  }

  /** Never rejects: after an error here, the message goes back to its queue. */
  async work(delivery: Delivery, source: MessageSource): Promise<MessageOutcome | Hold> {
    const { time, clock, log } = this.#options;
    const { message, queue } = delivery.claim;
    const { created } = message.request;
    source.series.depth(-1);
    // Go's producers write 0 when the field is not set.
    if (created > 0) source.series.residence(Math.max(0, time.now() - created * 1000));
    try {
      const unsent = this.#unsent(delivery, source);
      // The last check before the message leaves.
      const outcome = (unsent instanceof Promise ? await unsent : unsent) ?? unsendable(delivery, clock, time);
      return outcome ?? (await this.#send(delivery, source));
    } catch (error) {
      log.error({ queue: queue.name, err: error }, "a worker failed; the message returns to its queue");
      return IN_A_SECOND;
    }
  }

  /** Messages that wait for the pool's gate end as `BACK`. */
  stop(): void {
    this.#options.gate.stop();
  }

  /** The reason not to send a message; undefined = none. Usually nothing must be asked, and then it returns no promise. */
  #unsent(
    delivery: Delivery,
    source: MessageSource,
  ): MessageOutcome | Hold | undefined | Promise<MessageOutcome | Hold | undefined> {
    const { transforms, clock, gate } = this.#options;
    const { request } = delivery.claim.message;
    if (request.payload === undefined)
      return errorOutcome(delivery, "INVALID_REQUEST", "Failed to marshal message's payload: there is no payload");
    try {
      transforms.validate(request.payload, request.metadata, request.deadline);
    } catch (error) {
      const problem = `Failed to validate request for transform: ${messageOf(error)}`;
      return errorOutcome(delivery, "INVALID_REQUEST", problem);
    }
    const step = gate.run(delivery);
    if (step instanceof Promise || clock.now() - delivery.claimedAt > STALE)
      return this.#unsentAfter(step, delivery, source);
    return step.kind === "on" ? this.#withoutRoom(source, false) : step;
  }

  /** Checks the message again after a wait; while it waits at the gate, it keeps its room in the capacities. */
  async #unsentAfter(
    decided: Passage | Promise<Passage>,
    delivery: Delivery,
    source: MessageSource,
  ): Promise<MessageOutcome | Hold | undefined> {
    const step = await decided;
    if (step.kind !== "on") return step;
    const waited = this.#options.clock.now() - delivery.claimedAt > STALE;
    const cancelled = await this.#cancelled(delivery);
    if (cancelled !== undefined) return cancelled;
    if (waited) await source.admission.refresh(true);
    return this.#withoutRoom(source, waited);
  }

  /** `BACK` when the capacities have closed since room was taken. @param waited true: newer readings count as well */
  #withoutRoom({ admission, series }: MessageSource, waited: boolean): MessageOutcome | undefined {
    if (admission.holds(waited)) return undefined;
    series.decision("gate_closed");
    return BACK;
  }

  async #cancelled(delivery: Delivery): Promise<MessageOutcome | undefined> {
    const { clock, broker } = this.#options;
    if (clock.now() - delivery.checkedAt <= STALE) return undefined;
    delivery.checkedAt = clock.now();
    try {
      const [cancelled] = await broker.cancelled([delivery.claim]);
      return cancelled === true ? cancelledOutcome(delivery) : undefined;
    } catch {
      // An unknown answer is not a "no".
      return IN_A_SECOND;
    }
  }

  async #send(delivery: Delivery, source: MessageSource): Promise<MessageOutcome> {
    const { transforms, tracing, client, time, clock, requestTimeout, deadlineHeader, cutOff, policy } = this.#options;
    const { message, queue } = delivery.claim;
    const { request, routing } = message;
    const span = tracing.start("process-request", request.metadata, {
      "request.id": request.id,
      "retry.count": routing.retryCount,
      "queue.id": queue.id,
      "queue.name": queue.name,
    });
    source.series.inFlight(1);
    try {
      let transformed: TransformedBody | undefined;
      try {
        transformed = transforms.transform(request.payload!, request.metadata);
      } catch (error) {
        span.fail("request transform failed");
        const problem = `Failed to transform request body: ${messageOf(error)}`;
        return errorOutcome(delivery, "INVALID_REQUEST", problem);
      }
      const http = span.child("http-request", { "http.request.method": "POST" }, "client");
      const remainingMs = request.deadline * 1000 - time.now();
      const built = buildRequest({
        message,
        queue,
        transformed,
        deadlineHeader,
        gatewayKey: this.#options.gatewayKey,
        remainingMs,
        stamped: policy.stamp(delivery.claim, delivery.labels),
        trace: tracing.on ? (set) => http.inject(set) : undefined,
      });
      if (built.kind === "invalid") {
        span.fail("inference request failed");
        http.end();
        return errorOutcome(delivery, "INVALID_REQUEST", `Failed to send request to inference: ${built.reason}`);
      }
      if (built.dropped.length > 0)
        this.#warn(
          queue.name,
          { queue: queue.name, dropped: built.dropped },
          "removed headers that a message may not have",
        );
      const body = transformed?.body ?? request.payload!;
      source.admission.started(delivery, body);
      const begun = clock.now();
      const timeoutMs = Math.max(1, Math.min(requestTimeout, remainingMs));
      const answer = await client.send({ url: built.url, headers: built.headers, body, timeoutMs }, cutOff);
      source.series.latency(clock.now() - begun);
      if (answer.kind === "response" && answer.status === 200)
        source.admission.answered(body, answer.body, clock.now());
      if (answer.kind === "response" || answer.kind === "truncated")
        http.attribute("http.response.status_code", answer.status);
      http.end();
      const deadlinePassed = time.now() > request.deadline * 1000;
      return this.#outcome(delivery, source, classify(answer, { id: request.id, deadlinePassed }), span);
    } finally {
      source.series.inFlight(-1);
      span.end();
    }
  }

  #outcome(
    delivery: Delivery,
    { series, admission }: MessageSource,
    classified: Classified,
    span: Span,
  ): MessageOutcome {
    const { claim } = delivery;
    const queue = claim.queue.name;
    if (classified.kind === "requeue") {
      span.linked("re-enqueue", { "request.id": claim.message.request.id }).end();
      return BACK;
    }
    if (classified.shed) series.shed();
    if (classified.latch) admission.latch();
    if (classified.category !== undefined) span.attribute("error.category", classified.category);
    if (classified.kind === "retry") {
      const { retryAfterMs, lastAnswer: last, message: cause } = classified;
      this.#warn(queue, { queue, problem: cause }, "an attempt failed; Sluice tries again");
      return { kind: "retry", retryAfterMs, last, cause };
    }
    const { result, counter: counts, problem } = classified;
    if (counts === "exceeded") this.#warn(queue, { queue, problem }, "an attempt failed; no time is left for a retry");
    if (counts === "failed") span.fail("inference request failed");
    return { kind: "result", result, counts };
  }

  #warn(key: string, fields: LogFields, message: string): void {
    this.#quietly.log("warn", `${message} ${key}`, fields, message);
  }
}

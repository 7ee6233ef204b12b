import { type Clock, delay } from "../../base/clock/clock.ts";
import { messageOf } from "../../base/inference/errors.ts";
import { type DispatchGate, WAIT } from "../../base/plugin/gate.ts";
import type { LogFields, Logger } from "../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import type { Span, Tracing } from "../../base/telemetry/tracing.ts";
import type { Broker } from "../brokers/broker.ts";
import { OPEN_GATE } from "../gates/constant.ts";
import type { BrokerTime } from "./broker-time.ts";
import type { Delivery } from "./delivery.ts";
import type { Ending } from "./endings.ts";
import { drop, type Judged, judge, within } from "./judge.ts";
import type { Line } from "./line.ts";
import type { MergePolicy } from "./merge/merge-policy.ts";
import type { QueueSeries } from "./queue-series.ts";
import { type Classified, classify, type ResultCounter } from "./send/classify.ts";
import type { InferenceClient } from "./send/inference-client.ts";
import { buildRequest } from "./send/outbound.ts";
import type { TransformChain, TransformedBody } from "./transforms/transform.ts";

/** Milliseconds after which a message is looked at again before it leaves: cancelled meanwhile, or its gate closed? */
const STALE = 1000;
/** Milliseconds between questions to a pool's gate that lets a message wait. */
const GATE_POLL = 50;

const ENDINGS: Readonly<Record<ResultCounter, Ending>> = {
  success: "succeeded",
  failed: "failed",
  exceeded: "deadline-exceeded",
};

export interface WorkerOptions {
  readonly broker: Pick<Broker, "cancelled">;
  readonly client: InferenceClient;
  readonly transforms: TransformChain;
  readonly tracing: Tracing;
  readonly time: BrokerTime;
  readonly clock: Clock;
  readonly log: Logger;
  /** Milliseconds per attempt. */
  readonly requestTimeout: number;
  readonly deadlineHeader: string | undefined;
  /** Aborted when the process ends: nothing is sent any more. */
  readonly draining: AbortSignal;
  /** Aborted when what was sent has had its time. */
  readonly cutOff: AbortSignal;
}

/** One message in a worker's hands. */
export interface Job {
  readonly line: Line;
  readonly delivery: Delivery;
  readonly poolGate: DispatchGate;
  /** Of the pool's gate; undefined without one. */
  readonly poolSeries: QueueSeries | undefined;
  readonly policy: MergePolicy;
}

/** Takes messages past their pool's gate to the gateway and brings each to an end (async-processor 7.6). */
export class Worker {
  readonly #options: WorkerOptions;
  readonly #quietly: RateLimitedLog;

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#quietly = new RateLimitedLog(options.log, options.clock, { intervalMs: 10_000, maxKeys: 100 });
  }

  /** Never rejects: whatever goes wrong here, the message goes back to its queue. */
  async work(job: Job): Promise<void> {
    const { line, delivery } = job;
    line.series.depth(-1);
    const { created } = delivery.claim.message.request;
    // Go's producers write 0 where nobody has set it.
    if (created > 0) line.series.residence(Math.max(0, this.#options.time.now() - created * 1000));
    try {
      const may = this.#mayGo(job);
      if ((typeof may === "boolean" ? may : await may) && !this.#ended(line, delivery)) await this.#send(job);
    } catch (error) {
      this.#options.log.error({ queue: line.queue.name, err: error }, "a worker failed; its message is queued again");
      line.endings.later(delivery, 1);
    }
  }

  /** Everything that can end a message before it is sent. No promise where there is nobody to ask: most go this way. */
  #mayGo(job: Job): boolean | Promise<boolean> {
    const { line, delivery, poolGate } = job;
    const { request } = delivery.claim.message;
    if (request.payload === undefined) {
      line.endings.error(delivery, "INVALID_REQUEST", "Failed to marshal message's payload: there is no payload");
      return false;
    }
    try {
      this.#options.transforms.validate(request.payload, request.metadata, request.deadline);
    } catch (error) {
      const problem = `Failed to validate request for transform: ${messageOf(error)}`;
      line.endings.error(delivery, "INVALID_REQUEST", problem);
      return false;
    }
    const fresh = this.#options.clock.now() - delivery.claimedAt <= STALE;
    return poolGate === OPEN_GATE && fresh ? this.#hasRoom(job, false) : this.#mayGoAfter(job);
  }

  async #mayGoAfter(job: Job): Promise<boolean> {
    return (await this.#passPoolGate(job)) && (await this.#stillWanted(job));
  }

  /** Asks the pool's gate until it lets the message pass, or something ends it. Waiting has no limit but the deadline. */
  async #passPoolGate({ line, delivery, poolGate, poolSeries }: Job): Promise<boolean> {
    const { clock } = this.#options;
    const { id, metadata, deadline } = delivery.claim.message.request;
    const { labels, signal } = delivery;
    const seen = { id, metadata, labels, deadline, signal, admitted: poolGate.judgesWhenClosed !== true };
    for (let waited = false; ; waited = true) {
      const answer = judge(poolGate, seen, delivery);
      const judged = answer instanceof Promise ? await this.#answerOf(answer, line, delivery) : answer;
      if (judged === undefined) return false;
      // A pool's gate that is closed to everybody lets wait: what goes back would be the next to come.
      const closed = judged.kind === "refuse" && judged.reason !== "quota_exhausted" && !poolGate.judgesWhenClosed;
      const verdict: Judged = closed ? WAIT : judged;
      switch (verdict.kind) {
        case "continue":
          return true;
        case "refuse":
          poolSeries?.decision(verdict.reason ?? "gate_closed");
          line.hold(delivery);
          return false;
        case "drop":
          poolSeries?.decision("dropped");
          drop(line.endings, delivery, verdict);
          return false;
        case "error":
          poolSeries?.decision("error");
          if (this.#options.draining.aborted) line.giveBack(delivery);
          // A quota's server that is down must not end messages for good.
          else if (verdict.passing) line.hold(delivery);
          else line.endings.error(delivery, "GATE_ERROR", `Pool gating error: ${verdict.problem}`);
          return false;
        case "wait":
          if (!waited) poolSeries?.decision("gate_closed");
      }
      // Whatever happens while it waits, the slot it holds in its capacities is its own.
      await delay(clock, GATE_POLL, signal).catch(() => {});
      if (!(await this.#mayWait(line, delivery))) return false;
    }
  }

  /** The answer of a gate that takes its time; undefined: the message's way has ended before it came. */
  async #answerOf(answer: Promise<Judged>, line: Line, delivery: Delivery): Promise<Judged | undefined> {
    for (;;) {
      const judged = await within(this.#options.clock, STALE, answer, delivery.signal);
      if (judged !== undefined) return judged;
      if (!(await this.#mayWait(line, delivery))) return undefined;
    }
  }

  /** Neither lost nor expired nor cancelled while it waits. */
  async #mayWait(line: Line, delivery: Delivery): Promise<boolean> {
    if (this.#ended(line, delivery)) return false;
    return this.#notCancelled(line, delivery);
  }

  /** After a wait: neither cancelled nor held back by what the metrics say by now. */
  async #stillWanted(job: Job): Promise<boolean> {
    const { line, delivery } = job;
    const { clock } = this.#options;
    const waited = clock.now() - delivery.claimedAt > STALE;
    if (!(await this.#notCancelled(line, delivery))) return false;
    if (waited) await line.admission.refresh(true);
    return this.#hasRoom(job, waited);
  }

  #hasRoom({ line, delivery }: Job, waited: boolean): boolean {
    if (line.admission.holds(waited)) return true;
    line.series.decision("gate_closed");
    line.giveBack(delivery);
    return false;
  }

  async #notCancelled(line: Line, delivery: Delivery): Promise<boolean> {
    const { clock, broker } = this.#options;
    if (clock.now() - delivery.checkedAt <= STALE) return true;
    delivery.checkedAt = clock.now();
    try {
      const [cancelled] = await broker.cancelled([delivery.claim]);
      if (cancelled !== true) return true;
      line.endings.cancelled(delivery);
    } catch {
      // Unknown is not "no": it is looked at again in a second.
      line.endings.later(delivery, 1);
    }
    return false;
  }

  /** The last look before it leaves. A lease that could not be renewed in time may be somebody else's by now. */
  #ended(line: Line, delivery: Delivery): boolean {
    const { draining, clock } = this.#options;
    if (draining.aborted || delivery.claim.lost || clock.now() > delivery.leaseUntil) line.giveBack(delivery);
    else if (this.#options.time.now() > delivery.claim.message.request.deadline * 1000) line.endings.expired(delivery);
    else return false;
    return true;
  }

  async #send({ line, delivery, policy }: Job): Promise<void> {
    const { transforms, tracing, client, time, clock, requestTimeout, deadlineHeader, cutOff } = this.#options;
    const { message, queue } = delivery.claim;
    const { request, routing } = message;
    const span = tracing.start("process-request", request.metadata, {
      "request.id": request.id,
      "retry.count": routing.retryCount,
      "queue.id": queue.id,
      "queue.name": queue.name,
    });
    line.series.inFlight(1);
    try {
      let transformed: TransformedBody | undefined;
      try {
        transformed = transforms.transform(request.payload!, request.metadata);
      } catch (error) {
        span.fail("request transform failed");
        const problem = `Failed to transform request body: ${messageOf(error)}`;
        line.endings.error(delivery, "INVALID_REQUEST", problem);
        return;
      }
      const http = span.child("http-request", { "http.request.method": "POST" }, "client");
      const remainingMs = request.deadline * 1000 - time.now();
      const built = buildRequest({
        message,
        queue,
        transformed,
        deadlineHeader,
        remainingMs,
        stamped: policy.stamp(delivery.claim, delivery.labels),
        trace: tracing.on ? (set) => http.inject(set) : undefined,
      });
      if (built.kind === "invalid") {
        span.fail("inference request failed");
        http.end();
        line.endings.error(delivery, "INVALID_REQUEST", `Failed to send request to inference: ${built.reason}`);
        return;
      }
      if (built.dropped.length > 0)
        this.#warn(queue.name, { queue: queue.name, dropped: built.dropped }, "headers of a message were left out");
      const body = transformed?.body ?? request.payload!;
      line.admission.started(delivery, body);
      const begun = clock.now();
      const timeoutMs = Math.max(1, Math.min(requestTimeout, remainingMs));
      const answer = await client.send({ url: built.url, headers: built.headers, body, timeoutMs }, cutOff);
      line.series.latency(clock.now() - begun);
      if (answer.kind === "response" && answer.status === 200) line.admission.answered(body, answer.body, clock.now());
      if (answer.kind === "response" || answer.kind === "truncated")
        http.attribute("http.response.status_code", answer.status);
      http.end();
      const deadlinePassed = time.now() > request.deadline * 1000;
      this.#conclude(line, delivery, classify(answer, { id: request.id, deadlinePassed }), span);
    } finally {
      line.series.inFlight(-1);
      span.end();
    }
  }

  #conclude(line: Line, delivery: Delivery, classified: Classified, span: Span): void {
    if (classified.kind === "requeue") {
      span.linked("re-enqueue", { "request.id": delivery.claim.message.request.id }).end();
      line.giveBack(delivery);
      return;
    }
    if (classified.shed) line.series.shed();
    if (classified.latch) line.admission.latch();
    if (classified.category !== undefined) span.attribute("error.category", classified.category);
    if (classified.kind === "retry") {
      this.#warn(
        line.queue.name,
        { queue: line.queue.name, problem: classified.message },
        "an attempt failed; it is repeated",
      );
      line.endings.retry(delivery, classified.retryAfterMs, classified.lastAnswer, classified.message);
      return;
    }
    if (classified.counter === "exceeded")
      this.#warn(
        line.queue.name,
        { queue: line.queue.name, problem: classified.problem },
        "an attempt failed; there is no time to repeat it",
      );
    if (classified.counter === "failed") span.fail("inference request failed");
    line.endings.result(delivery, classified.result, ENDINGS[classified.counter]);
  }

  #warn(key: string, fields: LogFields, message: string): void {
    this.#quietly.log("warn", `${message} ${key}`, fields, message);
  }
}

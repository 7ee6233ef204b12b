import type { GateOwner } from "../../base/plugin/gate.ts";
import type { Counter } from "../../base/telemetry/counter.ts";
import {
  DECISION_REASONS,
  type DecisionReason,
  type DispatchMetrics,
  type FencedReason,
} from "../../base/telemetry/dispatch-metrics.ts";
import type { Gauge } from "../../base/telemetry/gauge.ts";
import type { Histogram } from "../../base/telemetry/histogram.ts";

type Labels = readonly [poolName: string, queueId: string, queueName: string];

/**
 * The series of one queue, or of a pool's gate (its queue labels are empty). Decisions stand at 0 from the start; every
 * other series appears with its first event, as on the reference's page (async-processor 8.6).
 */
export class QueueSeries {
  readonly #metrics: DispatchMetrics;
  readonly #labels: Labels;
  readonly #decisions: Readonly<Record<DecisionReason, Counter>>;
  #requested: Counter | undefined;
  #retried: Counter | undefined;
  #succeeded: Counter | undefined;
  #failed: Counter | undefined;
  #deadlineExceeded: Counter | undefined;
  #shed: Counter | undefined;
  #depth: Gauge | undefined;
  #inFlight: Gauge | undefined;
  #backlog: Gauge | undefined;
  #backlogErrors: Counter | undefined;
  #budget: Gauge | undefined;
  #latency: Histogram | undefined;
  #residence: Histogram | undefined;
  #messageLatency: Histogram | undefined;
  #claimsActive: Gauge | undefined;
  #reclaimed: Counter | undefined;
  readonly #fenced = new Map<FencedReason, Counter>();
  #recovered: Counter | undefined;
  #leasesRecovered: Counter | undefined;
  #deadLettered: Counter | undefined;
  #allowance: Gauge | undefined;
  #latch: Gauge | undefined;
  #expiredAtPull: Counter | undefined;
  #oldestAge: Gauge | undefined;
  #eta: Gauge | undefined;

  constructor(metrics: DispatchMetrics, { poolName, queueId, queueName }: GateOwner) {
    this.#metrics = metrics;
    this.#labels = [poolName, queueId, queueName];
    this.#decisions = Object.fromEntries(
      DECISION_REASONS.map((reason) => [reason, metrics.gateDecisionsTotal.with(...this.#labels, reason)]),
    ) as Record<DecisionReason, Counter>;
  }

  /** A worker took a message for the first time. */
  requested(): void {
    this.#requested ??= this.#metrics.requestTotal.with(...this.#labels);
    this.#requested.inc();
  }

  /** A retry was scheduled. */
  retried(): void {
    this.#retried ??= this.#metrics.requestRetriesTotal.with(...this.#labels);
    this.#retried.inc();
  }

  /** A message ended with an answer below 400. */
  succeeded(): void {
    this.#succeeded ??= this.#metrics.successfulRequestsTotal.with(...this.#labels);
    this.#succeeded.inc();
  }

  /** A message ended with a failure. */
  failed(): void {
    this.#failed ??= this.#metrics.failedRequestsTotal.with(...this.#labels);
    this.#failed.inc();
  }

  /** A message ended because its deadline passed. */
  deadlineExceeded(): void {
    this.#deadlineExceeded ??= this.#metrics.exceededDeadlineRequestsTotal.with(...this.#labels);
    this.#deadlineExceeded.inc();
  }

  /** An attempt was answered with 429. */
  shed(): void {
    this.#shed ??= this.#metrics.sheddedRequestsTotal.with(...this.#labels);
    this.#shed.inc();
  }

  /** @param delta messages more (or fewer) that wait for a worker */
  depth(delta: number): void {
    this.#depth ??= this.#metrics.queueDepth.with(...this.#labels);
    this.#depth.inc(delta);
  }

  /** @param delta messages more (or fewer) past the pool's gate */
  inFlight(delta: number): void {
    this.#inFlight ??= this.#metrics.inflightRequests.with(...this.#labels);
    this.#inFlight.inc(delta);
  }

  /** @param messages that nobody has claimed; NaN (the broker does not know) leaves the gauge as it is */
  backlog(messages: number): void {
    if (Number.isNaN(messages)) return;
    this.#backlog ??= this.#metrics.brokerBacklog.with(...this.#labels);
    this.#backlog.set(messages);
  }

  /** A poll of the backlog failed: the gauge keeps its value, since 0 would look like an empty queue. */
  backlogPollFailed(): void {
    this.#backlogErrors ??= this.#metrics.brokerBacklogPollErrorsTotal.with(...this.#labels);
    this.#backlogErrors.inc();
  }

  /** @param share 0..1 */
  budget(share: number): void {
    this.#budget ??= this.#metrics.dispatchBudget.with(...this.#labels);
    this.#budget.set(share);
  }

  /** A gate held work back. */
  decision(reason: DecisionReason): void {
    this.#decisions[reason].inc();
  }

  /** @param milliseconds of one attempt, successful or not */
  latency(milliseconds: number): void {
    this.#latency ??= this.#metrics.inferenceLatency.with(...this.#labels);
    this.#latency.observe(milliseconds);
  }

  /** @param milliseconds from the creation of a message until a worker took it */
  residence(milliseconds: number): void {
    this.#residence ??= this.#metrics.queueResidence.with(...this.#labels);
    this.#residence.observe(milliseconds);
  }

  /** @param milliseconds from publication to success */
  messageLatency(milliseconds: number): void {
    this.#messageLatency ??= this.#metrics.messageLatency.with(...this.#labels);
    this.#messageLatency.observe(milliseconds);
  }

  /** @param delta claims more (or fewer) held by this process */
  claimsActive(delta: number): void {
    this.#claimsActive ??= this.#metrics.claimsActive.with(...this.#labels);
    this.#claimsActive.inc(delta);
  }

  /** @param count messages whose lease ran out and that are queued again */
  reclaimed(count: number): void {
    this.#reclaimed ??= this.#metrics.claimsReclaimedTotal.with(...this.#labels);
    this.#reclaimed.inc(count);
  }

  /** An outcome was dropped, because the message is somebody else's or has its answer. */
  fenced(reason: FencedReason): void {
    let counter = this.#fenced.get(reason);
    if (counter === undefined) {
      counter = this.#metrics.resultsFencedTotal.with(...this.#labels, reason);
      this.#fenced.set(reason, counter);
    }
    counter.inc();
  }

  /** An outcome was written in a store that had lost its message. */
  recovered(): void {
    this.#recovered ??= this.#metrics.resultsRecoveredTotal.with(...this.#labels);
    this.#recovered.inc();
  }

  /** @param count leases that the store had lost with other data, and that are held all the same */
  leasesRecovered(count: number): void {
    this.#leasesRecovered ??= this.#metrics.leasesRecoveredTotal.with(...this.#labels);
    this.#leasesRecovered.inc(count);
  }

  /** An entry stands among the dead letters now. */
  deadLettered(): void {
    this.#deadLettered ??= this.#metrics.deadLetteredTotal.with(...this.#labels);
    this.#deadLettered.inc();
  }

  /** @param amount N, in the gate's unit */
  allowance(amount: number): void {
    this.#allowance ??= this.#metrics.dispatchAllowance.with(...this.#labels);
    this.#allowance.set(amount);
  }

  /** @param closed 1 = held closed by an overloaded gateway */
  latch(closed: 0 | 1): void {
    this.#latch ??= this.#metrics.overloadLatch.with(...this.#labels);
    this.#latch.set(closed);
  }

  /** A message was claimed whose deadline had passed. */
  expiredAtPull(): void {
    this.#expiredAtPull ??= this.#metrics.expiredAtPullTotal.with(...this.#labels);
    this.#expiredAtPull.inc();
  }

  /** @param seconds since the message that waits longest was created */
  oldestAge(seconds: number): void {
    this.#oldestAge ??= this.#metrics.oldestMessageAge.with(...this.#labels);
    this.#oldestAge.set(seconds);
  }

  /** @param seconds until the queue is empty at the present rate; Infinity = it never will be */
  eta(seconds: number): void {
    this.#eta ??= this.#metrics.backlogEta.with(...this.#labels);
    this.#eta.set(seconds);
  }
}

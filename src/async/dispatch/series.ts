import type { CapacityReading, GateFigures, GateOwner } from "../../base/plugin/gate.ts";
import {
  DECISION_REASONS,
  type DecisionReason,
  type DispatchMetrics,
  type FencedReason,
} from "../../base/telemetry/dispatch-metrics.ts";
import type { Counter } from "../../base/telemetry/metric-types.ts";

type Labels = readonly [poolName: string, queueId: string, queueName: string];
/** Metrics with these three labels; no other family has three. */
type QueueMetric = {
  [K in keyof DispatchMetrics]: Parameters<DispatchMetrics[K]["with"]>["length"] extends Labels["length"] ? K : never;
}[keyof DispatchMetrics];
type Series = { readonly [K in QueueMetric]: ReturnType<DispatchMetrics[K]["with"]> };

/**
 * The series of one queue, or of a pool's gate (its queue labels are empty). Decisions are 0 from the start; every other series
 * appears with its first event, as on the reference's page (async-processor 8.6).
 */
export class QueueSeries {
  readonly #metrics: DispatchMetrics;
  readonly #labels: Labels;
  readonly #decisions: Readonly<Record<DecisionReason, Counter>>;
  readonly #found: { -readonly [K in QueueMetric]?: Series[K] } = {};

  readonly #onLatency: (milliseconds: number) => void;

  /** @param onLatency receives the milliseconds of each attempt, too */
  constructor(
    metrics: DispatchMetrics,
    { poolName, queueId, queueName }: GateOwner,
    onLatency: (milliseconds: number) => void = () => {},
  ) {
    this.#onLatency = onLatency;
    this.#metrics = metrics;
    this.#labels = [poolName, queueId, queueName];
    this.#decisions = Object.fromEntries(
      DECISION_REASONS.map((reason) => [reason, metrics.gateDecisionsTotal.with(...this.#labels, reason)]),
    ) as Record<DecisionReason, Counter>;
  }

  /** A worker took a message for the first time. */
  requested(): void {
    this.#series("requestTotal").inc();
  }

  /** A retry was scheduled. */
  retried(): void {
    this.#series("requestRetriesTotal").inc();
  }

  /** A message ended with an answer below 400. */
  succeeded(): void {
    this.#series("successfulRequestsTotal").inc();
  }

  /** A message ended with a failure. */
  failed(): void {
    this.#series("failedRequestsTotal").inc();
  }

  /** A message ended because its deadline passed. */
  deadlineExceeded(): void {
    this.#series("exceededDeadlineRequestsTotal").inc();
  }

  /** An attempt was answered with 429. */
  shed(): void {
    this.#series("sheddedRequestsTotal").inc();
  }

  /** @param delta messages more (or fewer) that wait for a worker */
  depth(delta: number): void {
    this.#series("queueDepth").inc(delta);
  }

  /** @param delta messages more (or fewer) past the pool's gate */
  inFlight(delta: number): void {
    this.#series("inflightRequests").inc(delta);
  }

  /** @param messages that nobody has claimed; NaN (the broker does not know) leaves the gauge as it is */
  backlog(messages: number): void {
    if (Number.isNaN(messages)) return;
    this.#series("brokerBacklog").set(messages);
  }

  /** A poll of the backlog failed: the gauge keeps its value, since 0 would look like an empty queue. */
  backlogPollFailed(): void {
    this.#series("brokerBacklogPollErrorsTotal").inc();
  }

  /** @param share 0..1 */
  budget(share: number): void {
    this.#series("dispatchBudget").set(share);
  }

  /** A gate held work back. */
  decision(reason: DecisionReason): void {
    this.#decisions[reason].inc();
  }

  /** @param milliseconds of one attempt, successful or not */
  latency(milliseconds: number): void {
    this.#series("inferenceLatency").observe(milliseconds);
    this.#onLatency(milliseconds);
  }

  /** @param milliseconds from the creation of a message until a worker took it */
  residence(milliseconds: number): void {
    this.#series("queueResidence").observe(milliseconds);
  }

  /** @param milliseconds from publication to success */
  messageLatency(milliseconds: number): void {
    this.#series("messageLatency").observe(milliseconds);
  }

  /** @param delta claims more (or fewer) held by this process */
  claimsActive(delta: number): void {
    this.#series("claimsActive").inc(delta);
  }

  /** @param count messages whose lease ran out and that are queued again */
  reclaimed(count: number): void {
    this.#series("claimsReclaimedTotal").inc(count);
  }

  /** An outcome was dropped: another process has the message, or the message has its answer. */
  fenced(reason: FencedReason): void {
    this.#metrics.resultsFencedTotal.with(...this.#labels, reason).inc();
  }

  /** An outcome was written in a store that had lost its message. */
  recovered(): void {
    this.#series("resultsRecoveredTotal").inc();
  }

  /** @param count leases that the store lost with other data, and that this process still holds */
  leasesRecovered(count: number): void {
    this.#series("leasesRecoveredTotal").inc(count);
  }

  /** An entry became a dead letter. */
  deadLettered(): void {
    this.#series("deadLetteredTotal").inc();
  }

  /** @param amount N, in the gate's unit */
  allowance(amount: number): void {
    this.#series("dispatchAllowance").set(amount);
  }

  /** @param closed 1 = held closed by an overloaded gateway */
  latch(closed: 0 | 1): void {
    this.#series("overloadLatch").set(closed);
  }

  /** A message was claimed whose deadline had passed. */
  expiredAtPull(): void {
    this.#series("expiredAtPullTotal").inc();
  }

  /** @param seconds since the message that waits longest was created */
  oldestAge(seconds: number): void {
    this.#series("oldestMessageAge").set(seconds);
  }

  /** @param seconds until the queue is empty at the present rate; Infinity = it never will be */
  eta(seconds: number): void {
    this.#series("backlogEta").set(seconds);
  }

  /** Appears with its first event. */
  #series<K extends QueueMetric>(metric: K): Series[K] {
    const found = this.#found[metric] as Series[K] | undefined;
    if (found !== undefined) return found;
    // `QueueMetric` is exactly the families with these labels.
    const family = this.#metrics[metric] as unknown as { with(...labels: Labels): Series[K] };
    const series = family.with(...this.#labels);
    this.#found[metric] = series;
    return series;
  }
}

/**
 * The figures that the metric gates of one owner publish (async-processor 8.6). A reading that is not credible sets
 * `gate_metric_source_available` to 0 and leaves the other two as they were.
 */
export class GateSeries implements GateFigures {
  readonly #metrics: DispatchMetrics;
  readonly #owner: GateOwner;

  constructor(metrics: DispatchMetrics, owner: GateOwner) {
    this.#metrics = metrics;
    this.#owner = owner;
  }

  reading(pool: string, { readable, value, threshold }: CapacityReading): void {
    const { poolName, queueId, queueName } = this.#owner;
    this.#metrics.gateMetricSourceAvailable.with(pool, poolName, queueId, queueName).set(readable ? 1 : 0);
    if (!readable) return;
    this.#metrics.gateMetricValue.with(pool, poolName, queueId, queueName).set(value);
    this.#metrics.gateMetricThreshold.with(pool, poolName, queueId, queueName).set(threshold);
  }
}

import type { Clock } from "../../base/clock/clock.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import { MAX_PRIORITY_SERIES } from "../../base/telemetry/flow-control-metrics.ts";
import type { LabelGuard } from "../../base/telemetry/label-guard.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { OTHER } from "../../base/telemetry/metric-spec.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { Backlog } from "../flowcontrol/backlog.ts";
import type { QueueLoad } from "../flowcontrol/band.ts";
import { DispatchRate } from "../flowcontrol/dispatch-rate.ts";
import type { FlowControlEvents, FlowLabels, QueuedSize } from "../flowcontrol/events.ts";
import type { FlowControl } from "../flowcontrol/flow-control.ts";
import type { NOT_YET_FINALIZED, QueueOutcome } from "../flowcontrol/queue-outcomes.ts";
import { ByOutcome, QueueTable } from "./flow-series.ts";

/** Milliseconds after which the series of an idle flow leave the page (scheduling 6.1). */
const FLOW_IDLE = 300_000;
/** One warning per priority without a band in this many milliseconds, for as many priorities. */
const STRANGE_PRIORITIES = { intervalMs: 600_000, maxKeys: 64 };

export interface FlowMetricsParts {
  readonly metrics: Metrics;
  readonly clock: Clock;
  /** The value of the label `inference_pool`. */
  readonly poolName: string;
  /** Bounds the model names that clients choose. */
  readonly models: LabelGuard;
  /** Bounds the fairness IDs that clients choose. */
  readonly fairness: LabelGuard;
  readonly log: Logger;
  /** For failures of policies and of the detector. */
  readonly failures: RateLimitedLog;
}

/** Counts, times and logs what flow control does, under the reference's names (scheduling 8.6). */
export class FlowMetrics implements FlowControlEvents {
  /** The requests that wait, for autoscalers. */
  readonly backlog: Backlog;
  /** Flow control counts its dispatches here. */
  readonly rate = new DispatchRate();
  readonly #parts: FlowMetricsParts;
  readonly #fairness: LabelGuard;
  readonly #queues: QueueTable;
  readonly #totals: OutcomeTotals;
  readonly #cycles: ReturnType<Metrics["dispatchCycleDuration"]["with"]>;
  readonly #strange: RateLimitedLog;

  constructor(parts: FlowMetricsParts) {
    const { metrics, clock, poolName, models, log } = parts;
    this.#parts = parts;
    this.backlog = new Backlog(clock, this.rate);
    this.#fairness = parts.fairness;
    this.#queues = new QueueTable(metrics, poolName, models, this.#fairness);
    this.#totals = new OutcomeTotals(metrics, poolName);
    this.#cycles = metrics.dispatchCycleDuration.with();
    this.#strange = new RateLimitedLog(log, clock, STRANGE_PRIORITIES);
  }

  entered(flow: InferenceRequest, { bytes, tokens }: QueuedSize): void {
    this.#queues.enter(flow).enter(bytes, tokens);
    this.backlog.entered({ priority: flow.priority, bytes, tokens });
  }

  enqueued(flow: FlowLabels, outcome: QueueOutcome | typeof NOT_YET_FINALIZED, took: number): void {
    this.#queues
      .find(flow)
      .flow.enqueued(outcome)
      .observe(took / 1000);
  }

  left(flow: InferenceRequest, { bytes, tokens }: QueuedSize, outcome: QueueOutcome, waited: number): void {
    const queue = this.#queues.find(flow);
    queue.waited(outcome).observe(waited / 1000);
    queue.leave(bytes, tokens);
    this.backlog.left({ priority: flow.priority, bytes, tokens });
    this.#queues.leave(flow, queue, this.#parts.clock.now());
    this.#totals.of(flow.priority, outcome).inc();
  }

  passed(flow: InferenceRequest, { bytes, tokens }: QueuedSize, took: number, now: number): void {
    const seconds = took / 1000;
    this.#queues.pass(flow, now).passed(seconds);
    this.#cycles.observe(seconds);
    this.backlog.passed({ priority: flow.priority, bytes, tokens });
    this.#totals.of(flow.priority, "Dispatched").inc();
  }

  cycled(took: number): void {
    this.#cycles.observe(took / 1000);
  }

  strangePriority(priority: number, band: number): void {
    this.#strange.log(
      "warn",
      String(priority),
      { priority, band },
      "requests wait in the band of another priority: no band and no objective has their priority, or there are already 1,024 bands",
    );
  }

  revoked(demand: number): void {
    // A configuration has at most as many bands as there are series, and so the label needs no guard.
    this.#parts.metrics.revocationsIssuedTotal.with(String(demand), this.#parts.poolName).inc();
  }

  revocationEnded(outcome: "confirmed" | "timed_out", took: number): void {
    const { metrics, poolName } = this.#parts;
    metrics.revocationsTotal.with(outcome, poolName).inc();
    if (outcome === "confirmed") metrics.revocationConfirmation.with(poolName).observe(took / 1000);
  }

  failed(policy: string, error: unknown): void {
    this.#parts.failures.log(
      "error",
      `flow control ${policy}`,
      { err: error, policy },
      "a policy of flow control failed; Sluice skipped it",
    );
  }

  /**
   * Brings the gauges up to date, for one rendering of the page.
   * @param flowControl undefined = flow control is off
   */
  refresh(flowControl: Pick<FlowControl, "load" | "loads" | "reclaim"> | undefined): void {
    const { metrics, clock, poolName } = this.#parts;
    this.#queues.forgetIdleSince(clock.now() - FLOW_IDLE);
    for (const family of [metrics.capacityUtilizationRequests, metrics.capacityUtilizationBytes]) family.clear();
    for (const band of flowControl?.loads() ?? []) {
      const { requests, bytes } = shares(band);
      const labels = [String(band.priority), poolName] as const;
      if (requests !== undefined) metrics.capacityUtilizationRequests.with(...labels).set(requests);
      if (bytes !== undefined) metrics.capacityUtilizationBytes.with(...labels).set(bytes);
    }
    for (const family of [metrics.reclaimTarget, metrics.pendingReclaim, metrics.predictedWait]) family.clear();
    for (const family of [metrics.globalCapacityUtilizationRequests, metrics.globalCapacityUtilizationBytes])
      family.clear();
    if (flowControl === undefined) return;
    metrics.predictedWait.with(poolName).set(this.backlog.figures().waitSeconds);
    const { target, pending } = flowControl.reclaim();
    metrics.reclaimTarget.with(poolName).set(target);
    metrics.pendingReclaim.with(poolName).set(pending);
    const { requests, bytes } = shares(flowControl.load());
    if (requests !== undefined) metrics.globalCapacityUtilizationRequests.with(poolName).set(requests);
    if (bytes !== undefined) metrics.globalCapacityUtilizationBytes.with(poolName).set(bytes);
  }
}

/** The load as a share of each limit; undefined where there is no limit. */
function shares({ requests, maxRequests, bytes, maxBytes }: QueueLoad): { requests?: number; bytes?: number } {
  return {
    ...(maxRequests === Number.POSITIVE_INFINITY ? {} : { requests: requests / maxRequests }),
    ...(maxBytes === Number.POSITIVE_INFINITY ? {} : { bytes: bytes / maxBytes }),
  };
}

type Totals = ByOutcome<ReturnType<Metrics["flowControlRequestsTotal"]["with"]>>;

/** The counters by outcome and priority, which stay for the life of the process. */
class OutcomeTotals {
  readonly #metrics: Metrics;
  readonly #poolName: string;
  readonly #byPriority = new Map<number, Totals>();
  readonly #others: Totals;

  constructor(metrics: Metrics, poolName: string) {
    this.#metrics = metrics;
    this.#poolName = poolName;
    this.#others = this.#make(OTHER);
  }

  of(priority: number, outcome: QueueOutcome): ReturnType<Metrics["flowControlRequestsTotal"]["with"]> {
    const known = this.#byPriority.get(priority);
    if (known !== undefined) return known.get(outcome);
    // One place is that of `#others`.
    if (this.#byPriority.size >= MAX_PRIORITY_SERIES - 1) return this.#others.get(outcome);
    const made = this.#make(String(priority));
    this.#byPriority.set(priority, made);
    return made.get(outcome);
  }

  #make(priority: string): Totals {
    return new ByOutcome((outcome) => this.#metrics.flowControlRequestsTotal.with(outcome, priority, this.#poolName));
  }
}

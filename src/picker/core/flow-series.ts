import { MAX_QUEUE_SERIES } from "../../base/telemetry/flow-control-metrics.ts";
import type { LabelGuard } from "../../base/telemetry/label-guard.ts";
import { OTHER } from "../../base/telemetry/metric-spec.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import type { FlowLabels } from "../flowcontrol/events.ts";
import { NOT_YET_FINALIZED, type QueueOutcome } from "../flowcontrol/queue-outcomes.ts";

type Outcome = QueueOutcome | typeof NOT_YET_FINALIZED;
type Histogram = ReturnType<Metrics["queueDuration"]["with"]>;

/** Series by the value of the label `outcome`, each made at its first use. */
export class ByOutcome<C> {
  readonly #children = new Map<Outcome, C>();
  readonly #make: (outcome: Outcome) => C;

  constructor(make: (outcome: Outcome) => C) {
    this.#make = make;
  }

  get(outcome: Outcome): C {
    let child = this.#children.get(outcome);
    if (child === undefined) {
      child = this.#make(outcome);
      this.#children.set(outcome, child);
    }
    return child;
  }

  outcomes(): Iterable<Outcome> {
    return this.#children.keys();
  }
}

/** The series of one fairness ID and priority. */
class FlowSeries {
  /** Queues of this flow in the table. */
  queues = 0;
  readonly fairnessId: string;
  readonly priority: string;
  readonly byModel = new Map<string, Map<string, QueueSeries>>();
  readonly #metrics: Metrics;
  readonly #enqueued: ByOutcome<Histogram>;

  constructor(metrics: Metrics, fairnessId: string, priority: string) {
    this.fairnessId = fairnessId;
    this.priority = priority;
    this.#metrics = metrics;
    this.#enqueued = new ByOutcome((outcome) => metrics.enqueueDuration.with(fairnessId, priority, outcome));
  }

  enqueued(outcome: Outcome): Histogram {
    return this.#enqueued.get(outcome);
  }

  remove(): void {
    for (const outcome of this.#enqueued.outcomes())
      this.#metrics.enqueueDuration.remove(this.fairnessId, this.priority, outcome);
  }
}

type QueueLabels = readonly [fairnessId: string, priority: string, pool: string, model: string, target: string];

/** The series of the requests of one flow that name the same models. */
class QueueSeries {
  readonly flow: FlowSeries;
  /** Requests that have entered and not left. */
  requests = 0;
  /** Monotonic milliseconds at which the last request left. */
  idleSince = 0;
  readonly labels: QueueLabels;
  /** The priority as requests have it. */
  readonly priority: number;
  readonly #metrics: Metrics;
  readonly #size: ReturnType<Metrics["queueSize"]["with"]>;
  readonly #bytes: ReturnType<Metrics["queueBytes"]["with"]>;
  readonly #tokens: ReturnType<Metrics["queueTokens"]["with"]>;
  readonly #waited: ByOutcome<Histogram>;
  /** Those of requests that go on at once, from the first one on. */
  #passed: readonly [enqueued: Histogram, waited: Histogram] | undefined;

  constructor(metrics: Metrics, flow: FlowSeries, priority: number, labels: QueueLabels) {
    const [fairnessId, priorityLabel, pool, model, target] = labels;
    this.flow = flow;
    this.priority = priority;
    this.labels = labels;
    this.#metrics = metrics;
    this.#size = metrics.queueSize.with(...labels);
    this.#bytes = metrics.queueBytes.with(...labels);
    this.#tokens = metrics.queueTokens.with(...labels);
    this.#waited = new ByOutcome((outcome) =>
      metrics.queueDuration.with(fairnessId, priorityLabel, outcome, pool, model, target),
    );
  }

  enter(bytes: number, tokens: number): void {
    this.requests++;
    this.#size.inc();
    this.#bytes.inc(bytes);
    this.#tokens.inc(tokens);
  }

  leave(bytes: number, tokens: number): void {
    this.requests--;
    this.#size.dec();
    this.#bytes.dec(bytes);
    this.#tokens.dec(tokens);
  }

  waited(outcome: Outcome): Histogram {
    return this.#waited.get(outcome);
  }

  /** A request goes on at once. @param seconds that it took */
  passed(seconds: number): void {
    this.#passed ??= [this.flow.enqueued(NOT_YET_FINALIZED), this.waited("Dispatched")];
    for (const histogram of this.#passed) histogram.observe(seconds);
  }

  remove(): void {
    const [fairnessId, priority, pool, model, target] = this.labels;
    this.#metrics.queueSize.remove(...this.labels);
    this.#metrics.queueBytes.remove(...this.labels);
    this.#metrics.queueTokens.remove(...this.labels);
    for (const outcome of this.#waited.outcomes())
      this.#metrics.queueDuration.remove(fairnessId, priority, outcome, pool, model, target);
  }
}

/**
 * The queues with series of their own, of bounded number. A queue without requests stays, so that its gauge shows 0, until it
 * has been idle for long or another queue needs its place. While all places have requests, further queues share one.
 */
export class QueueTable {
  readonly #metrics: Metrics;
  readonly #poolName: string;
  readonly #models: LabelGuard;
  readonly #fairness: LabelGuard;
  readonly #flows = new Map<number, Map<string, FlowSeries>>();
  #size = 0;
  /** Queues without requests, in the order in which they became idle. */
  readonly #idle = new Set<QueueSeries>();
  /** The last one of them, if it is still idle. */
  #newestIdle: QueueSeries | undefined;
  #others: QueueSeries | undefined;
  /** The requests that count in `#others`: a queue of their own may exist by the time they leave. */
  readonly #inOthers = new Set<FlowLabels>();
  /** The last queue, and the names that led to it: a request is looked up three times in a row. */
  #last: QueueSeries | undefined;
  readonly #lastNames = { fairnessId: "", priority: 0, model: "", targetModel: "" };

  constructor(metrics: Metrics, poolName: string, models: LabelGuard, fairness: LabelGuard) {
    this.#metrics = metrics;
    this.#poolName = poolName;
    this.#models = models;
    this.#fairness = fairness;
  }

  /** The queue that counts a request from now on. */
  enter(request: FlowLabels): QueueSeries {
    const queue = this.#get(request) ?? this.#add(request);
    if (queue === undefined) {
      this.#inOthers.add(request);
      return this.#shared();
    }
    this.#idle.delete(queue);
    if (this.#newestIdle === queue) this.#newestIdle = undefined;
    return queue;
  }

  /** The queue of a request that goes on at once: it counts in no gauge. @param now monotonic milliseconds */
  pass(request: FlowLabels, now: number): QueueSeries {
    const queue = this.#get(request) ?? this.#add(request) ?? this.#shared();
    if (queue !== this.#others && queue.requests === 0) this.#idles(queue, now);
    return queue;
  }

  /** The queue that counts a request that has entered and not left. */
  find(request: FlowLabels): QueueSeries {
    if (this.#inOthers.size > 0 && this.#inOthers.has(request)) return this.#shared();
    return this.#get(request) ?? this.#shared();
  }

  /** A request no longer counts in its queue. @param now monotonic milliseconds */
  leave(request: FlowLabels, queue: QueueSeries, now: number): void {
    if (queue === this.#others) {
      this.#inOthers.delete(request);
      return;
    }
    if (queue.requests === 0) this.#idles(queue, now);
  }

  #idles(queue: QueueSeries, now: number): void {
    queue.idleSince = now;
    if (queue === this.#newestIdle) return;
    this.#idle.delete(queue);
    this.#idle.add(queue);
    this.#newestIdle = queue;
  }

  /** @param since monotonic milliseconds */
  forgetIdleSince(since: number): void {
    for (const queue of this.#idle) {
      if (queue.idleSince > since) return;
      this.#remove(queue);
    }
  }

  #get(request: FlowLabels): QueueSeries | undefined {
    const { fairnessId, priority, model, targetModel } = request;
    const last = this.#lastNames;
    if (
      this.#last !== undefined &&
      last.priority === priority &&
      last.fairnessId === fairnessId &&
      last.model === model &&
      last.targetModel === targetModel
    )
      return this.#last;
    const queue = this.#flows
      .get(priority)
      ?.get(this.#fairness.admit(fairnessId))
      ?.byModel.get(this.#models.admit(model))
      ?.get(this.#models.admit(targetModel));
    if (queue === undefined) return undefined;
    this.#last = queue;
    last.fairnessId = fairnessId;
    last.priority = priority;
    last.model = model;
    last.targetModel = targetModel;
    return queue;
  }

  #add(request: FlowLabels): QueueSeries | undefined {
    // One place is that of `#others`.
    if (this.#size >= MAX_QUEUE_SERIES - 1) {
      const [oldest] = this.#idle;
      if (oldest === undefined) return undefined;
      this.#remove(oldest);
    }
    const flow = this.#flowOf(request.priority, this.#fairness.admit(request.fairnessId));
    const model = this.#models.admit(request.model);
    const target = this.#models.admit(request.targetModel);
    const labels = [flow.fairnessId, flow.priority, this.#poolName, model, target] as const;
    const queue = new QueueSeries(this.#metrics, flow, request.priority, labels);
    entry(flow.byModel, model, () => new Map<string, QueueSeries>()).set(target, queue);
    flow.queues++;
    this.#size++;
    return queue;
  }

  #shared(): QueueSeries {
    const labels = [OTHER, OTHER, this.#poolName, OTHER, OTHER] as const;
    this.#others ??= new QueueSeries(this.#metrics, new FlowSeries(this.#metrics, OTHER, OTHER), 0, labels);
    return this.#others;
  }

  #flowOf(priority: number, fairnessId: string): FlowSeries {
    const flows = entry(this.#flows, priority, () => new Map<string, FlowSeries>());
    return entry(flows, fairnessId, () => new FlowSeries(this.#metrics, fairnessId, String(priority)));
  }

  #remove(queue: QueueSeries): void {
    const { flow, priority } = queue;
    const [fairnessId, , , model, target] = queue.labels;
    if (this.#last === queue) this.#last = undefined;
    this.#idle.delete(queue);
    if (this.#newestIdle === queue) this.#newestIdle = undefined;
    this.#size--;
    flow.queues--;
    queue.remove();
    const targets = flow.byModel.get(model)!;
    targets.delete(target);
    if (targets.size === 0) flow.byModel.delete(model);
    if (flow.queues > 0) return;
    flow.remove();
    const flows = this.#flows.get(priority)!;
    flows.delete(fairnessId);
    if (flows.size === 0) this.#flows.delete(priority);
  }
}

/** The entry of a key, made when it is missing. */
function entry<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}

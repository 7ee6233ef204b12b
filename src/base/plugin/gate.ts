import type { z } from "zod";
import type { Clock } from "../clock/clock.ts";
import type { Random } from "../clock/random.ts";
import type { Logger } from "../telemetry/logger.ts";

/** What a capacity is counted in. */
export type BudgetUnit = "requests" | "tokens" | "bytes";

/** What one look at a capacity says (async-processor 2.7). */
export interface CapacityReading {
  /** False: no figure that can be believed; D then counts as 0. */
  readonly readable: boolean;
  /** Why it is not readable, for people; empty when it is. */
  readonly problem: string;
  /** Dispatch budget D, 0..1: the estimated share of the capacity that is free. */
  readonly budget: number;
  /** Reserved baseline B, 0..1: closed at D <= B. */
  readonly baseline: number;
  /**
   * max_SYS in `unit`; undefined = not known. Then it is learned from what the figure says while work runs, beginning with a quarter of
   * the workers of the pool; for `queue-only` all workers count.
   */
  readonly maxSys: number | undefined;
  readonly unit: BudgetUnit;
  /**
   * `occupancy`: work that runs shows up in the figure. `queue-only`: only work that waits does, or none at all, as in a number that
   * somebody sets; then all that runs from here counts against it.
   */
  readonly kind: "occupancy" | "queue-only";
  /** When the figure was true, Unix milliseconds: the time of the sample, not of the question. */
  readonly sampleTime: number;
  /** The figure as its gate reports it in `gate_metric_value`, and the value at or below which the gate is closed. */
  readonly value: number;
  readonly threshold: number;
}

/** A capacity that dispatching spends. Gates of one configuration share it: equal `key`, one capacity. */
export interface CapacitySource {
  readonly key: string;
  /**
   * Never rejects: what cannot be read is a reading that says so.
   * @param fresh true passes over what is cached; it still joins a question that is under way
   */
  read(fresh: boolean): Promise<CapacityReading>;
}

/** What a gate sees of a message. */
export interface GateMessage {
  readonly id: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** The framework's labels (`classification`, `tier`, ...): a gate may set some, and they travel with the message. */
  readonly labels: Record<string, string>;
  /** Unix seconds. */
  readonly deadline: number;
  /** Aborted when nobody waits for the verdict any more. */
  readonly signal: AbortSignal;
  /** Room was found for it in the gate's capacities: what a metric says of them is considered already. */
  readonly admitted?: boolean;
}

/** What a gate says of one message (async-processor 3.1); `error` is what it throws. */
export type GateVerdict =
  | { readonly kind: "continue" }
  /** Ask again later; the message stays where it is. */
  | { readonly kind: "wait" }
  /**
   * Back into the queue.
   * @param reason what the decision counts as; default `gate_closed`
   */
  | { readonly kind: "refuse"; readonly reason?: "gate_closed" | "quota_exhausted" }
  /** Ends with a result: the one given, or the usual one for dropped messages. */
  | { readonly kind: "drop"; readonly result?: DroppedResult };

export interface DroppedResult {
  readonly payload: string;
  readonly statusCode?: number;
  readonly errorCode?: string;
}

export const CONTINUE: GateVerdict = { kind: "continue" };
export const WAIT: GateVerdict = { kind: "wait" };
export const REFUSE: GateVerdict = { kind: "refuse" };

/** Collects what must be given back when the message has left, in reverse order. */
export interface Reservations {
  /**
   * @param release must not throw; called once. `unsent` is true when the message was not sent after all: then what
   * sending it uses up, as the token of a rate limit, is given back too
   */
  add(release: (unsent?: boolean) => void): void;
}

/** Decides whether queued work may go (async-processor 3). */
export interface DispatchGate {
  /** Empty for a gate that only judges messages one by one. */
  readonly capacities: readonly CapacitySource[];
  /** True: messages must be shown to it also while the capacity says 0, since it drops some or lets some wait. */
  readonly judgesWhenClosed?: boolean;
  /** 0..1; never rejects; 0 = no capacity. For metrics and for gates around this one. */
  budget(): Promise<number>;
  /** @throws whatever went wrong; what it had reserved before is given back by the caller */
  apply(message: GateMessage, reservations: Reservations): GateVerdict | Promise<GateVerdict>;
  /** Messages with the same key share their refusals; undefined = each for itself. */
  refusalKey?(message: GateMessage): string | undefined;
  close?(): Promise<void> | void;
}

/** Who owns a gate, for metrics and logs. */
export interface GateOwner {
  readonly queueId: string;
  readonly queueName: string;
  readonly poolName: string;
}

/** Figures that a metric gate reports about itself; the labels are the owner's. */
export interface GateFigures {
  /** @param pool the InferencePool that the gate's parameters name, or "" */
  reading(pool: string, reading: CapacityReading): void;
}

/** What a gate is made with. */
export interface GateContext {
  readonly owner: GateOwner;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly figures: GateFigures;
  /** Makes a gate inside this one, with the same owner. @throws SluiceError GATE_UNKNOWN, GATE_PARAMETERS */
  gate(spec: GateSpec): DispatchGate;
  /** Makes a metric source. @throws SluiceError METRIC_SOURCE_UNKNOWN, GATE_PARAMETERS */
  metricSource(type: string, parameters: Readonly<Record<string, unknown>>): MetricSource;
  /** `--prometheus-url`; undefined when it is not set. */
  readonly prometheusUrl: string | undefined;
  /** Answers in place of Prometheus, in simulations: an expression in, the body of an answer of `/api/v1/query` out. */
  readonly askPrometheus?: ((promql: string) => string) | undefined;
  /** `--prometheus-cache-ttl`, milliseconds; 0 = no cache. */
  readonly cacheTtl: number;
}

/** A gate as a configuration names it. */
export interface GateSpec {
  readonly type: string;
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** One sample of an instant vector or of a metrics page. */
export interface MetricSample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface MetricAnswer {
  readonly samples: readonly MetricSample[];
  /** When the samples were taken, Unix milliseconds; for several the oldest. */
  readonly time: number;
}

/** Something that can be asked for figures; asks once per call and caches nothing. */
export interface MetricSource {
  /** @throws SluiceError METRIC_SOURCE when there is no answer that can be read */
  query(signal: AbortSignal): Promise<MetricAnswer>;
  close?(): Promise<void> | void;
}

/** What `defineGate` returns. */
export interface GateDefinition {
  readonly kind: "gate";
  readonly type: string;
  readonly describe: string;
  /** Strict schema of `gate_params`. */
  readonly parameters: z.ZodType;
  /** True: nothing that it keeps is one owner's, so all gates of equal parameters are one, and figures go to each owner. */
  readonly shared?: boolean;
  create(parameters: unknown, context: GateContext): DispatchGate;
}

/** What `defineMetricSource` returns. */
export interface MetricSourceDefinition {
  readonly kind: "metric-source";
  readonly type: string;
  readonly describe: string;
  readonly parameters: z.ZodType;
  create(parameters: unknown, context: GateContext): MetricSource;
}

/** Defines a gate of the Async Processor. */
export function defineGate<P extends z.ZodType>(source: {
  /** Lower-case words with hyphens. */
  readonly type: string;
  /** One sentence: when it lets messages pass. */
  readonly describe: string;
  readonly parameters: P;
  readonly shared?: boolean;
  create(parameters: z.output<P>, context: GateContext): DispatchGate;
}): GateDefinition {
  // Only what `parameters` has parsed is ever passed in.
  const create: GateDefinition["create"] = (parameters, context) => source.create(parameters as z.output<P>, context);
  return { ...source, kind: "gate", create };
}

/** Defines a place where a gate of type `metric-budget` can read its figure. */
export function defineMetricSource<P extends z.ZodType>(source: {
  readonly type: string;
  readonly describe: string;
  readonly parameters: P;
  create(parameters: z.output<P>, context: GateContext): MetricSource;
}): MetricSourceDefinition {
  const create: MetricSourceDefinition["create"] = (parameters, context) =>
    source.create(parameters as z.output<P>, context);
  return { ...source, kind: "metric-source", create };
}

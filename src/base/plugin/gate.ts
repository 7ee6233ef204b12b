import type { z } from "zod";
import type { Clock } from "../clock/clock.ts";
import type { Random } from "../clock/random.ts";
import type { Logger } from "../telemetry/logger.ts";

/** The unit in which a capacity is counted. */
export type BudgetUnit = "requests" | "tokens" | "bytes";

/** The result of one read of a capacity (async-processor 2.7). */
export interface CapacityReading {
  /** False: the read gave no figure that can be trusted. D then counts as 0. */
  readonly readable: boolean;
  /** Why the capacity is not readable, for people; empty when it is readable. */
  readonly problem: string;
  /** Dispatch budget D, 0..1: the estimated share of the capacity that is free. */
  readonly budget: number;
  /** Reserved baseline B, 0..1: closed at D <= B. */
  readonly baseline: number;
  /**
   * max_SYS in `unit`; undefined = not known. Then it is learned from the figure while work runs. It begins with a quarter of
   * the workers of the pool; for `queue-only` all workers count.
   */
  readonly maxSys: number | undefined;
  readonly unit: BudgetUnit;
  /**
   * `occupancy`: the figure includes running work. `queue-only`: the figure includes only waiting work, or no work at all, as a
   * number that a person sets. All work that this process has in flight then counts against it.
   */
  readonly kind: "occupancy" | "queue-only";
  /** When the figure was true, Unix milliseconds: the time of the sample, not of the query. */
  readonly sampleTime: number;
  /** The figure as its gate reports it in `gate_metric_value`, and the value at or below which the gate is closed. */
  readonly value: number;
  readonly threshold: number;
}

/** A capacity that dispatching uses up. Gates of one configuration share it: equal `key`, one capacity. */
export interface CapacitySource {
  readonly key: string;
  /**
   * Never rejects. A failed read is a reading that is not readable.
   * @param fresh true ignores cached readings, but joins a read that is under way
   */
  read(fresh: boolean): Promise<CapacityReading>;
}

/** A message as a gate sees it. */
export interface GateMessage {
  readonly id: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** Labels of the framework (`classification`, `tier`, ...). A gate may set some, and they travel with the message. */
  readonly labels: Record<string, string>;
  /** Unix seconds. */
  readonly deadline: number;
  /** Aborted when no caller waits for the verdict any more. */
  readonly signal: AbortSignal;
  /** The message has room in the gate's capacities, which already considers the gate's metric. */
  readonly admitted?: boolean;
}

/** The verdict of a gate on one message (async-processor 3.1); `error` stands for a gate that throws. */
export type GateVerdict =
  | { readonly kind: "continue" }
  /** Ask again later; the message stays where it is. */
  | { readonly kind: "wait" }
  /**
   * Back into the queue.
   * @param reason label value for the count of the decision; default `gate_closed`
   */
  | { readonly kind: "refuse"; readonly reason?: "gate_closed" | "quota_exhausted" }
  /** The message ends with a result: the given one, or the usual one for dropped messages. */
  | { readonly kind: "drop"; readonly result?: DroppedResult };

export interface DroppedResult {
  readonly payload: string;
  readonly statusCode?: number;
  readonly errorCode?: string;
}

export const CONTINUE: GateVerdict = { kind: "continue" };
export const WAIT: GateVerdict = { kind: "wait" };
export const REFUSE: GateVerdict = { kind: "refuse" };

/** Collects releases, which run in reverse order when the message has left. */
export interface Reservations {
  /**
   * @param release must not throw; called once. `unsent` is true when the message was not sent after all. Then the release also
   * gives back the resources of sending, such as the token of a rate limit
   */
  add(release: (unsent?: boolean) => void): void;
}

/** Decides whether queued work may go (async-processor 3). */
export interface DispatchGate {
  /** Empty for a gate that judges each message alone. */
  readonly capacities: readonly CapacitySource[];
  /** True: the gate must see messages also while the capacity is 0, because it drops some or lets some wait. */
  readonly judgesWhenClosed?: boolean;
  /** 0..1; never rejects; 0 = no capacity. For metrics and for gates around this one. */
  budget(): Promise<number>;
  /** @throws any error of the gate; the caller then gives back what the gate reserved before */
  apply(message: GateMessage, reservations: Reservations): GateVerdict | Promise<GateVerdict>;
  /** Messages with the same key share their refusals; undefined = the message shares none. */
  refusalKey?(message: GateMessage): string | undefined;
  close?(): Promise<void> | void;
}

/** The owner of a gate, for metrics and logs. */
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

/** The context in which a gate is made. */
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
  /** Answers in place of Prometheus, in simulations: takes an expression, returns the body of an answer of `/api/v1/query`. */
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

/** A source of figures. Each call asks once; nothing is cached. */
export interface MetricSource {
  /** @throws SluiceError METRIC_SOURCE when there is no readable answer */
  query(signal: AbortSignal): Promise<MetricAnswer>;
  close?(): Promise<void> | void;
}

/** A gate or a metric source inside a gate, with the places of its type and parameters in those of the gate. */
export interface GatePart extends GateSpec {
  readonly kind: "gate" | "metric-source";
  readonly typePath: readonly (string | number)[];
  readonly parametersPath: readonly (string | number)[];
}

/** What is known of the process before a gate is made. */
export interface GateSurroundings {
  /** `--prometheus-url`; undefined when it is not set. */
  readonly prometheusUrl: string | undefined;
}

/** The definition that `defineGate` returns. */
export interface GateDefinition {
  readonly kind: "gate";
  readonly type: string;
  readonly describe: string;
  /** Strict schema of `gate_params`. */
  readonly parameters: z.ZodType;
  /**
   * True: the gate keeps no state of one owner. All gates of equal parameters are then one, and each owner gets the figures.
   */
  readonly shared?: boolean;
  /** The gates and metric sources inside it, so that a check finds their faults. */
  readonly parts?: ((parameters: unknown) => readonly GatePart[]) | undefined;
  /** Finds faults that the schema cannot, as `create` would, but connects to nothing. @throws SluiceError */
  readonly verify?: ((parameters: unknown, surroundings: GateSurroundings) => void) | undefined;
  create(parameters: unknown, context: GateContext): DispatchGate;
}

/** The definition that `defineMetricSource` returns. */
export interface MetricSourceDefinition {
  readonly kind: "metric-source";
  readonly type: string;
  readonly describe: string;
  readonly parameters: z.ZodType;
  /** As of `GateDefinition`. */
  readonly verify?: ((parameters: unknown, surroundings: GateSurroundings) => void) | undefined;
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
  /** The gates and metric sources inside it. */
  parts?(parameters: z.output<P>): readonly GatePart[];
  /** Finds faults that the schema cannot, and connects to nothing. */
  verify?(parameters: z.output<P>, surroundings: GateSurroundings): void;
  create(parameters: z.output<P>, context: GateContext): DispatchGate;
}): GateDefinition {
  // The callers pass only what `parameters` has parsed.
  const create: GateDefinition["create"] = (parameters, context) => source.create(parameters as z.output<P>, context);
  return {
    ...source,
    kind: "gate",
    parts: source.parts && ((parameters) => source.parts!(parameters as z.output<P>)),
    verify: source.verify && ((parameters, around) => source.verify!(parameters as z.output<P>, around)),
    create,
  };
}

/** Defines a place where a gate of type `metric-budget` can read its figure. */
export function defineMetricSource<P extends z.ZodType>(source: {
  readonly type: string;
  readonly describe: string;
  readonly parameters: P;
  /** Finds faults that the schema cannot, and connects to nothing. */
  verify?(parameters: z.output<P>, surroundings: GateSurroundings): void;
  create(parameters: z.output<P>, context: GateContext): MetricSource;
}): MetricSourceDefinition {
  const create: MetricSourceDefinition["create"] = (parameters, context) =>
    source.create(parameters as z.output<P>, context);
  const verify: MetricSourceDefinition["verify"] =
    source.verify && ((parameters, around) => source.verify!(parameters as z.output<P>, around));
  return { ...source, kind: "metric-source", verify, create };
}

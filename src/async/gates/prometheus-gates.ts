import { z } from "zod";
import type { Clock } from "../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { type CapacityReading, defineGate, type MetricAnswer } from "../../base/plugin/gate.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { lowest, type MetricFinding, metricGate, unread } from "./metric-gate.ts";
import {
  baselineParameter,
  fallbackParameter,
  knownCapacity,
  METRIC_PARAMETERS,
  namespaceParameter,
  plausibleAges,
  poolParameter,
} from "./metric-parameters.ts";
import { PROMETHEUS_TIMEOUT, PrometheusFigure, prometheusOf, requirePrometheus } from "./metric-sources/prometheus.ts";
import type { PrometheusClient } from "./metric-sources/prometheus-client.ts";
import { booleanParameter, floatParameter, stringParameter } from "./parameters.ts";
import { budgetQueries, type PoolSelection, queuedPodsQuery, readyPodsQuery, saturationQuery } from "./promql.ts";

export const prometheusSaturationGate = defineGate({
  type: "prometheus-saturation",
  shared: true,
  describe: "Open while the saturation that the Endpoint Picker publishes for a pool is below a threshold.",
  parameters: z
    .strictObject({
      pool: poolParameter,
      namespace: namespaceParameter,
      threshold: floatParameter({ default: 0.8, moreThan: 0, max: 1 }).describe(
        "Saturation at which the gate closes, above 0 and at most 1.",
      ),
      fallback: floatParameter({ default: 1 }).describe(
        "The saturation that the gate assumes while the metric is unreadable; at `threshold` or above, the gate is closed.",
      ),
      ...METRIC_PARAMETERS,
    })
    .superRefine((parameters, context) => {
      plausibleAges(parameters, context);
      knownCapacity(parameters, false, context, "max_sys");
    }),
  verify: (_, around) => void requirePrometheus(around),
  create(parameters, context) {
    const { pool, namespace, threshold, fallback, metric_lag: metricLag } = parameters;
    const client = prometheusOf(context);
    const built = saturationQuery({ pool, namespace });
    context.log.info({ pool, query: built.query }, "prometheus-saturation metric source");
    const figure = new PrometheusFigure(client, { ...built, metricLag });
    return metricGate(
      {
        type: "prometheus-saturation",
        pool,
        baseline: 1 - threshold,
        fallback: Math.max(0, threshold - Math.max(0, fallback)),
        settings: parameters,
        limit: PROMETHEUS_TIMEOUT,
        look: (signal) => occupancyIn(figure, signal),
        close: () => client.close(),
      },
      context,
    );
  },
});

export const prometheusQueryGate = defineGate({
  type: "prometheus-query",
  shared: true,
  describe: "Lets messages pass up to the share, from 0 to 1, that your own PromQL query returns.",
  parameters: z
    .strictObject({
      query: stringParameter().describe(
        "PromQL, sent unchanged. The result of the query is the budget: 0 and below = closed, 1 = all capacity is free.",
      ),
      fallback: floatParameter({ default: 0 }).describe(
        "The budget, from 0 to 1, that the gate assumes while the metric is unreadable; 0 = closed.",
      ),
      pool: stringParameter({ default: "" }).describe(
        "Value of the label `inference_pool` in the gate's own metrics; no other effect.",
      ),
      ...METRIC_PARAMETERS,
    })
    .superRefine((parameters, context) => {
      plausibleAges(parameters, context);
      knownCapacity(parameters, false, context, "max_sys");
    }),
  verify: (_, around) => void requirePrometheus(around),
  create(parameters, context) {
    const { query, fallback, pool, metric_lag: metricLag } = parameters;
    const client = prometheusOf(context);
    const figure = new PrometheusFigure(client, { query, timestampQuery: undefined, metricLag });
    return metricGate(
      {
        type: "prometheus-query",
        pool,
        baseline: 0,
        fallback,
        settings: parameters,
        limit: PROMETHEUS_TIMEOUT,
        look: (signal) => occupancyIn(figure, signal),
        close: () => client.close(),
      },
      context,
    );
  },
});

/** The figure of waiting requests does not contain running work; the figure of running requests does (async-processor G-13). */
const KINDS = ["queue-only", "queue-only", "occupancy"] as const;

export const prometheusBudgetGate = defineGate({
  type: "prometheus-budget",
  shared: true,
  describe:
    "Lets as many messages pass as free capacity allows. The gate reads the queues of a pool, or the running requests if the queues are unreadable.",
  parameters: z
    .strictObject({
      pool: poolParameter,
      namespace: namespaceParameter,
      max_concurrency: floatParameter({ default: 100, moreThan: 0 }).describe(
        "Capacity of one ready model server in requests; use the `maxConcurrency` of the picker's saturation detector.",
      ),
      baseline: baselineParameter(0.05),
      fallback: fallbackParameter,
      capacity_per_pod: floatParameter({ optional: true, moreThan: 0 }).describe(
        "Capacity of one ready model server in `unit`; default `max_concurrency` with unit `requests`.",
      ),
      robust: booleanParameter({ default: false }).describe(
        "Use the largest series when several replicas of the picker publish the number of ready pods.",
      ),
      ...METRIC_PARAMETERS,
    })
    .superRefine((parameters, context) => {
      plausibleAges(parameters, context);
      const known = parameters.capacity_per_pod !== undefined;
      knownCapacity(parameters, known, context, "capacity_per_pod or max_sys");
    }),
  verify: (_, around) => void requirePrometheus(around),
  create(parameters, context) {
    const { pool, namespace, max_concurrency: maxConcurrency, baseline, fallback, metric_lag: metricLag } = parameters;
    const { log } = context;
    const client = prometheusOf(context);
    const queries = budgetQueries({ pool, namespace }, maxConcurrency, parameters.robust);
    for (const [sourceIndex, { query }] of queries.entries())
      log.info({ pool, sourceIndex, query }, "prometheus-budget metric source");
    const closesAtLoadPerReadyPod = maxConcurrency * (1 - baseline);
    log.info({ pool, maxConcurrency, baseline, closesAtLoadPerReadyPod }, "prometheus-budget gate configured");
    const sources = queries.map((query, index) => {
      const figure = new PrometheusFigure(client, { ...query, metricLag });
      return { kind: KINDS[index]!, ask: (signal: AbortSignal) => figure.ask(signal) };
    });
    const cascade = new BudgetCascade(sources, pool, log);
    const ready = new ReadyPods(client, { pool, namespace }, context.clock, parameters.max_sample_age);
    const perPod = parameters.capacity_per_pod ?? maxConcurrency;
    return metricGate(
      {
        type: "prometheus-budget",
        pool,
        baseline,
        fallback,
        settings: parameters,
        limit: PROMETHEUS_TIMEOUT,
        async look(signal): Promise<MetricFinding> {
          const counting = ready.count(signal);
          const found = await budgetOf(cascade, signal);
          const pods = await counting;
          // An EPP without model servers goes on publishing its last value, however idle that was.
          if (pods === 0) return { ...found, budget: undefined, problem: "no model server of the pool is ready" };
          return { ...found, maxSys: pods === undefined ? undefined : pods * perPod };
        },
        close: () => client.close(),
      },
      context,
    );
  },
});

/** The budget of a figure that contains the running requests. */
async function occupancyIn(figure: PrometheusFigure, signal: AbortSignal): Promise<MetricFinding> {
  const { samples, time } = await figure.ask(signal);
  return { budget: lowest(samples), problem: "", kind: "occupancy", maxSys: undefined, sampleTime: time };
}

/** A cascade without a result does not remove the other known figure: the number of model servers. */
async function budgetOf(cascade: BudgetCascade, signal: AbortSignal): Promise<MetricFinding> {
  try {
    const { samples, time, kind } = await cascade.ask(signal);
    return { budget: lowest(samples), problem: "", kind, maxSys: undefined, sampleTime: time };
  } catch (error) {
    if (signal.aborted) throw error;
    return unread(messageOf(error));
  }
}

/** One source of a pool's budget. */
interface CascadeSource {
  readonly kind: CapacityReading["kind"];
  ask(signal: AbortSignal): Promise<MetricAnswer>;
}

/** The source that answered, and its answer. */
interface CascadeAnswer extends MetricAnswer {
  readonly kind: CapacityReading["kind"];
}

/**
 * Sources in the order of preference: the first that answers with at least one sample counts, with any values
 * (async-processor 3.7). A change of the source is one line in the log.
 */
class BudgetCascade {
  readonly #sources: readonly CascadeSource[];
  readonly #pool: string;
  readonly #log: Logger;
  #resolved: number | undefined;

  constructor(sources: readonly CascadeSource[], pool: string, log: Logger) {
    this.#sources = sources;
    this.#pool = pool;
    this.#log = log;
  }

  /** @throws SluiceError METRIC_SOURCE when none has a sample; the signal's reason when it was aborted */
  async ask(signal: AbortSignal): Promise<CascadeAnswer> {
    const problems: string[] = [];
    for (const [index, source] of this.#sources.entries()) {
      try {
        const { samples, time } = await source.ask(signal);
        if (samples.length > 0) {
          this.#resolve(index);
          return { samples, time, kind: source.kind };
        }
        problems.push(`${index}: no samples`);
      } catch (error) {
        if (signal.aborted) throw error;
        problems.push(`${index}: ${messageOf(error)}`);
      }
    }
    throw new SluiceError("METRIC_SOURCE", `all metric sources unavailable (${problems.join("; ")})`);
  }

  #resolve(index: number): void {
    const previous = this.#resolved;
    if (previous === index) return;
    this.#resolved = index;
    const pool = this.#pool;
    if (previous === undefined) this.#log.info({ pool, sourceIndex: index }, "metric source resolved");
    else if (index === 0) this.#log.info({ pool }, "primary metric source recovered");
    else this.#log.info({ pool, fallbackIndex: index, previousIndex: previous }, "using fallback metric source");
  }
}

/**
 * The number of ready model servers of a pool. Each EPP replica publishes a series, and the largest counts; without a series,
 * the number of model servers with a queue in the metrics (async-processor 2.7).
 *
 * The number and the budget are two questions, and a scrape that fails between them removes the number from one answer. Without
 * a number the workers count as max_SYS, which may be more. So the last known number stays for as long as a sample may.
 */
class ReadyPods {
  readonly #client: PrometheusClient;
  readonly #selection: PoolSelection;
  readonly #clock: Clock;
  readonly #kept: number;
  #known: { readonly pods: number; readonly at: number } | undefined;

  /** @param kept milliseconds for which the last number counts when the metrics give none */
  constructor(client: PrometheusClient, selection: PoolSelection, clock: Clock, kept: number) {
    this.#client = client;
    this.#selection = selection;
    this.#clock = clock;
    this.#kept = kept;
  }

  /** @returns undefined when the number is not known, and was not known lately */
  async count(signal: AbortSignal): Promise<number | undefined> {
    const pods =
      (await largest(this.#client, readyPodsQuery(this.#selection), signal)) ??
      (await largest(this.#client, queuedPodsQuery(this.#selection), signal));
    const now = this.#clock.now();
    if (pods !== undefined) this.#known = { pods, at: now };
    else if (this.#known !== undefined && now - this.#known.at > this.#kept) this.#known = undefined;
    return this.#known?.pods;
  }
}

async function largest(client: PrometheusClient, query: string, signal: AbortSignal): Promise<number | undefined> {
  try {
    const { samples } = await client.query(query, signal);
    const values = samples.map(({ value }) => value).filter((value) => Number.isFinite(value) && value >= 0);
    return values.length === 0 ? undefined : values.reduce((a, b) => Math.max(a, b));
  } catch {
    // The budget itself may still be known.
    return undefined;
  }
}

import { z } from "zod";
import { messageOf } from "../../base/inference/errors.ts";
import { defineGate } from "../../base/plugin/gate.ts";
import { BudgetCascade } from "./budget-cascade.ts";
import { lowest } from "./lowest.ts";
import { type Finding, unread } from "./metric-capacity.ts";
import { metricGate } from "./metric-gate.ts";
import {
  baselineParameter,
  capacityKey,
  fallbackParameter,
  knownCapacity,
  METRIC_PARAMETERS,
  namespaceParameter,
  plausibleAges,
  poolParameter,
} from "./metric-parameters.ts";
import { PROMETHEUS_TIMEOUT, PrometheusFigure, prometheusOf } from "./metric-sources/prometheus.ts";
import { booleanParameter, floatParameter } from "./parameters.ts";
import { budgetQueries } from "./promql.ts";
import { readyPods } from "./ready-pods.ts";

const TYPE = "prometheus-budget";

/** Requests that wait do not show what runs; requests that run do (async-processor D-13). */
const KINDS = ["queue-only", "queue-only", "occupancy"] as const;

export const prometheusBudgetGate = defineGate({
  type: TYPE,
  shared: true,
  describe: "Open as far as the queues of a pool, or else its running requests, leave capacity free.",
  parameters: z
    .strictObject({
      pool: poolParameter,
      namespace: namespaceParameter,
      max_concurrency: floatParameter({ default: 100, moreThan: 0 }).describe(
        "Requests that one ready model server takes; as `MaxConcurrency` of the Endpoint Picker's saturation detector.",
      ),
      baseline: baselineParameter(0.05),
      fallback: fallbackParameter,
      capacity_per_pod: floatParameter({ optional: true, moreThan: 0 }).describe(
        "What one ready model server takes in `unit`; default `max_concurrency` with unit `requests`.",
      ),
      robust: booleanParameter({ default: false }).describe(
        "Takes the largest of several series of ready pods, as several Endpoint Picker replicas publish them.",
      ),
      ...METRIC_PARAMETERS,
    })
    .superRefine((parameters, context) => {
      plausibleAges(parameters, context);
      const known = parameters.capacity_per_pod !== undefined;
      knownCapacity(parameters, known, context, "capacity_per_pod or max_sys");
    }),
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
    const perPod = parameters.capacity_per_pod ?? maxConcurrency;
    return metricGate(
      {
        key: capacityKey(TYPE, parameters),
        type: TYPE,
        pool,
        baseline,
        fallback: Math.min(1, fallback),
        configuredFallback: fallback,
        settings: parameters,
        limit: PROMETHEUS_TIMEOUT,
        async look(signal): Promise<Finding> {
          const counting = readyPods(client, { pool, namespace }, signal);
          const found = await budgetOf(cascade, signal);
          const pods = await counting;
          // An EPP without model servers goes on publishing what it saw last, as idle as it was.
          if (pods === 0) return { ...found, budget: undefined, problem: "no model server of the pool is ready" };
          return { ...found, maxSys: pods === undefined ? undefined : pods * perPod };
        },
        close: () => client.close(),
      },
      context,
    );
  },
});

/** A cascade that finds nothing does not take away what else is known: how many model servers there are. */
async function budgetOf(cascade: BudgetCascade, signal: AbortSignal): Promise<Finding> {
  try {
    const { samples, time, kind } = await cascade.ask(signal);
    return { budget: lowest(samples), problem: "", kind, maxSys: undefined, sampleTime: time };
  } catch (error) {
    if (signal.aborted) throw error;
    return unread(messageOf(error));
  }
}

import type { GateDefinition, MetricSourceDefinition } from "../../base/plugin/gate.ts";
import { compositeGate, tierPriorityAdmissionGate, waitOnRefuseGate } from "./composite.ts";
import { endpointScrapeGate } from "./endpoint-scrape.ts";
import { constantGate } from "./factory.ts";
import { localMaxConcurrencyGate } from "./local-max-concurrency.ts";
import { metricBudgetGate } from "./metric-budget.ts";
import { prometheusSource } from "./metric-sources/prometheus.ts";
import { scrapeSource } from "./metric-sources/scrape.ts";
import { prometheusBudgetGate, prometheusQueryGate, prometheusSaturationGate } from "./prometheus-gates.ts";
import { redisGate } from "./redis.ts";
import { redisQuotaGate } from "./redis-quota.ts";

/** The gates that read a metric. */
export const METRIC_GATES: readonly GateDefinition[] = [
  prometheusSaturationGate,
  prometheusBudgetGate,
  prometheusQueryGate,
  endpointScrapeGate,
  metricBudgetGate,
];

/** The sources that `metric-budget` can read its figure from. */
export const METRIC_SOURCES: readonly MetricSourceDefinition[] = [prometheusSource, scrapeSource];

/** The gates that read no metric of the inference system (async-processor 3.3). */
export const VERDICT_GATES: readonly GateDefinition[] = [
  constantGate,
  redisGate,
  redisQuotaGate,
  localMaxConcurrencyGate,
  compositeGate,
  waitOnRefuseGate,
  tierPriorityAdmissionGate,
];

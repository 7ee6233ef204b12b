import type { GateDefinition, MetricSourceDefinition } from "../../base/plugin/gate.ts";
import { endpointScrapeGate } from "./endpoint-scrape.ts";
import { metricBudgetGate } from "./metric-budget.ts";
import { prometheusSource } from "./metric-sources/prometheus.ts";
import { scrapeSource } from "./metric-sources/scrape.ts";
import { prometheusBudgetGate } from "./prometheus-budget.ts";
import { prometheusQueryGate } from "./prometheus-query.ts";
import { prometheusSaturationGate } from "./prometheus-saturation.ts";

/** The gates that read a metric. */
export const METRIC_GATES: readonly GateDefinition[] = [
  prometheusSaturationGate,
  prometheusBudgetGate,
  prometheusQueryGate,
  endpointScrapeGate,
  metricBudgetGate,
];

/** Where `metric-budget` can read its figure. */
export const METRIC_SOURCES: readonly MetricSourceDefinition[] = [prometheusSource, scrapeSource];

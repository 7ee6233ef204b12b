import type { MetricTable } from "./registry.ts";

/** Labels of one limit: the rule, by its key and model, and requests, tokens or in-flight. */
const LIMIT = ["rule", "kind"] as const;

/** Limits of the gateway by key and model. The rules of the limits file bound the labels. */
export const LIMIT_METRICS = {
  limit: {
    type: "gauge",
    name: "sluice_limit",
    help: "Requests or tokens in a minute, or requests in flight, that a rule allows. A rule with * allows them to each key or model.",
    labels: LIMIT,
  },
  limitUsed: {
    type: "gauge",
    name: "sluice_limit_used",
    help: "Use of a limit by all gateways that share it, as far as this one knows. For a rule with *: of the fullest counter.",
    labels: LIMIT,
  },
  limitRefusedTotal: {
    type: "counter",
    name: "sluice_limit_refused_total",
    help: "Requests that a limit refused.",
    labels: LIMIT,
  },
  limitCounters: {
    type: "gauge",
    name: "sluice_limit_counters",
    help: "Counters of limits in memory, at most 65,536.",
    labels: [],
  },
  limitCountersLostTotal: {
    type: "counter",
    name: "sluice_limit_counters_lost_total",
    help: "Counters that left a full table before they were empty. Above 0: clients invent more names or addresses than it holds.",
    labels: [],
  },
  limitsShared: {
    type: "gauge",
    name: "sluice_limits_shared",
    help: "1 = this gateway knows what the others use, 0 = Redis does not answer. By host and port of Redis; absent without shared limits.",
    labels: ["server"],
  },
  limitsFileRefused: {
    type: "gauge",
    name: "sluice_limits_file_refused",
    help: "1 = the limits file has an error, and the earlier limits are in force.",
    labels: [],
  },
} as const satisfies MetricTable;

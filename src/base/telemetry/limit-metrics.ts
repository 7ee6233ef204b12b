import type { MetricTable } from "./registry.ts";

/** Labels of one limit: the rule, by its key and model, and requests, tokens or in-flight. */
const LIMIT = ["rule", "kind"] as const;

/** Limits of the gateway by key and model. The rules of the limits file bound the labels. */
export const LIMIT_METRICS = {
  limit: {
    type: "gauge",
    name: "sluice_limit",
    help: "Limit of a rule: requests per minute, tokens per minute, or requests in flight. With *, each key or model has this limit.",
    labels: LIMIT,
  },
  limitUsed: {
    type: "gauge",
    name: "sluice_limit_used",
    help: "Use of a limit by all gateways that share the limit, as this gateway knows it. For a rule with *: use of the fullest counter.",
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
    help: "Counters that a full table dropped before they were empty. Above 0: clients send more names or addresses than the table holds.",
    labels: [],
  },
  limitsShared: {
    type: "gauge",
    name: "sluice_limits_shared",
    help: "1 = this gateway shares limits with the others, 0 = Redis does not answer. By host and port of Redis; absent without shared limits.",
    labels: ["server"],
  },
  limitsFileRefused: {
    type: "gauge",
    name: "sluice_limits_file_refused",
    help: "1 = the limits file has an error, and the earlier limits apply.",
    labels: [],
  },
} as const satisfies MetricTable;

import { describe, expect, it } from "vitest";
import { slowRead } from "../../../test/support/slow-exposition.ts";
import { createDispatchMetrics } from "./dispatch-metrics.ts";
import { render } from "./exposition.ts";
import { type AnyFamily, MetricsRegistry } from "./registry.ts";

const Q = "pool_name,queue_id,queue_name";
const G = `inference_pool,${Q}`;

/** Name without its prefix, type and labels in the order of the page, written down from async-processor 8.6. */
const EXPECTED: readonly (readonly [name: string, type: string, labels: string])[] = [
  ["request_total", "counter", Q],
  ["request_retries_total", "counter", Q],
  ["successful_requests_total", "counter", Q],
  ["failed_requests_total", "counter", Q],
  ["exceeded_deadline_requests_total", "counter", Q],
  ["shedded_requests_total", "counter", Q],
  ["queue_depth", "gauge", Q],
  ["inflight_requests", "gauge", Q],
  ["broker_backlog", "gauge", Q],
  ["dispatch_budget", "gauge", Q],
  ["pool_worker_limit", "gauge", "pool_name"],
  ["gate_decisions_total", "counter", `${Q},reason`],
  ["gate_metric_value", "gauge", G],
  ["gate_metric_threshold", "gauge", G],
  ["gate_metric_source_available", "gauge", G],
  ["inference_latency_time_millis", "histogram", Q],
  ["queue_residence_time_millis", "histogram", Q],
  ["message_latency_time_millis", "histogram", Q],
  ["claims_active", "gauge", Q],
  ["claims_reclaimed_total", "counter", Q],
  ["results_fenced_total", "counter", `${Q},reason`],
  ["results_recovered_total", "counter", Q],
  ["leases_recovered_total", "counter", Q],
  ["dead_lettered_total", "counter", Q],
  ["retry_backlog", "gauge", ""],
  ["overload_latch", "gauge", Q],
  ["dispatch_allowance", "gauge", Q],
  ["redis_write_retries_total", "counter", ""],
  ["expired_at_pull_total", "counter", Q],
  ["broker_backlog_poll_errors_total", "counter", Q],
  ["oldest_message_age_seconds", "gauge", Q],
  ["backlog_eta_seconds", "gauge", Q],
];

/** The `le` texts as Prometheus clients in Go print them. */
const BUCKETS: Readonly<Record<string, string>> = {
  inference_latency_time_millis: "10 25 50 100 250 500 1000 2500 5000 10000 30000 60000 120000",
  queue_residence_time_millis:
    "500 1000 2000 5000 10000 30000 60000 120000 300000 600000 1.8e+06 3.6e+06 7.2e+06 2.16e+07 4.32e+07 8.64e+07",
  message_latency_time_millis: "100 1000 5000 10000 20000 50000 100000 200000 500000 1e+06",
};

describe("createDispatchMetrics", () => {
  const registry = new MetricsRegistry();
  const families: Readonly<Record<string, AnyFamily>> = createDispatchMetrics(registry);
  for (const family of Object.values(families)) family.with(...family.labels.map((label) => `a ${label}`));
  const page = render(registry);
  const samples = slowRead(Buffer.from(page)).flatMap((line) => (line.sample === undefined ? [] : [line.sample]));

  it("has every name with its type and its labels in order, and no other (A-91)", () => {
    const found = [...page.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => {
      const sample = samples.find((candidate) => candidate.name === (type === "histogram" ? `${name}_sum` : name));
      return [name, type, Object.keys(sample!.labels).join(",")];
    });
    expect(found).toEqual(EXPECTED.map(([name, ...rest]) => [`llm_d_async_async_${name}`, ...rest]));
  });

  it("has the bounds of the reference (A-91)", () => {
    for (const [name, bounds] of Object.entries(BUCKETS)) {
      const bucket = `llm_d_async_async_${name}_bucket`;
      const texts = samples.filter((sample) => sample.name === bucket).map((sample) => sample.labels.le);
      expect(texts, name).toEqual([...bounds.split(" "), "+Inf"]);
    }
  });
});

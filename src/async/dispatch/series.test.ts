import { describe, expect, it } from "vitest";
import type { CapacityReading } from "../../base/plugin/gate.ts";
import { createDispatchMetrics } from "../../base/telemetry/dispatch-metrics.ts";
import { render } from "../../base/telemetry/exposition.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { GateSeries, QueueSeries } from "./series.ts";

const OWNER = { queueId: "q1", queueName: "request-sortedset", poolName: "default" };
const LABELS = '{pool_name="default",queue_id="q1",queue_name="request-sortedset"}';

function made() {
  const registry = new MetricsRegistry();
  const metrics = createDispatchMetrics(registry);
  /** Samples on the page without prefix, those of families without labels left out. */
  const samples = () =>
    render(registry)
      .split("\n")
      .filter((line) => line.includes("{") && !line.startsWith("#"))
      .map((line) => line.replace("llm_d_async_async_", ""));
  return { metrics, samples };
}

describe("QueueSeries", () => {
  it("shows four decisions at 0 and nothing else before the first event (A-91)", () => {
    const { metrics, samples } = made();
    new QueueSeries(metrics, OWNER);
    expect(samples()).toEqual(
      ["gate_closed", "quota_exhausted", "dropped", "error"].map(
        (reason) => `gate_decisions_total${LABELS.replace("}", `,reason="${reason}"}`)} 0`,
      ),
    );
  });

  it("leaves the queue labels of a pool's gate empty", () => {
    const { metrics, samples } = made();
    new QueueSeries(metrics, { queueId: "", queueName: "", poolName: "big" }).decision("quota_exhausted");
    expect(samples()).toContain(
      'gate_decisions_total{pool_name="big",queue_id="",queue_name="",reason="quota_exhausted"} 1',
    );
  });

  const events: readonly (readonly [sample: string, value: string, event: (series: QueueSeries) => void])[] = [
    ["request_total", "1", (series) => series.requested()],
    ["request_retries_total", "1", (series) => series.retried()],
    ["successful_requests_total", "1", (series) => series.succeeded()],
    ["failed_requests_total", "1", (series) => series.failed()],
    ["exceeded_deadline_requests_total", "1", (series) => series.deadlineExceeded()],
    ["shedded_requests_total", "1", (series) => series.shed()],
    ["queue_depth", "-1", (series) => series.depth(-1)],
    ["inflight_requests", "1", (series) => series.inFlight(1)],
    ["broker_backlog", "7", (series) => series.backlog(7)],
    ["broker_backlog_poll_errors_total", "1", (series) => series.backlogPollFailed()],
    ["dispatch_budget", "0.25", (series) => series.budget(0.25)],
    ["inference_latency_time_millis_sum", "40", (series) => series.latency(40)],
    ["queue_residence_time_millis_sum", "900", (series) => series.residence(900)],
    ["message_latency_time_millis_sum", "5000", (series) => series.messageLatency(5000)],
    ["claims_active", "3", (series) => series.claimsActive(3)],
    ["claims_reclaimed_total", "2", (series) => series.reclaimed(2)],
    ["results_recovered_total", "1", (series) => series.recovered()],
    ["leases_recovered_total", "5", (series) => series.leasesRecovered(5)],
    ["dead_lettered_total", "1", (series) => series.deadLettered()],
    ["dispatch_allowance", "30", (series) => series.allowance(30)],
    ["overload_latch", "1", (series) => series.latch(1)],
    ["expired_at_pull_total", "1", (series) => series.expiredAtPull()],
    ["oldest_message_age_seconds", "12.5", (series) => series.oldestAge(12.5)],
    ["backlog_eta_seconds", "+Inf", (series) => series.eta(Number.POSITIVE_INFINITY)],
  ];
  it.each(events)("%s appears with its first event, and with no other series", (sample, value, event) => {
    const { metrics, samples } = made();
    event(new QueueSeries(metrics, OWNER));
    const page = samples().filter((line) => !line.startsWith("gate_decisions_total"));
    expect(page).toContain(`${sample}${LABELS} ${value}`);
    expect(page.every((line) => line.startsWith(sample.replace(/_sum$/, "")))).toBe(true);
  });

  it("counts outcomes that were dropped by reason", () => {
    const { metrics, samples } = made();
    const series = new QueueSeries(metrics, OWNER);
    for (const reason of ["taken", "answered", "taken"] as const) series.fenced(reason);
    const labels = (reason: string): string => `${LABELS.slice(0, -1)},reason="${reason}"}`;
    expect(samples()).toContain(`results_fenced_total${labels("taken")} 2`);
    expect(samples()).toContain(`results_fenced_total${labels("answered")} 1`);
  });

  it("adds to the series it made first", () => {
    const { metrics, samples } = made();
    const series = new QueueSeries(metrics, OWNER);
    for (let i = 0; i < 3; i++) series.retried();
    series.inFlight(1);
    series.inFlight(1);
    series.inFlight(-1);
    expect(samples()).toEqual(
      expect.arrayContaining([`request_retries_total${LABELS} 3`, `inflight_requests${LABELS} 1`]),
    );
  });

  it("keeps the backlog while nobody knows it (A-94)", () => {
    const { metrics, samples } = made();
    const series = new QueueSeries(metrics, OWNER);
    series.backlog(70);
    series.backlog(Number.NaN);
    series.backlogPollFailed();
    expect(samples()).toContain(`broker_backlog${LABELS} 70`);
  });
});

describe("GateSeries", () => {
  const reading: CapacityReading = {
    ...{ readable: true, problem: "", budget: 0.7, baseline: 0.1, maxSys: 50, unit: "requests", kind: "occupancy" },
    ...{ sampleTime: 0, value: 0.7, threshold: 0.1 },
  };
  const G = '{inference_pool="vllm",pool_name="default",queue_id="q1",queue_name="request-sortedset"}';

  it("tells a source without a figure apart from a full one, and keeps the last figure (A-7)", () => {
    const { metrics, samples } = made();
    const series = new GateSeries(metrics, OWNER);
    series.reading("vllm", { ...reading, readable: false, value: 0 });
    expect(samples()).toEqual([`gate_metric_source_available${G} 0`]);
    series.reading("vllm", reading);
    series.reading("vllm", { ...reading, readable: false, value: Number.NaN });
    expect(samples()).toEqual([
      `gate_metric_value${G} 0.7`,
      `gate_metric_threshold${G} 0.1`,
      `gate_metric_source_available${G} 0`,
    ]);
    series.reading("vllm", { ...reading, value: 0 });
    expect(samples()).toContain(`gate_metric_value${G} 0`);
    expect(samples()).toContain(`gate_metric_source_available${G} 1`);
  });
});

import { describe, expect, it } from "vitest";
import { VirtualClock } from "../src/base/clock/virtual.ts";
import { BUCKET_METRICS, SHARED_BATCH_METRICS, WEBHOOK_METRICS } from "../src/base/telemetry/batch-api-metrics.ts";
import { createDispatchMetrics } from "../src/base/telemetry/dispatch-metrics.ts";
import { KV_METRICS } from "../src/base/telemetry/kv-metrics.ts";
import { createMetrics } from "../src/base/telemetry/names.ts";
import { PEER_METRICS } from "../src/base/telemetry/peer-metrics.ts";
import { ELECTION_METRICS } from "../src/base/telemetry/pool-metrics.ts";
import { startProcessMetrics } from "../src/base/telemetry/process.ts";
import { STREAM_METRICS } from "../src/base/telemetry/process-metrics.ts";
import { MetricsRegistry, registerTable } from "../src/base/telemetry/registry.ts";
import { renderMetricsReference } from "./metrics-reference.ts";

describe("renderMetricsReference", () => {
  const text = renderMetricsReference();

  it("describes every metric that a process registers, under every name", () => {
    const registry = new MetricsRegistry();
    createMetrics(registry);
    registerTable(registry, STREAM_METRICS);
    registerTable(registry, ELECTION_METRICS);
    registerTable(registry, PEER_METRICS);
    registerTable(registry, KV_METRICS);
    registerTable(registry, WEBHOOK_METRICS);
    registerTable(registry, BUCKET_METRICS);
    registerTable(registry, SHARED_BATCH_METRICS);
    createDispatchMetrics(registry);
    startProcessMetrics(registry, new VirtualClock())();
    for (const family of registry.refresh()) {
      expect(text).toContain(`\n### \`${family.name}\`\n\n${family.help}\n`);
      for (const twin of family.twins) expect(text).toContain(`\n* Deprecated name: \`${twin.name}\`,`);
    }
    expect(text.split("\n### ").length - 1).toBe(registry.refresh().length);
  });

  it("says type, labels, buckets, bound and the labels of older names", () => {
    const start = text.indexOf("### `llm_d_epp_per_endpoint_queue_size`");
    expect(text.slice(start, text.indexOf("\n### ", start))).toBe(`### \`llm_d_epp_per_endpoint_queue_size\`

[ALPHA] Requests waiting in one model server, at its last scrape.

* Type: gauge
* Labels: \`name\`, \`model_server_endpoint\`
* Series: at most 4096
* Deprecated name: \`inference_pool_per_pod_queue_size\`, labels: \`name\`, \`model_server_pod\`
`);
    expect(text).toContain("* Buckets: `0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1`\n");
    expect(text).toContain("### `sluice_buffered_bytes`\n");
    expect(text).toContain("* Labels: none\n");
  });
});

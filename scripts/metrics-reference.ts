import { BUCKET_METRICS, SHARED_BATCH_METRICS, WEBHOOK_METRICS } from "../src/base/telemetry/batch-api-metrics.ts";
import { DISPATCH_METRICS } from "../src/base/telemetry/dispatch-metrics.ts";
import { FLOW_CONTROL_METRICS } from "../src/base/telemetry/flow-control-metrics.ts";
import { KV_METRICS } from "../src/base/telemetry/kv-metrics.ts";
import { LIMIT_METRICS } from "../src/base/telemetry/limit-metrics.ts";
import { DEFAULT_MAX_SERIES, type TwinLabel } from "../src/base/telemetry/metric-spec.ts";
import { PEER_METRICS } from "../src/base/telemetry/peer-metrics.ts";
import { ELECTION_METRICS, KUBERNETES_METRICS, POOL_METRICS } from "../src/base/telemetry/pool-metrics.ts";
import {
  CONFIG_METRICS,
  PROCESS_METRICS,
  STREAM_METRICS,
  WIRE_METRICS,
} from "../src/base/telemetry/process-metrics.ts";
import type { MetricRow, MetricTable } from "../src/base/telemetry/registry.ts";
import { REQUEST_METRICS } from "../src/base/telemetry/request-metrics.ts";
import { SCHEDULER_METRICS } from "../src/base/telemetry/scheduler-metrics.ts";

const CHAPTERS: readonly (readonly [title: string, intro: string, table: MetricTable])[] = [
  ["Requests", "Requests of clients and their answers.", REQUEST_METRICS],
  ["Pool and endpoints", "The model servers, as scraped and as counted here.", POOL_METRICS],
  ["Flow control", "Requests that wait for room, and the saturation that decides.", FLOW_CONTROL_METRICS],
  ["Decisions and plugins", "How endpoints were chosen and what that took.", SCHEDULER_METRICS],
  [
    "KV-cache events",
    "The KV-cache blocks that engines announce. Shown for a precise-prefix-cache-producer with `enableMetrics` only.",
    KV_METRICS,
  ],
  ["Wires", "Streams, buffers and retries of this process.", WIRE_METRICS],
  ["Limits", "Limits by key and model, of `sluice gateway` only.", LIMIT_METRICS],
  ["Configuration", "The configuration of the process.", CONFIG_METRICS],
  ["Kubernetes", "How up to date the picture of the cluster is.", KUBERNETES_METRICS],
  ["Replicas that share", "Shown with `--peers` only.", PEER_METRICS],
  ["Leader election", "Shown with `--ha-enable-leader-election` only.", ELECTION_METRICS],
  ["Streams", "Shown with `--enable-grpc-stream-metrics` only.", STREAM_METRICS],
  [
    "Async Processor",
    "Queued work, of `sluice dispatch`, `sluice batch-server` and `sluice gateway --batch`.",
    DISPATCH_METRICS,
  ],
  ["Batch API: webhook", "Shown with `--batch-webhook` only.", WEBHOOK_METRICS],
  ["Batch API: bucket", "Shown with `--batch-files` only.", BUCKET_METRICS],
  ["Batch API: shared batches", "Shown with `--batch redis://...` only.", SHARED_BATCH_METRICS],
  ["Process", "The process itself, refreshed whenever the page is read.", PROCESS_METRICS],
];

/** The text of `docs/reference/metrics.md`: every metric with its labels, buckets and deprecated names, in Markdown. */
export function renderMetricsReference(): string {
  let text = `# Metrics

<!-- Generated from src/base/telemetry. Change the tables there, not this page. -->

Served at \`/metrics\` in the Prometheus text format. A metric with deprecated names is shown under each of them too, from
the same observations; where the older name has fewer labels, series are added up. A family keeps at most the stated
number of series: further label sets share one whose label values are all \`other\`.
`;
  for (const [title, intro, table] of CHAPTERS) {
    text += `\n## ${title}\n\n${intro}\n`;
    for (const row of Object.values(table)) text += renderRow(row);
  }
  return text;
}

function renderRow(row: MetricRow): string {
  let text = `\n### \`${row.name}\`\n\n${row.help}\n\n`;
  text += `* Type: ${row.type}\n`;
  text += `* Labels: ${list(row.labels ?? [])}\n`;
  if (row.type === "histogram") text += `* Buckets: \`${row.buckets.join(" ")}\`\n`;
  if (row.labels !== undefined && row.labels.length > 0)
    text += `* Series: at most ${row.maxSeries ?? DEFAULT_MAX_SERIES}\n`;
  for (const twin of row.twins ?? []) {
    text += `* Deprecated name: \`${twin.name}\`, labels: ${list((twin.labels ?? row.labels ?? []).map(labelName))}\n`;
  }
  return text;
}

function list(names: readonly string[]): string {
  return names.length === 0 ? "none" : names.map((name) => `\`${name}\``).join(", ");
}

function labelName(label: TwinLabel): string {
  return typeof label === "string" ? label : label.label;
}

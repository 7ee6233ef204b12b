import { STREAM } from "./buckets.ts";
import type { MetricTable } from "./metric-table.ts";

/** What is counted about ext_proc streams, with `--enable-grpc-stream-metrics` only (scheduling 8.5). */
export const STREAM_METRICS = {
  streamsInflight: {
    type: "gauge",
    name: "llm_d_epp_extproc_streams_inflight",
    help: "[ALPHA] ext_proc streams that are open.",
    labels: [],
  },
  streamDuration: {
    type: "histogram",
    name: "llm_d_epp_extproc_stream_duration_seconds",
    help: "[ALPHA] Seconds that an ext_proc stream was open.",
    labels: [],
    buckets: STREAM,
  },
  streamsTotal: {
    type: "counter",
    name: "llm_d_epp_extproc_streams_total",
    help: "[ALPHA] ext_proc streams that have ended, by gRPC status; a reset, Envoy's normal end, is Canceled.",
    labels: ["code"],
  },
} as const satisfies MetricTable;

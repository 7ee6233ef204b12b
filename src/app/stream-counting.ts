import type { Clock } from "../clock/clock.ts";
import { observeStreams } from "../grpc/observed-stream.ts";
import type { GrpcHandler } from "../grpc/transport.ts";
import { registerTable } from "../telemetry/metric-table.ts";
import type { MetricsRegistry } from "../telemetry/registry.ts";
import { STREAM_METRICS } from "../telemetry/stream-metrics.ts";

/** `handler`, with the metrics of `--enable-grpc-stream-metrics`; once per registry. */
export function countStreams(handler: GrpcHandler, registry: MetricsRegistry, clock: Clock): GrpcHandler {
  const { streamsInflight, streamDuration, streamsTotal } = registerTable(registry, STREAM_METRICS);
  const open = streamsInflight.with();
  const duration = streamDuration.with();
  return observeStreams(
    handler,
    {
      opened: () => open.inc(),
      closed(code, ms) {
        open.dec();
        duration.observe(ms / 1000);
        streamsTotal.with(code).inc();
      },
    },
    clock,
  );
}

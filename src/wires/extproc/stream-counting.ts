import type { Clock } from "../../base/clock/clock.ts";
import { observeStreams } from "../../base/grpc/observed-stream.ts";
import type { GrpcHandler } from "../../base/grpc/transport.ts";
import { STREAM_METRICS } from "../../base/telemetry/process-metrics.ts";
import { type MetricsRegistry, registerTable } from "../../base/telemetry/registry.ts";

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

import type { Clock } from "../../base/clock/clock.ts";
import { observeStreams } from "../../base/grpc/observed-stream.ts";
import type { GrpcHandler } from "../../base/grpc/transport.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import { STREAM_METRICS } from "../../base/telemetry/process-metrics.ts";
import { type MetricsRegistry, registerTable } from "../../base/telemetry/registry.ts";
import { Notices } from "./notices.ts";

/** The figures of the ext_proc port for the metrics page. */
interface ExtProcCounts {
  /** Open streams. */
  readonly streams: number;
  /** Streams ended by a reset since the start. */
  readonly resets: number;
  /** Open connections. */
  readonly connections: number;
  /** Refusals since the start, by kind. */
  readonly refused: Readonly<Record<(typeof REFUSED)[number], number>>;
}

const REFUSED = ["connections", "streams", "totalStreams", "certificate", "flood"] as const;

/**
 * Shows streams, resets and tolerated faults of proxies on the metrics page.
 * @returns a function that removes them from the page
 */
export function showExtProc(
  { registry, metrics }: { readonly registry: MetricsRegistry; readonly metrics: Metrics },
  port: ExtProcCounts,
  notices: Pick<Notices, "countOf">,
): () => void {
  const streams = metrics.extprocStreams.with();
  const resets = metrics.extprocResetsTotal.with();
  const connections = metrics.extprocConnections.with();
  const refusals = REFUSED.map((kind) => ({
    kind,
    counter: metrics.extprocRefusedTotal.with(kind === "totalStreams" ? "total_streams" : kind),
  }));
  const kinds = Notices.kinds.map((kind) => ({ kind, counter: metrics.extprocNoticesTotal.with(kind) }));
  return registry.onRender(() => {
    streams.set(port.streams);
    resets.inc(port.resets - resets.value);
    connections.set(port.connections);
    for (const { kind, counter } of refusals) counter.inc(port.refused[kind] - counter.value);
    for (const { kind, counter } of kinds) counter.inc(notices.countOf(kind) - counter.value);
  });
}

/** Returns `handler` with the metrics of `--enable-grpc-stream-metrics`. Call it once for each registry. */
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

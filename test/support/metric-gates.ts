import { METRIC_GATES, METRIC_SOURCES } from "../../src/async/gates/builtin-gates.ts";
import { GateFactory } from "../../src/async/gates/factory.ts";
import type { Clock } from "../../src/base/clock/clock.ts";
import { SeededRandom } from "../../src/base/clock/random.ts";
import type { CapacityReading, DispatchGate, GateMessage, MetricSourceDefinition } from "../../src/base/plugin/gate.ts";
import type { LogFields, Logger } from "../../src/base/telemetry/logger.ts";

export interface LogLine {
  readonly level: string;
  readonly fields: LogFields;
  readonly message: string;
}

/** A metric gate as a configuration makes it, with what it logs and what it says of itself in metrics. */
export interface MetricGateBench {
  readonly gate: DispatchGate;
  readonly logs: readonly LogLine[];
  /** What was reported, with the pool. */
  readonly figures: readonly { readonly pool: string; readonly reading: CapacityReading }[];
  /** The latest of `figures`. */
  shown(): CapacityReading;
  /** Reads the gate's capacity. */
  read(fresh?: boolean): Promise<CapacityReading>;
  close(): Promise<void>;
}

export interface MetricGateSetup {
  readonly clock: Clock;
  readonly prometheusUrl?: string;
  /** Milliseconds, default 0. */
  readonly cacheTtl?: number;
  readonly sources?: readonly MetricSourceDefinition[];
}

/** @throws SluiceError as at the start of the process */
export function metricGateBench(
  type: string,
  parameters: Readonly<Record<string, unknown>>,
  { clock, prometheusUrl, cacheTtl = 0, sources = [] }: MetricGateSetup,
): MetricGateBench {
  const logs: LogLine[] = [];
  const figures: { pool: string; reading: CapacityReading }[] = [];
  const factory = new GateFactory({
    definitions: METRIC_GATES,
    sources: [...METRIC_SOURCES, ...sources],
    clock,
    random: new SeededRandom(1),
    log: recordingLogger(logs),
    figures: () => ({ reading: (pool, reading) => void figures.push({ pool, reading }) }),
    prometheusUrl,
    cacheTtl,
    allowUnknown: false,
  });
  const gate = factory.make({ type, parameters }, { queueId: "q", queueName: "queue", poolName: "default" });
  return {
    gate,
    logs,
    figures,
    shown: () => figures.at(-1)!.reading,
    read: (fresh = false) => gate.capacities[0]!.read(fresh),
    close: () => factory.close(),
  };
}

/** A message that a gate is shown. */
export function gateMessage(more: Partial<GateMessage> = {}): GateMessage {
  return { id: "m", metadata: {}, labels: {}, deadline: 0, signal: new AbortController().signal, ...more };
}

function recordingLogger(lines: LogLine[]): Logger {
  const to = (level: string) => (fields: LogFields, message: string) => void lines.push({ level, fields, message });
  const logger: Logger = {
    debug: to("debug"),
    info: to("info"),
    warn: to("warn"),
    error: to("error"),
    child: () => logger,
  };
  return logger;
}

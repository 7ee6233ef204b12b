import { parseDuration } from "../../../base/document/duration.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import type { BatchingConfig } from "../../simulator/batching/config.ts";
import type { WorkloadDefinition } from "../../simulator/workloads/workload.ts";
import { wholeFlag } from "../flag-values.ts";
import { type SimulateCatalogue, type SimulateFlags, simulateSettings } from "../simulate-settings.ts";
import type { StudyPlan } from "../study.ts";
import { readTrace, type TraceSummary, type TraceWindow } from "./trace-reader.ts";
import { TRACE, traceTraffic } from "./trace-traffic.ts";

/** The flags of the command line, as text. */
export interface TraceFlags
  extends Omit<SimulateFlags, "rate" | "duration" | "cold" | "quick" | "bytesPerToken" | "seeds"> {
  readonly bytesPerToken?: string | undefined;
  /** Default: 1, as the arrivals are those of the trace with any seed. */
  readonly seeds?: string | undefined;
  readonly speed?: string | undefined;
  readonly window?: string | undefined;
  readonly maxModelLen?: string | undefined;
}

const SPEEDS = { least: 0.01, most: 1000 };
const MAX_MODEL_LEN = 10_000_000;
const SERVERS = 8;
const PRESET = "qwen3-32b-2xh100";
const MAX_REPEATED = 100;

/** A definition whose flags can be checked before a long file is read. */
const UNREAD: WorkloadDefinition = {
  name: TRACE,
  about: "",
  ...{ rates: [1], rateUnit: "requests/s", servers: SERVERS, preset: PRESET, durationMs: 1000 },
  make: () => ({ start() {} }),
};

/**
 * Reads a trace, and plans a study of it.
 * @throws SluiceError FLAG_VALUE, FLAG_CONFLICT before the file is read; the errors of `readTrace`
 */
export async function traceSettings(
  file: string,
  flags: TraceFlags,
  catalogue: SimulateCatalogue,
): Promise<{ readonly plan: StudyPlan; readonly summary: TraceSummary }> {
  const window = windowOf(flags.window);
  const speed = speedOf(flags.speed);
  const maxModelLen =
    flags.maxModelLen === undefined ? undefined : wholeFlag(flags.maxModelLen, "--max-model-len", 2, MAX_MODEL_LEN);
  const { workloads, ...plan } = simulateSettings(
    [TRACE],
    { ...flags, seeds: flags.seeds ?? "1" },
    { ...catalogue, workloads: [UNREAD] },
  );
  const planned = workloads[0]!;
  const config: BatchingConfig = {
    ...planned.preset.config,
    ...(maxModelLen === undefined ? {} : { maxModelLen }),
  };
  const room = config.kvBlocks * config.blockSize;
  if (maxModelLen !== undefined && maxModelLen > room)
    throw new SluiceError(
      "FLAG_VALUE",
      `--max-model-len is ${maxModelLen}, but the KV cache of ${planned.preset.name} has ${room} tokens; give at most that`,
    );
  const trace = await readTrace(file, { window, speed, contextLength: Math.min(config.maxModelLen, room) });
  const definition = { ...UNREAD, ...traceTraffic(trace) };
  const { rates, durationMs } = definition;
  const workload = { ...planned, preset: { ...planned.preset, config }, definition, rates, durationMs };
  return { plan: { ...plan, workloads: [workload] }, summary: trace.summary };
}

/** `10m` = the first ten minutes, `5m..15m` = the ten minutes after the first five. */
function windowOf(text: string | undefined): TraceWindow {
  if (text === undefined) return { from: 0, to: Number.POSITIVE_INFINITY };
  const [first = "", second, ...more] = text.split("..");
  const [from, to] = second === undefined ? [0, timeIn(first)] : [timeIn(first), timeIn(second)];
  if (more.length === 0 && from >= 0 && to > from) return { from, to };
  throw new SluiceError(
    "FLAG_VALUE",
    `--window is ${JSON.stringify(text.slice(0, MAX_REPEATED))}; give the length of the part from the start of the trace, ` +
      "for example 10m, or its begin and end, for example 5m..15m",
  );
}

/** Milliseconds; NaN for anything else. */
function timeIn(text: string): number {
  try {
    return parseDuration(text);
  } catch {
    return Number.NaN;
  }
}

function speedOf(text: string | undefined): number {
  if (text === undefined) return 1;
  const speed = Number(text);
  if (/^\d*\.?\d+$/.test(text) && speed >= SPEEDS.least && speed <= SPEEDS.most) return speed;
  throw new SluiceError(
    "FLAG_VALUE",
    `--speed is ${JSON.stringify(text.slice(0, MAX_REPEATED))}; give a factor from ${SPEEDS.least} to ${SPEEDS.most}: with 2, requests arrive twice as fast`,
  );
}

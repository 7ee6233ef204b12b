import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
} from "@opentelemetry/sdk-trace";
import type { Logger } from "./logger.ts";

const DEFAULT = "parentbased_always_on";
const SAMPLERS = new Map<string, (ratio: number) => Sampler>([
  ["always_on", () => new AlwaysOnSampler()],
  ["always_off", () => new AlwaysOffSampler()],
  ["traceidratio", (ratio) => new TraceIdRatioBasedSampler(ratio)],
  [DEFAULT, () => new ParentBasedSampler({ root: new AlwaysOnSampler() })],
  ["parentbased_always_off", () => new ParentBasedSampler({ root: new AlwaysOffSampler() })],
  ["parentbased_traceidratio", (ratio) => new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) })],
]);

/**
 * The sampler that `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG` name; as OpenTelemetry has it, a value that cannot
 * be used is warned about and counts as not set.
 */
export function samplerOf(name: string | undefined, argument: string | undefined, log: Logger): Sampler {
  const wanted = name?.trim().toLowerCase() || DEFAULT;
  const make = SAMPLERS.get(wanted);
  if (make === undefined)
    log.warn({ value: name, known: [...SAMPLERS.keys()] }, `OTEL_TRACES_SAMPLER is not known; using ${DEFAULT}`);
  const text = argument?.trim() ?? "";
  const ratio = text === "" ? 1 : Number(text);
  const legal = ratio >= 0 && ratio <= 1;
  if (!legal && wanted.endsWith("traceidratio"))
    log.warn({ value: argument }, "OTEL_TRACES_SAMPLER_ARG is no number from 0 to 1; using 1");
  return (make ?? SAMPLERS.get(DEFAULT)!)(legal ? ratio : 1);
}

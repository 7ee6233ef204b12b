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

/** Share of the traces that begin here which is sampled unless the environment says otherwise (scheduling 9.1). */
const DEFAULT_RATIO = 0.1;

/**
 * The one sampler the reference has: traces that began elsewhere are sampled if they are there, of those that begin here a
 * share. Another name is an error that is logged, and counts as not set, as does its argument (scheduling 9.1).
 */
export function ratioSamplerOf(name: string | undefined, argument: string | undefined, log: Logger): Sampler {
  const wanted = name?.trim().toLowerCase() || "parentbased_traceidratio";
  const text = argument?.trim() ?? "";
  let ratio = text === "" ? DEFAULT_RATIO : Number(text);
  if (wanted !== "parentbased_traceidratio") {
    log.error(
      { value: name },
      `OTEL_TRACES_SAMPLER can only be parentbased_traceidratio; using it with ${DEFAULT_RATIO}`,
    );
    ratio = DEFAULT_RATIO;
  } else if (!(ratio >= 0 && ratio <= 1)) {
    log.error({ value: argument }, `OTEL_TRACES_SAMPLER_ARG is no number from 0 to 1; using ${DEFAULT_RATIO}`);
    ratio = DEFAULT_RATIO;
  }
  return new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) });
}

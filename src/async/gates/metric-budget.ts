import { z } from "zod";
import { SluiceError } from "../../base/inference/errors.ts";
import { defineGate, type GateContext, type GatePart, type MetricSource } from "../../base/plugin/gate.ts";
import { highest, lowest, type MetricFinding, metricGate } from "./metric-gate.ts";
import {
  baselineParameter,
  fallbackParameter,
  knownCapacity,
  METRIC_PARAMETERS,
  plausibleAges,
} from "./metric-parameters.ts";
import { choiceParameter, floatParameter, objectParameter, stringParameter } from "./parameters.ts";

/** Milliseconds that a user's source may take. */
const LIMIT = 10_000;

const source = z.strictObject({ type: stringParameter(), parameters: objectParameter({ default: {} }) });
type SourceSpec = z.output<typeof source>;

const SOURCE = "a metric source, with `type` and, where the type needs them, `parameters`";

export const metricBudgetGate = defineGate({
  type: "metric-budget",
  shared: true,
  describe:
    "Lets as many messages pass as the figure of a metric source allows. The other metric gates are special forms of this gate.",
  parameters: z
    .strictObject({
      source: objectParameter().pipe(source).describe(`Where the figure comes from: ${SOURCE}.`),
      value: choiceParameter(["budget", "saturation"], { default: "budget" }).describe(
        "Meaning of the figure: `budget` = the share of the capacity that is free, `saturation` = the share that is taken.",
      ),
      kind: choiceParameter(["occupancy", "queue-only"], { default: "occupancy" }).describe(
        "Work that the figure counts: `occupancy` = also running work; `queue-only` = only waiting work.",
      ),
      baseline: baselineParameter(0.05),
      fallback: fallbackParameter,
      max_concurrency: floatParameter({ optional: true, moreThan: 0 }).describe(
        "Capacity of one model server in `unit`; needs `pods_source`.",
      ),
      pods_source: objectParameter({ default: {} })
        .transform((found) => (Object.keys(found).length === 0 ? undefined : found))
        .pipe(source.optional())
        .describe(`Where the number of ready model servers comes from: ${SOURCE}.`),
      pool: stringParameter({ default: "" }).describe(
        "Value of the label `inference_pool` in the gate's own metrics; no other effect.",
      ),
      ...METRIC_PARAMETERS,
    })
    .superRefine((parameters, context) => {
      plausibleAges(parameters, context);
      const known = parameters.max_concurrency !== undefined;
      knownCapacity(parameters, known, context, "max_concurrency or max_sys");
      if (known === (parameters.pods_source !== undefined)) return;
      const missing = known ? "pods_source" : "max_concurrency";
      context.addIssue({
        code: "custom",
        path: [missing],
        message: "is missing: give max_concurrency and pods_source together",
      });
    }),
  parts: ({ source, pods_source }) => [
    sourcePart(source, "source"),
    ...(pods_source === undefined ? [] : [sourcePart(pods_source, "pods_source")]),
  ],
  create(parameters, context) {
    const { value, kind, baseline, fallback, max_concurrency: perPod, pool } = parameters;
    const figure = sourceOf(parameters.source, context);
    const pods = parameters.pods_source === undefined ? undefined : sourceOf(parameters.pods_source, context);
    return metricGate(
      {
        type: "metric-budget",
        pool,
        baseline,
        fallback,
        settings: parameters,
        limit: LIMIT,
        async look(signal): Promise<MetricFinding> {
          const [{ samples, time }, servers] = await Promise.all([figure.query(signal), pods?.query(signal)]);
          const count = servers === undefined ? undefined : highest(servers.samples);
          if (count !== undefined && count <= 0)
            throw new SluiceError("METRIC_SOURCE", "no model server of the pool is ready");
          if (Number.isNaN(time)) throw new SluiceError("METRIC_SOURCE", "the samples have no timestamp");
          return {
            budget: value === "budget" ? lowest(samples) : 1 - highest(samples),
            problem: "",
            kind,
            maxSys: count === undefined || perPod === undefined ? undefined : count * perPod,
            // A time in the future would outlast every overload.
            sampleTime: Math.min(time, context.clock.wall()),
          };
        },
        // Sources belong to their creator, who may share them among gates.
        close: async () => {},
      },
      context,
    );
  },
});

function sourcePart({ type, parameters }: SourceSpec, key: string): GatePart {
  return {
    ...{ kind: "metric-source", type, parameters },
    typePath: [key, "type"],
    parametersPath: [key, "parameters"],
  };
}

function sourceOf({ type, parameters }: SourceSpec, context: GateContext): MetricSource {
  return context.metricSource(type, parameters);
}

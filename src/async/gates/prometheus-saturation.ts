import { z } from "zod";
import { defineGate } from "../../base/plugin/gate.ts";
import { lowest } from "./lowest.ts";
import { metricGate } from "./metric-gate.ts";
import {
  capacityKey,
  knownCapacity,
  METRIC_PARAMETERS,
  namespaceParameter,
  plausibleAges,
  poolParameter,
} from "./metric-parameters.ts";
import { PROMETHEUS_TIMEOUT, PrometheusFigure, prometheusOf } from "./metric-sources/prometheus.ts";
import { floatParameter } from "./parameters.ts";
import { saturationQuery } from "./promql.ts";

const TYPE = "prometheus-saturation";

export const prometheusSaturationGate = defineGate({
  type: TYPE,
  shared: true,
  describe: "Open while the saturation that the Endpoint Picker publishes for a pool is below a threshold.",
  parameters: z
    .strictObject({
      pool: poolParameter,
      namespace: namespaceParameter,
      threshold: floatParameter({ default: 0.8, moreThan: 0, max: 1 }).describe(
        "Saturation from which on the gate is closed, above 0 and at most 1.",
      ),
      fallback: floatParameter({ default: 1 }).describe(
        "Saturation that is assumed while the metric cannot be read; from `threshold` up the gate is closed then.",
      ),
      ...METRIC_PARAMETERS,
    })
    .superRefine((parameters, context) => {
      plausibleAges(parameters, context);
      knownCapacity(parameters, false, context, "max_sys");
    }),
  create(parameters, context) {
    const { pool, namespace, threshold, fallback, metric_lag: metricLag } = parameters;
    const client = prometheusOf(context);
    const built = saturationQuery({ pool, namespace });
    context.log.info({ pool, query: built.query }, "prometheus-saturation metric source");
    const figure = new PrometheusFigure(client, { ...built, metricLag });
    return metricGate(
      {
        key: capacityKey(TYPE, parameters),
        type: TYPE,
        pool,
        baseline: 1 - threshold,
        fallback: Math.max(0, threshold - Math.max(0, fallback)),
        configuredFallback: fallback,
        settings: parameters,
        limit: PROMETHEUS_TIMEOUT,
        async look(signal) {
          const { samples, time } = await figure.ask(signal);
          return { budget: lowest(samples), problem: "", kind: "occupancy", maxSys: undefined, sampleTime: time };
        },
        close: () => client.close(),
      },
      context,
    );
  },
});

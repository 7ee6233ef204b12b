import { z } from "zod";
import { defineGate } from "../../base/plugin/gate.ts";
import { lowest } from "./lowest.ts";
import { metricGate } from "./metric-gate.ts";
import {
  capacityKey,
  fallbackParameter,
  knownCapacity,
  METRIC_PARAMETERS,
  plausibleAges,
} from "./metric-parameters.ts";
import { PROMETHEUS_TIMEOUT, PrometheusFigure, prometheusOf } from "./metric-sources/prometheus.ts";
import { stringParameter } from "./parameters.ts";

const TYPE = "prometheus-query";

export const prometheusQueryGate = defineGate({
  type: TYPE,
  shared: true,
  describe: "Open as far as a PromQL query of your own says, from 0 to 1.",
  parameters: z
    .strictObject({
      query: stringParameter().describe("PromQL, sent as it is; gives the budget: closed at 0 and below, all at 1."),
      fallback: fallbackParameter,
      pool: stringParameter({ default: "" }).describe("Only for the label `inference_pool` of the gate's own metrics."),
      ...METRIC_PARAMETERS,
    })
    .superRefine((parameters, context) => {
      plausibleAges(parameters, context);
      knownCapacity(parameters, false, context, "max_sys");
    }),
  create(parameters, context) {
    const { query, fallback, pool, metric_lag: metricLag } = parameters;
    const client = prometheusOf(context);
    const figure = new PrometheusFigure(client, { query, timestampQuery: undefined, metricLag });
    return metricGate(
      {
        key: capacityKey(TYPE, parameters),
        type: TYPE,
        pool,
        baseline: 0,
        fallback: Math.min(1, fallback),
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

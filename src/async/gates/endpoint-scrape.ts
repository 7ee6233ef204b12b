import { z } from "zod";
import { SluiceError } from "../../base/inference/errors.ts";
import { defineGate } from "../../base/plugin/gate.ts";
import { highest, lowest, type MetricFinding, metricGate, total } from "./metric-gate.ts";
import {
  baselineParameter,
  fallbackParameter,
  knownCapacity,
  METRIC_PARAMETERS,
  plausibleAges,
} from "./metric-parameters.ts";
import { PageScrape, SCRAPE_TIMEOUT } from "./metric-sources/scrape.ts";
import { choiceParameter, floatParameter, stringParameter, textMapParameter } from "./parameters.ts";

export const endpointScrapeGate = defineGate({
  type: "endpoint-scrape",
  shared: true,
  describe:
    "Lets as many messages pass as free capacity allows. The gate reads the load from a metrics page and needs no Prometheus.",
  parameters: z
    .strictObject({
      url: stringParameter().describe("Address of the page with the load."),
      metric: stringParameter().describe(
        "Name of the metric with the load: a count, or a saturation if `max_count_per_pod` is 0.",
      ),
      labels: textMapParameter().describe("Labels that a sample of the load must have."),
      combine: choiceParameter(["highest", "sum"], { default: "highest" }).describe(
        "How several samples become one load: `highest` = the highest sample; `sum` = the sum of all samples, for example with one queue for each tenant.",
      ),
      max_count_per_pod: floatParameter({ default: 0, min: 0 }).describe(
        "The load at which one model server is full. Set 0 if the metric is a saturation from 0 to 1.",
      ),
      baseline: baselineParameter(0),
      fallback: fallbackParameter,
      pods_url: stringParameter({ optional: true }).describe("Address of the page with the number of model servers."),
      pods_metric: stringParameter({ optional: true }).describe(
        "Name of the metric with the number of model servers; without this parameter the number is 1.",
      ),
      pods_labels: textMapParameter().describe("Labels that a sample of `pods_metric` must have."),
      ...METRIC_PARAMETERS,
    })
    .superRefine((parameters, context) => {
      plausibleAges(parameters, context);
      knownCapacity(parameters, parameters.max_count_per_pod > 0, context, "max_count_per_pod or max_sys");
      if ((parameters.pods_url === undefined) === (parameters.pods_metric === undefined)) return;
      const missing = parameters.pods_url === undefined ? "pods_url" : "pods_metric";
      context.addIssue({
        code: "custom",
        path: [missing],
        message: "is missing: give pods_url and pods_metric together",
      });
    }),
  create(parameters, context) {
    const { url, metric, labels, combine, max_count_per_pod: perPod, baseline, fallback } = parameters;
    const load = new PageScrape({ url, metric, labels }, context.clock);
    const { pods_url: podsUrl, pods_metric: podsMetric, pods_labels: podsLabels } = parameters;
    const pods =
      podsUrl === undefined || podsMetric === undefined
        ? undefined
        : new PageScrape({ url: podsUrl, metric: podsMetric, labels: podsLabels }, context.clock);
    return metricGate(
      {
        type: "endpoint-scrape",
        pool: "",
        baseline,
        fallback,
        settings: parameters,
        limit: SCRAPE_TIMEOUT,
        async look(signal): Promise<MetricFinding> {
          const [{ samples, time }, servers] = await Promise.all([load.query(signal), pods?.query(signal)]);
          const count = servers === undefined ? 1 : lowest(servers.samples);
          if (count <= 0) throw new SluiceError("METRIC_SOURCE", `the number of model servers is ${count}`);
          const capacity = count * perPod;
          const found = combine === "sum" ? total(samples) : highest(samples);
          const saturation = capacity > 0 ? found / capacity : found;
          return {
            budget: 1 - Math.min(1, Math.max(0, saturation)),
            problem: "",
            kind: "occupancy",
            maxSys: capacity > 0 ? capacity : undefined,
            sampleTime: Math.min(time, servers?.time ?? time),
          };
        },
        close: async () => {
          await Promise.all([load.close(), pods?.close()]);
        },
      },
      context,
    );
  },
});

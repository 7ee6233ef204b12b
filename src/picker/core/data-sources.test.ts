import { describe, expect, it } from "vitest";
import { load } from "../../../test/support/config/real.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { UNKNOWN_METRICS } from "../../base/inference/endpoint.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { metricsSettings, NO_METRICS_FLAGS } from "./metrics-settings.ts";

const HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";

function problems(text: string): readonly string[] {
  try {
    load(HEAD + text);
    return [];
  } catch (error) {
    if (error instanceof SluiceError) return error.message.split("\n").map((line) => line.replace(/.*?c:/, ""));
    throw error;
  }
}

const settings = (text: string) =>
  metricsSettings(load(HEAD + text), NO_METRICS_FLAGS, {
    ...{ clock: new VirtualClock(), random: new SeededRandom(1), log: silentLogger },
  });
const DCGM = "plugins: [{type: dcgm-data-source}, {type: dcgm-extractor}]\n";
const listed = (source: string, ...extractors: string[]) =>
  `dataLayer: {sources: [{pluginRef: ${source}, extractors: [${extractors.map((name) => `{pluginRef: ${name}}`).join(", ")}]}]}\n`;

describe("sources besides the metrics of model servers (scheduling 1.8)", () => {
  it("are fetched apart: they say nothing of the load", () => {
    const { none, sidePages, metricsPage } = settings(
      `plugins: [{type: dcgm-data-source, parameters: {port: 9401, path: /gpu, interval: 2s, useNodeAddress: true}}, {type: dcgm-extractor}]\n${listed("dcgm-data-source", "dcgm-extractor")}`,
    );
    expect([none, metricsPage.path, sidePages.length]).toEqual([false, "/metrics", 1]);
    expect(sidePages[0]).toMatchObject({
      ...{ sourceType: "dcgm-data-source", extractorType: "dcgm-extractor" },
      ...{ scheme: "http", port: 9401, path: "/gpu", interval: 2000, useNodeAddress: true, insecureSkipVerify: true },
    });
    // Without an interval as often as the flag says.
    const usual = settings(`${DCGM}${listed("dcgm-data-source", "dcgm-extractor")}`);
    expect(usual.sidePages[0]).toMatchObject({ interval: 50, port: 9400, useNodeAddress: false });
  });

  it("may share a page with the usual extractor: pages of one text format", () => {
    const { sidePages, none } = settings(
      `plugins: [{type: metrics-data-source}, {type: core-metrics-extractor}, {type: dcgm-extractor}]\n${listed("metrics-data-source", "core-metrics-extractor", "dcgm-extractor")}`,
    );
    expect([none, sidePages.length, sidePages[0]!.sourceType]).toEqual([false, 1, "metrics-data-source"]);
  });

  it("do not replace the source of metrics", () => {
    const only = `${DCGM}${listed("dcgm-data-source", "dcgm-extractor")}`;
    const names = (text: string) => load(HEAD + text).dataSources.map(({ source }) => source.name);
    expect(names(only)).toEqual(["dcgm-data-source", "metrics-data-source"]);
    const alone = only.replace("{sources", "{injectDefaults: false, sources");
    expect(names(alone)).toEqual(["dcgm-data-source"]);
    expect(load(HEAD + alone).warnings.join()).toContain("without a source, Sluice reads no metrics");
    expect(settings(alone)).toMatchObject({ none: true, sidePages: [{ port: 9400 }] });
  });

  it("tell producers and topology-extractor alone", () => {
    const endpoints = (name: string, plugin: string) =>
      problems(
        `plugins: [{type: endpoint-notification-source}, {type: ${plugin}}]\n${listed("endpoint-notification-source", name)}`,
      );
    expect(endpoints("approx-prefix-cache-producer", "approx-prefix-cache-producer")).toEqual([]);
    expect(endpoints("queue-scorer", "queue-scorer")).toEqual([
      "4:79: dataLayer.sources[0].extractors[0].pluginRef: the plugin queue-scorer is a scorer, and this source notifies only producers; name a producer",
    ]);
    const pods = (kind: string, plugin: string) =>
      problems(
        `plugins: [{type: k8s-notification-source, parameters: {version: v1, kind: ${kind}}}, {type: ${plugin}}]\n${listed("k8s-notification-source", plugin)}`,
      );
    expect(pods("Pod", "topology-extractor")).toEqual([]);
    expect(pods("Pod", "approx-prefix-cache-producer")).toEqual([
      "4:74: dataLayer.sources[0].extractors[0].pluginRef: the plugin approx-prefix-cache-producer cannot read pods; name a topology-extractor",
    ]);
    expect(pods("Service", "topology-extractor").join()).toContain("write Pod");
    expect(
      settings(
        `plugins: [{type: endpoint-notification-source}, {type: no-hit-lru-producer}]\n${listed("endpoint-notification-source", "no-hit-lru-producer")}`,
      ).sidePages,
    ).toEqual([]);
  });

  it("warn of an attribute that nothing writes, with the near miss", () => {
    const reader = (attribute: string, producer: string) =>
      `plugins: [{type: dcgm-data-source}, {type: dcgm-extractor}, {type: queue-scorer}, {type: endpoint-attribute-filter, parameters: {attribute: ${attribute}, producer: ${producer}, algorithm: {type: threshold, threshold: {operator: LessThan, value: 1}}}}]\n${listed("dcgm-data-source", "dcgm-extractor")}`;
    const warnings = (text: string) => load(HEAD + text).warnings;
    expect(warnings(reader("GPUUtilization", "dcgm-extractor"))).toEqual([]);
    expect(warnings(reader("GPUUtilisation", "dcgm-extractor"))).toEqual([
      "c:3:83: plugin endpoint-attribute-filter reads the attribute GPUUtilisation, which no endpoint has; did you mean `GPUUtilization` of dcgm-extractor?",
    ]);
    expect(warnings(reader("custom.depth", "core-metrics-extractor"))).toEqual([
      "c:3:83: plugin endpoint-attribute-filter reads the attribute custom.depth, which no endpoint has; configure core-metrics-extractor in dataLayer.sources to write it",
    ]);
  });

  it("read clusters whatever their labels say, with means that are not whole", () => {
    const { dialects } = settings(
      `plugins: [{type: multicluster-metrics-data-source}, {type: multicluster-metrics-extractor, parameters: {queueSizeMetric: "other_queue{pool=p}", kvCacheUtilizationMetric: ""}}]\n${listed("multicluster-metrics-data-source", "multicluster-metrics-extractor")}`,
    );
    const page = Buffer.from('other_queue{pool="p"} 1.5\nllm_d_epp_average_kv_cache_utilization 0.25\n');
    const reader = dialects.of({ "llm-d.ai/engine-type": "vllm", "inference.networking.k8s.io/engine-type": "vllm" });
    const { metrics, missing } = reader.createReader().read(page, page.length, UNKNOWN_METRICS, 7);
    expect(metrics).toMatchObject({ waiting: 1.5, kvUsage: 0.25, scrapedAt: 7 });
    expect([...metrics.attributes!]).toEqual([
      ["llm-d.ai/multicluster-kv-cache-utilization/", 0.25],
      ["llm-d.ai/multicluster-queue-size/", 1.5],
    ]);
    expect(missing).toEqual([]);
  });

  it("read custom metrics, and miss what the page lacks", () => {
    const { dialects } = settings(
      "plugins: [{type: core-metrics-extractor, parameters: {defaultEngine: o, engineConfigs: [{name: o, customMetrics: [{attributeKey: a, metricSpec: 'm{x=\"1\"}'}, {attributeKey: b, metricSpec: n}]}]}}, {type: metrics-data-source}]\n",
    );
    const reader = dialects.of({}).createReader();
    const read = (text: string) => reader.read(Buffer.from(text), text.length, UNKNOWN_METRICS, 0);
    const first = read('m{x="2"} 5\nm{x="1"} -2.5\nn 3\n');
    expect([...first.metrics.attributes!]).toEqual([
      ["a/core-metrics-extractor", -2.5],
      ["b/core-metrics-extractor", 3],
    ]);
    const second = read('m{x="1"} 4\n');
    expect([...second.metrics.attributes!]).toEqual([["a/core-metrics-extractor", 4]]);
    expect([second.found, second.missing]).toEqual([1, ["n"]]);
  });
});

import { describe, expect, it } from "vitest";
import { load } from "../../../../test/support/config/real.cases.ts";
import { columnsOf, endpointOf, scoresOf } from "../../../../test/support/scheduling/fakes.cases.ts";
import { expectPick } from "../../testing/expect-pick.ts";
import {
  multiclusterApproxPrefixCacheProducer,
  multiclusterKvCacheUtilizationScorer,
  multiclusterPrefixCacheScorer,
  multiclusterQueueScorer,
} from "./multicluster.ts";

const clusters = columnsOf(
  [
    { waiting: 0.5, kvUsage: 0.25 },
    { waiting: 2.5, kvUsage: 1 },
    { waiting: 1.5, kvUsage: 0 },
  ].map((metrics, slot) => endpointOf(slot, { metrics })),
);

describe("the multicluster plugins (scheduling 1.8, 3.9)", () => {
  it("score clusters by the means of their pools", () => {
    expect(scoresOf(multiclusterQueueScorer, clusters)).toEqual([1, 0, 0.5]);
    expect(scoresOf(multiclusterKvCacheUtilizationScorer, clusters)).toEqual([0.75, 0, 1]);
  });

  it("send a prompt to the cluster that had its beginning", () => {
    const prompt = "all work and no play ".repeat(100);
    const pick = expectPick({
      plugins: [multiclusterApproxPrefixCacheProducer, multiclusterPrefixCacheScorer],
      endpoints: [{ name: "east" }, { name: "west" }, { name: "north" }],
      earlier: [{ prompt, id: "1" }],
      request: { prompt, id: "2" },
      seed: 5,
    });
    expect(pick.tied).toHaveLength(1);
    expect(pick.scores["multicluster-prefix-cache-scorer"]![pick.endpoint!]).toBe(1);
  });

  it("are refused where nothing collects what they score by", () => {
    const head =
      "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: multicluster-queue-scorer\n";
    expect(() => load(head)).toThrow(
      "c:4:3: plugins[0]: plugin multicluster-queue-scorer needs the data of a multicluster-metrics-extractor, but no source in dataLayer.sources has this extractor; add it",
    );
    const collected = `${head}- type: multicluster-metrics-data-source
- type: multicluster-metrics-extractor
dataLayer:
  sources:
  - pluginRef: multicluster-metrics-data-source
    extractors: [{pluginRef: multicluster-metrics-extractor}]
`;
    // The usual source reads pages of model servers, which clusters do not have.
    expect(load(collected).dataSources.map(({ source }) => source.name)).toEqual(["multicluster-metrics-data-source"]);
  });
});

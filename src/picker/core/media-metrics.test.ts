import { describe, expect, it } from "vitest";
import {
  columnsOf,
  endpointOf,
  instanceOf,
  produceContextOf,
  requestOf,
} from "../../../test/support/scheduling/fakes.cases.ts";
import { MEDIA_MATCHED_ITEMS, MEDIA_TOTAL_ITEMS } from "../../base/plugin/keys.ts";
import { render } from "../../base/telemetry/exposition.ts";
import { createMetrics } from "../../base/telemetry/names.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { mmEmbeddingsCacheProducer } from "../scheduling/plugins/media/mm-embeddings-cache.ts";
import { countMedia } from "./media-metrics.ts";

describe("the counters of media (scheduling 8.5)", () => {
  it("have the published names and labels, and count each look-up once", () => {
    const registry = new MetricsRegistry();
    const metrics = createMetrics(registry);
    const producer = instanceOf(mmEmbeddingsCacheProducer);
    const instances = [
      { name: "media", type: "mm-embeddings-cache-producer", instance: producer },
      { name: "other", type: "other", instance: {} },
    ];
    const endpoints = [endpointOf(0), endpointOf(1)];
    const request = requestOf(
      '[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a/b.png"}}]}]',
    );
    for (let i = 0; i < 2; i++) {
      const columns = columnsOf(endpoints, [
        [MEDIA_MATCHED_ITEMS, []],
        [MEDIA_TOTAL_ITEMS, []],
      ]);
      producer.produce(produceContextOf(columns, request));
      producer.routed!(request, endpoints[1]!, new Map());
      countMedia(metrics, instances);
      countMedia(metrics, instances);
    }
    const page = render(registry);
    const labels = 'plugin_name="media",plugin_type="mm-embeddings-cache-producer"';
    expect(page).toContain(`llm_d_epp_encoder_cache_queries_total{${labels},modality="image"} 2\n`);
    expect(page).toContain(`llm_d_epp_encoder_cache_hits_total{${labels},pod="default/pod-1",modality="image"} 1\n`);
    // Two candidates, twice: one of the four held the image.
    expect(page).toContain(`llm_d_epp_encoder_cache_hit_ratio_bucket{${labels},le="0"} 3\n`);
    expect(page).toContain(`llm_d_epp_encoder_cache_hit_ratio_count{${labels}} 4\n`);
  });
});

import { describe, expect, it } from "vitest";
import { pluginContextOf } from "../../../test/support/plugin-context.ts";
import { endpointOf } from "../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { render } from "../../base/telemetry/exposition.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { objectivesFromFlags } from "../../pool/resources/objectives.ts";
import { loadConfig } from "../config/load.ts";
import type { SubscriptionEvents } from "../kv-events/sockets.ts";
import { PrecisePrefixCache } from "../scheduling/plugins/prefix/precise-cache.ts";
import { precisePrefixCacheProducer } from "../scheduling/plugins/prefix/precise-prefix-cache.ts";
import { InferenceCore } from "./inference-core.ts";
import { KvEventMetrics } from "./kv-event-metrics.ts";
import { PLUGIN_REGISTRY } from "./plugins/plugins.ts";

const CONFIG = (enableMetrics: boolean): string => `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: precise-prefix-cache-producer
  parameters: {indexerConfig: {kvBlockIndexConfig: {enableMetrics: ${enableMetrics}}}}
- type: prefix-cache-scorer
`;

function pageOf(config: string): string {
  const core = new InferenceCore({
    ...{
      clock: new VirtualClock(),
      random: new SeededRandom(1),
      staleness: 2000,
      ignoreSubset: false,
      log: silentLogger,
    },
    config: loadConfig(parseDocument(config, { file: "c" }), PLUGIN_REGISTRY),
    models: { objectives: objectivesFromFlags([]) },
  });
  return render(core.registry);
}

describe("the metrics of KV-cache events (scheduling 8.8)", () => {
  it("are on the page with enableMetrics only", () => {
    expect(pageOf(CONFIG(false))).not.toContain("kv_cache");
    const page = pageOf(CONFIG(true));
    expect(page).toContain("llm_d_epp_kv_cache_index_lookup_requests_total 0");
    expect(page).toContain("kvcache_index_lookup_requests_total 0");
    expect(page).toContain("llm_d_epp_kv_cache_events_pool_capacity 1");
  });

  it("count what publishers send, and never fall", () => {
    const heard: SubscriptionEvents[] = [];
    const plugin = new PrecisePrefixCache(
      precisePrefixCacheProducer.parameters.parse({
        indexerConfig: { kvBlockIndexConfig: { enableMetrics: true } },
      }) as never,
      pluginContextOf("exact"),
      {
        subscribe(_address, _topic, _bind, events) {
          heard.push(events);
          return { close() {} };
        },
        replay: () => ({ close() {} }),
      },
    );
    const registry = new MetricsRegistry();
    const metrics = new KvEventMetrics(registry);
    const plan = { producers: [{ name: "exact", type: "precise-prefix-cache-producer", plugin, scope: undefined }] };
    metrics.watch(plan as never);
    const page = (): string => {
      metrics.show(plan as never);
      return render(registry);
    };
    plugin.endpointAdded(endpointOf(0));
    // [1.5, [["BlockStored", [1], nil, [7], 1]]], then the same again, then its removal, twice.
    const stored = Buffer.from("92cb3ff80000000000009195ab426c6f636b53746f7265649101c0910701", "hex");
    const removed = Buffer.from("92cb3ff80000000000009192ac426c6f636b52656d6f7665649101", "hex");
    for (const [sequence, payload] of [stored, stored, removed, removed, Buffer.from([0x90])].entries())
      void heard[0]!.message({ topic: "kv@a@m", sequence, payload });
    heard[0]!.disconnected();
    for (const text of [page(), page()]) {
      expect(text).toContain("llm_d_epp_kv_cache_index_admissions_total 1");
      expect(text).toContain("llm_d_epp_kv_cache_index_evictions_total 1");
      expect(text).toContain("kvcache_kvevents_dedup_removed_hashes_suppressed_total 1");
      expect(text).toContain("llm_d_epp_kv_cache_events_dedup_removed_hashes_forwarded_total 1");
      expect(text).toContain('llm_d_epp_kv_cache_events_messages_received_total{pod_identifier="default/pod-0"} 5');
      expect(text).toContain(
        'llm_d_epp_kv_cache_events_zmq_errors_total{pod_identifier="default/pod-0",operation="malformed"} 1',
      );
      expect(text).toContain(
        'llm_d_epp_kv_cache_events_subscriber_reconnections_total{pod_identifier="default/pod-0"} 1',
      );
      expect(text).toContain("llm_d_epp_kv_cache_events_active_subscribers 1");
    }
  });
});

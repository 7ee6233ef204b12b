import { render } from "../../base/telemetry/exposition.ts";
import type { GaugeFamily } from "../../base/telemetry/metric-types.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import type { SimEngine } from "./engine.ts";

/** Engines other than vLLM whose metric names the simulator knows. */
export type ForeignEngine = "sglang" | "trtllm-serve" | "triton-tensorrt-llm";

type Labels = Readonly<Record<string, string>>;
type Gauge = readonly [name: string, value: number, labels?: Labels];

/**
 * The metrics page of another engine: its load under that engine's names (scheduling 1.5) and nothing else.
 * @param model value of the label that names the model
 */
export function foreignPage(type: ForeignEngine, model: string, engine: SimEngine): string {
  const registry = new MetricsRegistry();
  const common: Labels = type === "triton-tensorrt-llm" ? { model, version: "1" } : { model_name: model };
  const families = new Map<string, GaugeFamily<readonly string[]>>();
  for (const [name, value, own] of gauges(type, engine)) {
    const labels = { ...common, ...own };
    let family = families.get(name);
    if (family === undefined) {
      family = registry.gauge({ name, help: "As the engine is now.", labels: Object.keys(labels) });
      families.set(name, family);
    }
    family.with(...Object.values(labels)).set(value);
  }
  return render(registry);
}

function gauges(type: ForeignEngine, { waiting, running, kv, config }: SimEngine): readonly Gauge[] {
  const { blockSize, kvCacheSize } = config;
  switch (type) {
    case "sglang":
      return [
        ["sglang:num_queue_reqs", waiting],
        ["sglang:num_running_reqs", running],
        ["sglang:token_usage", kv.usage],
        ["sglang:cache_config_info", 1, { page_size: String(blockSize), num_pages: String(kvCacheSize) }],
      ];
    case "trtllm-serve":
      return [
        ["trtllm_num_requests_waiting", waiting],
        ["trtllm_num_requests_running", running],
        ["trtllm_kv_cache_utilization", kv.usage],
        ["trtllm_kv_cache_tokens_per_block", blockSize],
        ["trtllm_kv_cache_max_blocks", kvCacheSize],
      ];
    case "triton-tensorrt-llm":
      return [
        ["nv_trt_llm_request_metrics", waiting, { request_type: "waiting" }],
        ["nv_trt_llm_request_metrics", running, { request_type: "scheduled" }],
        ["nv_trt_llm_kv_cache_block_metrics", kv.usage, { kv_cache_block_type: "fraction" }],
        ["nv_trt_llm_kv_cache_block_metrics", blockSize, { kv_cache_block_type: "tokens_per" }],
        ["nv_trt_llm_kv_cache_block_metrics", kvCacheSize, { kv_cache_block_type: "max" }],
      ];
  }
}

import { describe, expect, it } from "vitest";
import { type EndpointMetrics, UNKNOWN_METRICS } from "../../base/inference/endpoint.ts";
import { dialectsWith } from "./metrics-settings.ts";

type Names = Parameters<typeof dialectsWith>[0];

function read(names: Names, text: string, engine?: string): EndpointMetrics {
  const labels: Record<string, string> = engine === undefined ? {} : { "llm-d.ai/engine-type": engine };
  const page = Buffer.from(text);
  return dialectsWith(names).of(labels).createReader().read(page, page.length, UNKNOWN_METRICS, 0).metrics;
}

function failureOf(names: Names): string {
  try {
    dialectsWith(names);
  } catch (error) {
    return `${(error as { code: string }).code}: ${(error as Error).message}`;
  }
  throw new Error("accepted");
}

const VLLM = `vllm:num_requests_waiting 1
vllm:num_requests_running 2
vllm:gpu_cache_usage_perc 0.25
vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1
`;

describe("dialectsWith", () => {
  it("reads the metrics that flags name, and the others as built in", () => {
    const names: Names = {
      "total-queued-requests-metric": "nv_trt_llm_request_metrics{request_type=waiting}",
      "total-running-requests-metric": 'nv_trt_llm_request_metrics{request_type="scheduled"}',
      "kv-cache-usage-percentage-metric": "kv_share",
      "lora-info-metric": "my_loras",
      "cache-info-metric": "my_cache",
    };
    const page = `nv_trt_llm_request_metrics{request_type="waiting"} 7
nv_trt_llm_request_metrics{request_type="scheduled"} 8
kv_share 0.5
my_loras{max_lora="3",running_lora_adapters="a",waiting_lora_adapters=""} 5
my_cache{block_size="32",num_gpu_blocks="10"} 1
${VLLM}`;
    expect(read(names, page)).toMatchObject({
      ...{ waiting: 7, running: 8, kvUsage: 0.5, maxLora: 3, loraRunning: new Set(["a"]), blockSize: 32, blocks: 10 },
    });
    expect(read({ "total-queued-requests-metric": "kv_share" }, page)).toMatchObject({
      waiting: 0,
      running: 2,
      kvUsage: 0.25,
    });
  });

  it("takes no former name for a KV metric that is named (S-13)", () => {
    expect(read({}, VLLM).kvUsage).toBe(0.25);
    expect(read({ "kv-cache-usage-percentage-metric": "vllm:kv_cache_usage_perc" }, VLLM).kvUsage).toBeNaN();
    expect(read({ "kv-cache-usage-percentage-metric": "vllm:gpu_cache_usage_perc" }, VLLM).kvUsage).toBe(0.25);
  });

  it("collects nothing for an empty name, as charts for Triton ask", () => {
    const page = `${VLLM}vllm:lora_requests_info{max_lora="3",running_lora_adapters="a",waiting_lora_adapters=""} 5\n`;
    expect(read({ "lora-info-metric": "" }, page)).toMatchObject({
      waiting: 1,
      maxLora: Number.NaN,
      loraRunning: new Set(),
    });
  });

  it("lays the names over the default engine, whose other metrics stay (GAIE chart, modelServerType)", () => {
    const over = (defaultEngine: string, names: Names, text: string): EndpointMetrics => {
      const page = Buffer.from(text);
      const dialect = dialectsWith(names, { defaultEngine }).of({});
      return dialect.createReader().read(page, page.length, UNKNOWN_METRICS, 0).metrics;
    };
    const sglang = 'mine 3\nsglang:num_running_reqs 4\nsglang:cache_config_info{page_size="16",num_pages="10"} 1\n';
    expect(over("sglang", { "total-queued-requests-metric": "mine" }, sglang)).toMatchObject({
      ...{ waiting: 3, running: 4, blockSize: 16, blocks: 10 },
    });
    // trtllm-serve tells the sizes as values, whatever the family is that the chart names.
    const trtllm = "trtllm_kv_cache_tokens_per_block 32\ntrtllm_kv_cache_max_blocks 100\n";
    expect(over("trtllm-serve", { "cache-info-metric": "trtllm_cache_config_info" }, trtllm)).toMatchObject({
      ...{ blockSize: 32, blocks: 100 },
    });
  });

  it("leaves endpoints alone whose label says what they are", () => {
    const names: Names = { "total-queued-requests-metric": "mine" };
    expect(read(names, "mine 3\nsglang:num_queue_reqs 4\n", "sglang").waiting).toBe(4);
    expect(read(names, "mine 3\nsglang:num_queue_reqs 4\n", "unknown").waiting).toBe(3);
  });

  it("refuses at start what is no specification, by the name of the flag (S-10)", () => {
    for (const text of ["m{a}", "m{a=b", "9m"])
      expect(failureOf({ "lora-info-metric": text })).toMatch(/^FLAG_VALUE: --lora-info-metric: .*specification/);
    expect(
      failureOf({
        "total-queued-requests-metric": "",
        "total-running-requests-metric": "",
        "kv-cache-usage-percentage-metric": " ",
        "lora-info-metric": "",
        "cache-info-metric": "",
      }),
    ).toContain("FLAG_CONFLICT: --total-queued-requests-metric, --total-running-requests-metric,");
  });
});

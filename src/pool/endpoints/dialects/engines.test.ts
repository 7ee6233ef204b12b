import { describe, expect, it } from "vitest";
import { type EndpointMetrics, UNKNOWN_METRICS } from "../../../base/inference/endpoint.ts";
import type { ReadPage } from "./dialect.ts";
import { Dialects } from "./dialects.ts";
import type { EngineMapping } from "./engines.ts";

/** What a server of each kind says, as its documentation shows it; the figures are the same for all. */
const SGLANG = `# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="m",tp_rank="0"} 5.0
# HELP sglang:num_queue_reqs The number of requests in the waiting queue.
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{engine_type="unified",model_name="m",tp_rank="0"} 3.0
# HELP sglang:token_usage The token usage.
# TYPE sglang:token_usage gauge
sglang:token_usage{engine_type="unified",model_name="m",tp_rank="0"} 0.25
# TYPE sglang:cache_config_info gauge
sglang:cache_config_info{model_name="m",num_pages="1000",page_size="64"} 1.0
`;
const TRTLLM = `# TYPE trtllm_num_requests_waiting gauge
trtllm_num_requests_waiting{model_name="m",engine_type="trt"} 3
# TYPE trtllm_num_requests_running gauge
trtllm_num_requests_running{model_name="m",engine_type="trt"} 5
# TYPE trtllm_kv_cache_utilization gauge
trtllm_kv_cache_utilization{model_name="m",engine_type="trt"} 0.25
# TYPE trtllm_kv_cache_tokens_per_block gauge
trtllm_kv_cache_tokens_per_block{model_name="m",engine_type="trt"} 64
# TYPE trtllm_kv_cache_max_blocks gauge
trtllm_kv_cache_max_blocks{model_name="m",engine_type="trt"} 1000
`;
const TRITON_TRTLLM = `# HELP nv_trt_llm_request_metrics TRT LLM request metrics
# TYPE nv_trt_llm_request_metrics gauge
nv_trt_llm_request_metrics{model="m",request_type="context",version="1"} 1
nv_trt_llm_request_metrics{model="m",request_type="scheduled",version="1"} 5
nv_trt_llm_request_metrics{model="m",request_type="max",version="1"} 512
nv_trt_llm_request_metrics{model="m",request_type="active",version="1"} 8
nv_trt_llm_request_metrics{model="m",request_type="waiting",version="1"} 3
# HELP nv_trt_llm_kv_cache_block_metrics TRT LLM KV cache block metrics
# TYPE nv_trt_llm_kv_cache_block_metrics gauge
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="m",version="1"} 250
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="m",version="1"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="m",version="1"} 0.25
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="m",version="1"} 1000
`;
const FIGURES = { waiting: 3, running: 5, kvUsage: 0.25, blockSize: 64, blocks: 1000 };

function reader(engine: string, engines: readonly EngineMapping[] = []) {
  const pages = new Dialects(engines).of({ "llm-d.ai/engine-type": engine }).createReader();
  return (text: string, previous: EndpointMetrics = UNKNOWN_METRICS): ReadPage => {
    const page = Buffer.from(text);
    return pages.read(page, page.length, previous, 7);
  };
}

describe("the built-in engines (scheduling 1.5, S-12)", () => {
  it.each([
    ["sglang", SGLANG],
    ["trtllm-serve", TRTLLM],
    ["triton-tensorrt-llm", TRITON_TRTLLM],
  ])("reads %s, page after page", (engine, page) => {
    const read = reader(engine);
    const expected = { ...UNKNOWN_METRICS, ...FIGURES, scrapedAt: 7 };
    expect(read(page)).toMatchObject({ metrics: expected, missing: [] });
    // The second page is compared with the first and read where it differs only.
    expect(read(page.replace(/ 5(\.0)?\n/, " 6$1\n"), expected).metrics).toEqual({ ...expected, running: 6 });
    expect(read(page, expected).metrics).toEqual(expected);
  });

  it.each([
    ["sglang", SGLANG],
    ["trtllm-serve", TRTLLM],
    ["triton-tensorrt-llm", TRITON_TRTLLM],
  ])("finds nothing of %s on a page of vLLM, and the other way round", (engine, page) => {
    const read = reader(engine)("vllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 0.5\n");
    expect(read.found).toBe(0);
    expect(reader("vllm")(page).found).toBe(0);
  });

  it("takes the queue of plain Triton and not its counter of executions, which only grows", () => {
    const read = reader("triton")(
      "nv_inference_pending_request_count 3\n# TYPE nv_inference_exec_count counter\nnv_inference_exec_count 99999\n",
    );
    expect(read).toMatchObject({ metrics: { waiting: 3, running: Number.NaN }, found: 1, missing: [] });
  });

  it("names what is missing by its specification", () => {
    expect(reader("triton-tensorrt-llm")('nv_trt_llm_request_metrics{request_type="waiting"} 3\n').missing).toEqual([
      'nv_trt_llm_request_metrics{request_type="scheduled"}',
      'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction"}',
      'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per"}',
      'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max"}',
    ]);
  });

  it("keeps block values that are gone (S-16), and forgets what the engine does not have", () => {
    const before = { ...UNKNOWN_METRICS, ...FIGURES, maxLora: 4, loraRunning: new Set(["a"]) };
    const without = TRTLLM.split("\n").slice(0, 6).join("\n");
    const { metrics, missing } = reader("trtllm-serve")(without, before);
    expect(metrics).toMatchObject({ blockSize: 64, blocks: 1000, maxLora: Number.NaN, loraRunning: new Set() });
    expect(missing).toEqual(["trtllm_kv_cache_tokens_per_block", "trtllm_kv_cache_max_blocks"]);
    expect(reader("triton")("nv_inference_pending_request_count 1\n", before).metrics).toMatchObject({
      blockSize: Number.NaN,
      blocks: Number.NaN,
    });
  });
});

describe("a mapping of one's own", () => {
  it("reads metrics by the labels it asks for; of several samples the later, then the first (S-11)", () => {
    const read = reader("own", [
      { name: "own", queued: 'q{state="waiting"}', running: "q{state=running,pool=a}", kvUsage: "kv" },
    ]);
    const page = (rows: string): EndpointMetrics => read(rows).metrics;
    expect(
      page('q{state="running"} 9\nq{state="waiting",pool="a"} 2\nq{state="running",pool="a",x="1"} 4\nkv 0.5\n'),
    ).toEqual({ ...UNKNOWN_METRICS, waiting: 2, running: 4, kvUsage: 0.5, scrapedAt: 7 });
    expect(
      page('q{state="waiting",i="0"} 1 1000\nq{state="waiting",i="1"} 2 3000\nq{state="running"} 7 9000\n').waiting,
    ).toBe(2);
    expect(page('q{state="waiting",i="0"} 1\nq{state="waiting",i="1"} 2\n').waiting).toBe(1);
    expect(
      page('q{state="waiting",engine="0"} 1\nq{state="waiting",engine="1"} 2\nq{state="x",engine="2"} 4\n').waiting,
    ).toBe(3);
  });

  it("reads a cache from labels and from values, and the value wins (scheduling 1.7)", () => {
    const both = {
      ...{ name: "own", queued: "queue_length", cacheInfo: "cache_info{gpu=0}" },
      ...{ blockSizeLabel: "size", blocksLabel: "count", blockSize: "block_tokens" },
    };
    const read = reader("own", [both]);
    const labels =
      'queue_length 1\ncache_info{gpu="1",size="8",count="9"} 1\ncache_info{gpu="0",size="16",count="100"} 1\n';
    expect(read(`${labels}block_tokens 32.9\n`)).toMatchObject({
      metrics: { blockSize: 32, blocks: 100 },
      missing: [],
    });
    expect(read(labels)).toMatchObject({ metrics: { blockSize: 16, blocks: 100 }, missing: ["block_tokens"] });
    const nameless = labels.replaceAll("size=", "other=");
    expect(read(`${nameless}block_tokens 32\n`)).toMatchObject({ metrics: { blockSize: 32 }, missing: [] });
  });

  it("in place of vLLM's has no former name to fall back to (S-13)", () => {
    const read = reader("vllm", [
      { name: "vllm", queued: "vllm:num_requests_waiting", kvUsage: "vllm:kv_cache_usage_perc" },
    ]);
    const page = "vllm:num_requests_waiting 1\nvllm:gpu_cache_usage_perc 0.5\n";
    expect(read(page)).toMatchObject({
      metrics: { waiting: 1, kvUsage: Number.NaN },
      missing: ["vllm:kv_cache_usage_perc"],
    });
    expect(reader("vllm")(page).metrics.kvUsage).toBe(0.5);
  });

  it("chooses among adapters' series by its labels, too", () => {
    const read = reader("own", [{ name: "own", queued: "q", lora: "lora{model=a}" }]);
    const series = (model: string, name: string, value: number): string =>
      `lora{model="${model}",max_lora="2",running_lora_adapters="${name}",waiting_lora_adapters=""} ${value}\n`;
    expect(read(`q 1\n${series("a", "x", 1)}${series("b", "y", 2)}`).metrics.loraRunning).toEqual(new Set(["x"]));
  });
});

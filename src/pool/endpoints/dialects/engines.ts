/** The metrics of one kind of model server, as metric specifications (scheduling 1.4, 1.5). Absent or "" = not collected. */
export interface EngineMapping {
  /** As in the label `llm-d.ai/engine-type`. */
  readonly name: string;
  /** Requests waiting. */
  readonly queued?: string;
  /** Requests executing. */
  readonly running?: string;
  /** KV-cache utilisation, 0..1. */
  readonly kvUsage?: string;
  /** Its former name, read when `kvUsage` has no value. */
  readonly kvUsageBefore?: string;
  /** A family with the labels of `vllm:lora_requests_info`. */
  readonly lora?: string;
  /** A family whose labels hold tokens per KV block and number of blocks. */
  readonly cacheInfo?: string;
  readonly blockSizeLabel?: string;
  readonly blocksLabel?: string;
  /** The same two as values; they win over the labels. */
  readonly blockSize?: string;
  readonly blocks?: string;
  /** Further numbers, which become attributes of the endpoint under `key`. */
  readonly attributes?: readonly { readonly key: string; readonly metric: string }[];
  /** Counts are means, and not whole. */
  readonly hasMeans?: boolean;
}

const TRITON_REQUESTS = "nv_trt_llm_request_metrics";
const TRITON_BLOCKS = "nv_trt_llm_kv_cache_block_metrics";

export const VLLM = {
  name: "vllm",
  queued: "vllm:num_requests_waiting",
  running: "vllm:num_requests_running",
  kvUsage: "vllm:kv_cache_usage_perc",
  // Up to V0 and early V1.
  kvUsageBefore: "vllm:gpu_cache_usage_perc",
  lora: "vllm:lora_requests_info",
  cacheInfo: "vllm:cache_config_info",
  blockSizeLabel: "block_size",
  blocksLabel: "num_gpu_blocks",
} as const satisfies EngineMapping;

/** The model servers known without configuration (scheduling 1.5). */
export const ENGINES: readonly EngineMapping[] = [
  VLLM,
  {
    name: "sglang",
    queued: "sglang:num_queue_reqs",
    running: "sglang:num_running_reqs",
    kvUsage: "sglang:token_usage",
    cacheInfo: "sglang:cache_config_info",
    blockSizeLabel: "page_size",
    blocksLabel: "num_pages",
  },
  {
    name: "trtllm-serve",
    queued: "trtllm_num_requests_waiting",
    running: "trtllm_num_requests_running",
    kvUsage: "trtllm_kv_cache_utilization",
    blockSize: "trtllm_kv_cache_tokens_per_block",
    blocks: "trtllm_kv_cache_max_blocks",
  },
  {
    name: "triton-tensorrt-llm",
    queued: `${TRITON_REQUESTS}{request_type=waiting}`,
    running: `${TRITON_REQUESTS}{request_type=scheduled}`,
    kvUsage: `${TRITON_BLOCKS}{kv_cache_block_type=fraction}`,
    blockSize: `${TRITON_BLOCKS}{kv_cache_block_type=tokens_per}`,
    blocks: `${TRITON_BLOCKS}{kv_cache_block_type=max}`,
  },
  {
    name: "triton",
    queued: "nv_inference_pending_request_count",
    // The reference reads nv_inference_exec_count as `running`, a counter that grows without bound.
  },
];

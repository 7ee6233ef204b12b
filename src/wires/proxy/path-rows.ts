/** What a request to a path does on a model server. */
export type PathKind =
  /** The server computes an answer from a prompt, and keeps no trace of it but its caches. */
  | "inference"
  /** The request reads a fact that every client may know, or computes without a model. */
  | "harmless"
  /** The request changes a server, or reads what only its operators may know; also each path that is in no list. */
  | "administration"
  /** Administration that the operator of the gateway allows (`--allow-path`). */
  | "allowed";

/** Paths of one kind with the same methods. */
export interface PathRow {
  readonly kind: Exclude<PathKind, "allowed">;
  /** `*` = every method. */
  readonly method: "GET" | "POST" | "*";
  /** `{name}` stands for one segment, a final `/*` for one or more segments. */
  readonly paths: readonly string[];
}

/**
 * The paths of vLLM, SGLang, TensorRT-LLM and Triton by kind. The parsers add theirs to the inference paths. The rows of
 * administration win over the parsers, so no suffix of a parser opens them; other paths need no row to be refused.
 */
export const PATH_ROWS: readonly PathRow[] = [
  {
    kind: "inference",
    method: "POST",
    paths: [
      "/v1/chat/completions/batch",
      "/v1/decisions",
      "/v1/audio/transcriptions",
      "/v1/audio/translations",
      "/v1/rerank",
      "/v1/score",
      "/v2/embed",
      "/v2/rerank",
      "/classify",
      "/encode",
      "/generate",
      "/generative_scoring",
      "/pooling",
      "/rerank",
      "/score",
      "/v2/models/{model}/generate",
      "/v2/models/{model}/generate_stream",
      "/v2/models/{model}/infer",
      "/v2/models/{model}/versions/{version}/generate",
      "/v2/models/{model}/versions/{version}/generate_stream",
      "/v2/models/{model}/versions/{version}/infer",
    ],
  },
  {
    kind: "harmless",
    method: "GET",
    paths: [
      "/v1/models",
      "/v1/models/*",
      "/version",
      "/health",
      "/health_generate",
      "/ping",
      "/get_model_info",
      "/model_info",
      "/v2",
      "/v2/health/live",
      "/v2/health/ready",
      "/v2/models/{model}",
      "/v2/models/{model}/ready",
      "/v2/models/{model}/versions/{version}",
      "/v2/models/{model}/versions/{version}/ready",
    ],
  },
  {
    kind: "harmless",
    method: "POST",
    paths: ["/tokenize", "/detokenize", "/v1/tokenize", "/v1/detokenize"],
  },
  {
    kind: "administration",
    method: "*",
    paths: [
      "/load_lora_adapter",
      "/unload_lora_adapter",
      "/v1/load_lora_adapter",
      "/v1/unload_lora_adapter",
      "/adapters",
      "/adapters/*",
      "/metrics",
      "/prometheus/metrics",
      "/perf_metrics",
      "/load",
      "/get_load",
      "/server_info",
      "/get_server_info",
      "/tokenizer_info",
      "/sleep",
      "/wake_up",
      "/is_sleeping",
      "/pause",
      "/resume",
      "/is_paused",
      "/pause_generation",
      "/continue_generation",
      "/abort_request",
      "/abort_requests",
      "/open_session",
      "/close_session",
      "/reset_prefix_cache",
      "/reset_mm_cache",
      "/reset_encoder_cache",
      "/flush_cache",
      "/kv_cache_events",
      "/collective_rpc",
      "/scale_elastic_ep",
      "/is_scaling_elastic_ep",
      "/init_weight_transfer_engine",
      "/update_weights",
      "/update_weights_from_disk",
      "/update_weights_from_distributed",
      "/update_weights_from_tensor",
      "/init_weights_update_group",
      "/get_weights_by_name",
      "/release_memory",
      "/resume_memory",
      "/release_memory_occupation",
      "/resume_memory_occupation",
      "/set_internal_state",
      "/configure_logging",
      "/start_profile",
      "/stop_profile",
      "/start_expert_distribution_record",
      "/stop_expert_distribution_record",
      "/dump_expert_distribution_record",
      "/v2/repository/*",
      "/v2/logging",
      "/v2/trace/setting",
      "/v2/systemsharedmemory/*",
      "/v2/cudasharedmemory/*",
      "/v2/models/stats",
      "/v2/models/{model}/stats",
      "/v2/models/{model}/config",
      "/v2/models/{model}/trace/setting",
    ],
  },
];

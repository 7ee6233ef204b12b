import type { Clock } from "../../base/clock/clock.ts";
import { render } from "../../base/telemetry/exposition.ts";
import type { Counter, GaugeFamily, Histogram } from "../../base/telemetry/metric-types.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import type { SimEngine } from "./engine.ts";
import type { Sequence, SequenceListener } from "./sequence.ts";

const FIRST_TOKEN = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
];
const PER_TOKEN = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80];
const REQUEST = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680];
const MODEL = ["model_name"] as const;

/** The metrics page of one server, under vLLM's names (envoy-data-plane 5.2). Observes one engine. */
export class SimMetrics implements SequenceListener {
  readonly #clock: Clock;
  readonly #model: string;
  readonly #maxModelLen: number;
  #page: Page;

  /** @param model value of the label `model_name`; @param maxModelLen last bound of the token-count buckets, in tokens */
  constructor(clock: Clock, model: string, maxModelLen: number) {
    this.#clock = clock;
    this.#model = model;
    this.#maxModelLen = maxModelLen;
    this.#page = newPage(model, maxModelLen);
  }

  onStart(sequence: Sequence): void {
    const page = this.#page;
    page.promptTokens.inc(sequence.promptTokens);
    page.prefixQueries.inc(sequence.promptTokens);
    page.prefixHits.inc(sequence.cachedTokens);
    page.queueTime.observe((sequence.startedAt - sequence.submittedAt) / 1000);
  }

  onToken(sequence: Sequence, count: number): void {
    const page = this.#page;
    page.generationTokens.inc(count);
    const first = sequence.produced === count;
    if (first) {
      page.firstToken.observe((sequence.firstTokenAt - sequence.submittedAt) / 1000);
      page.prefillTime.observe((sequence.firstTokenAt - sequence.startedAt) / 1000);
    }
    const gap = first ? 0 : (this.#clock.now() - sequence.lastTokenAt) / 1000 / count;
    for (let i = first ? 1 : 0; i < count; i++) {
      page.interToken.observe(gap);
      page.perToken.observe(gap);
    }
  }

  onFinish(sequence: Sequence): void {
    const page = this.#page;
    page.success.with(this.#model, sequence.finishReason).inc();
    const decode = (sequence.endedAt - sequence.firstTokenAt) / 1000;
    page.endToEnd.observe((sequence.endedAt - sequence.submittedAt) / 1000);
    page.inferenceTime.observe((sequence.endedAt - sequence.startedAt) / 1000);
    page.decodeTime.observe(decode);
    if (sequence.produced > 1) page.requestPerToken.observe(decode / (sequence.produced - 1));
    page.requestPromptTokens.observe(sequence.promptTokens);
    page.requestGenerationTokens.observe(sequence.produced);
    page.maxGenerationTokens.observe(sequence.produced);
    if (sequence.maxTokens !== undefined) page.paramsMaxTokens.observe(sequence.maxTokens);
  }

  onAbort(): void {
    this.#page.success.with(this.#model, "abort").inc();
  }

  /** Sets all counters and histograms to 0, as after a restart. */
  reset(): void {
    this.#page = newPage(this.#model, this.#maxModelLen);
  }

  /** The page in the Prometheus text format, with the engine's current gauges. */
  render(engine: SimEngine): string {
    const page = this.#page;
    page.running.set(engine.running);
    page.waiting.set(engine.waiting);
    page.kvUsage.set(engine.kv.usage);
    // One series: the current adapters. Readers take the series with the latest time stamp, and this one always has it.
    page.loraInfo.clear();
    page.loraInfo
      .with(String(engine.config.maxLoras), [...engine.lora.running].join(","), [...engine.lora.waiting].join(","))
      .set(this.#clock.wall() / 1000);
    page.cacheInfo.with(String(engine.config.blockSize), String(engine.config.kvCacheSize)).set(1);
    return render(page.registry);
  }
}

type Page = ReturnType<typeof newPage>;

function newPage(model: string, maxModelLen: number) {
  const registry = new MetricsRegistry();
  const gauge = (name: string, help: string, twins: { name: string }[] = []) =>
    registry.gauge({ name: `vllm:${name}`, help, labels: MODEL, twins }).with(model);
  const counter = (name: string, help: string): Counter =>
    registry.counter({ name: `vllm:${name}`, help, labels: MODEL }).with(model);
  const histogram = (name: string, help: string, buckets: readonly number[]): Histogram =>
    registry.histogram({ name: `vllm:${name}`, help, labels: MODEL, buckets }).with(model);
  const tokens = tokenBuckets(maxModelLen);
  return {
    registry,
    running: gauge("num_requests_running", "Requests executing."),
    waiting: gauge("num_requests_waiting", "Requests in the queue."),
    kvUsage: gauge("kv_cache_usage_perc", "Share of KV blocks that running requests hold, 0 to 1.", [
      { name: "vllm:gpu_cache_usage_perc" },
    ]),
    loraInfo: registry.gauge({
      name: "vllm:lora_requests_info",
      help: "LoRA adapters running and waiting; the value is the time in Unix seconds.",
      labels: ["max_lora", "running_lora_adapters", "waiting_lora_adapters"],
    }),
    cacheInfo: registry.gauge({
      name: "vllm:cache_config_info",
      help: "Size of the KV cache.",
      labels: ["block_size", "num_gpu_blocks"],
    }),
    promptTokens: counter("prompt_tokens_total", "Prompt tokens of requests that were started."),
    generationTokens: counter("generation_tokens_total", "Tokens generated."),
    success: registry.counter({
      name: "vllm:request_success_total",
      help: "Requests that ended, by reason.",
      labels: ["model_name", "finish_reason"],
    }),
    prefixHits: counter("prefix_cache_hits_total", "Prompt tokens found in the prefix cache."),
    prefixQueries: counter("prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache."),
    firstToken: histogram("time_to_first_token_seconds", "Time from arrival to the first token.", FIRST_TOKEN),
    interToken: histogram("inter_token_latency_seconds", "Time between two tokens.", PER_TOKEN),
    perToken: histogram("time_per_output_token_seconds", "Time between two tokens, older name.", PER_TOKEN),
    requestPerToken: histogram(
      "request_time_per_output_token_seconds",
      "Mean time between two tokens of a request.",
      PER_TOKEN,
    ),
    endToEnd: histogram("e2e_request_latency_seconds", "Time from arrival to the last token.", REQUEST),
    queueTime: histogram("request_queue_time_seconds", "Time in the queue.", REQUEST),
    inferenceTime: histogram("request_inference_time_seconds", "Time from start to the last token.", REQUEST),
    prefillTime: histogram("request_prefill_time_seconds", "Time from start to the first token.", REQUEST),
    decodeTime: histogram("request_decode_time_seconds", "Time from the first token to the last.", REQUEST),
    requestPromptTokens: histogram("request_prompt_tokens", "Prompt tokens of a request.", tokens),
    requestGenerationTokens: histogram("request_generation_tokens", "Tokens generated for a request.", tokens),
    paramsMaxTokens: histogram("request_params_max_tokens", "The max_tokens of a request.", tokens),
    maxGenerationTokens: histogram(
      "max_num_generation_tokens",
      "Most tokens generated for one sequence of a request.",
      tokens,
    ),
  };
}

/** 1, 2, 5, 10, 20, 50, ... up to `max`. */
export function tokenBuckets(max: number): number[] {
  const bounds: number[] = [];
  for (let unit = 1; unit <= max; unit *= 10) {
    for (const digit of [1, 2, 5]) if (digit * unit <= max) bounds.push(digit * unit);
  }
  return bounds;
}

/** Engines other than vLLM whose metric names the simulator knows. */
type ForeignEngine = "sglang" | "trtllm-serve" | "triton-tensorrt-llm";

type Labels = Readonly<Record<string, string>>;
type Gauge = readonly [name: string, value: number, labels?: Labels];

/**
 * The metrics page of another engine: only its load, under that engine's names (scheduling 1.5).
 * @param model value of the label for the model
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

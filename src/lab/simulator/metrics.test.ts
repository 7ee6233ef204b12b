import { describe, expect, it } from "vitest";
import { poll } from "../../../test/support/poll.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { Collector } from "../../pool/endpoints/collector.ts";
import { Dialects } from "../../pool/endpoints/dialects/dialects.ts";
import { EndpointRegistry } from "../../pool/endpoints/registry.ts";
import { ScrapeClient } from "../../pool/endpoints/scrape-client.ts";
import { SimEngine } from "./engine.ts";
import { DEFAULT_LATENCY } from "./latency.ts";
import { SimMetrics, tokenBuckets } from "./metrics.ts";
import { parseSimOptions } from "./options.ts";
import { startSimulator } from "./server.ts";

function setUp() {
  const clock = new VirtualClock(1_700_000_000_000);
  const metrics = new SimMetrics(clock, "m", 2000);
  const latency = { ...DEFAULT_LATENCY, prefillOverhead: 50, prefillTimePerToken: 0, interTokenLatency: 20 };
  const engine = new SimEngine({
    config: { latency, maxNumSeqs: 1 },
    clock,
    random: new SeededRandom(1),
    observer: metrics,
  });
  /** Value of a sample, by its text before the value. */
  const value = (sample: string): number => {
    const line = metrics
      .render(engine)
      .split("\n")
      .find((l) => l.startsWith(`${sample} `));
    return line === undefined ? Number.NaN : Number(line.slice(sample.length + 1));
  };
  return { clock, metrics, engine, value };
}

const GAUGES = ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "gpu_cache_usage_perc"];
const COUNTERS = ["prompt_tokens", "generation_tokens", "prefix_cache_hits", "prefix_cache_queries"];
const FIRST = "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 20 40 80 160 640 2560";
const TOKEN = "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5 5 7.5 10 20 40 80";
const REQUEST = "0.3 0.5 0.8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960 1920 7680";
const COUNT = "1 2 5 10 20 50 100 200 500 1000 2000";
const HISTOGRAMS: Record<string, string> = {
  time_to_first_token_seconds: FIRST,
  inter_token_latency_seconds: TOKEN,
  time_per_output_token_seconds: TOKEN,
  request_time_per_output_token_seconds: TOKEN,
  e2e_request_latency_seconds: REQUEST,
  request_queue_time_seconds: REQUEST,
  request_inference_time_seconds: REQUEST,
  request_prefill_time_seconds: REQUEST,
  request_decode_time_seconds: REQUEST,
  request_prompt_tokens: COUNT,
  request_generation_tokens: COUNT,
  request_params_max_tokens: COUNT,
  max_num_generation_tokens: COUNT,
};

it("D-63: every name, type, label and bucket of vLLM, from the first scrape on", () => {
  const { metrics, engine } = setUp();
  const page = metrics.render(engine);
  for (const name of GAUGES) {
    expect(page).toContain(`# TYPE vllm:${name} gauge\nvllm:${name}{model_name="m"} 0\n`);
  }
  for (const name of COUNTERS) {
    expect(page).toContain(`# TYPE vllm:${name}_total counter\nvllm:${name}_total{model_name="m"} 0\n`);
  }
  for (const [name, bounds] of Object.entries(HISTOGRAMS)) {
    expect(page).toContain(`# TYPE vllm:${name} histogram\n`);
    const found = [...page.matchAll(new RegExp(`^vllm:${name}_bucket\\{model_name="m",le="([^"]+)"\\} 0$`, "gm"))];
    expect(found.map((match) => (match[1] === "+Inf" ? "+Inf" : String(Number(match[1]))))).toEqual([
      ...bounds.split(" "),
      "+Inf",
    ]);
  }
  expect(page).toContain('vllm:cache_config_info{block_size="16",num_gpu_blocks="4096"} 1\n');
  expect(page).toMatch(
    /^vllm:lora_requests_info\{max_lora="1",running_lora_adapters="",waiting_lora_adapters=""\} 1\.7e\+09$/m,
  );
});

it("D-63: says what happened: counts, tokens, times in seconds", () => {
  const { clock, engine, value } = setUp();
  const spec = { prompt: 32, maxTokens: 3, ignoreEos: true };
  engine.submit(spec, {});
  engine.submit(spec, {});
  const label = '{model_name="m"}';
  expect([value(`vllm:num_requests_running${label}`), value(`vllm:num_requests_waiting${label}`)]).toEqual([1, 1]);
  expect(value(`vllm:kv_cache_usage_perc${label}`)).toBeCloseTo(2 / 4096, 9);
  clock.run();
  const aborted = engine.submit(spec, {});
  engine.abort(aborted);
  expect(value(`vllm:num_requests_running${label}`)).toBe(0);
  expect(value(`vllm:prompt_tokens_total${label}`)).toBe(96);
  expect(value(`vllm:generation_tokens_total${label}`)).toBe(6);
  expect(value('vllm:request_success_total{model_name="m",finish_reason="length"}')).toBe(2);
  expect(value('vllm:request_success_total{model_name="m",finish_reason="abort"}')).toBe(1);
  const both = (name: string) => [value(`vllm:${name}_count${label}`), value(`vllm:${name}_sum${label}`)];
  const close = (name: string, count: number, sum: number) => {
    expect(both(name)[0], name).toBe(count);
    expect(both(name)[1], name).toBeCloseTo(sum, 6);
  };
  // The second one waited 90 ms for the only slot: 50 ms prefill and two gaps of 20 ms.
  close("request_queue_time_seconds", 3, 0.09);
  close("time_to_first_token_seconds", 2, 0.05 + 0.14);
  close("request_prefill_time_seconds", 2, 0.1);
  close("inter_token_latency_seconds", 4, 0.08);
  close("time_per_output_token_seconds", 4, 0.08);
  close("request_time_per_output_token_seconds", 2, 0.04);
  close("request_decode_time_seconds", 2, 0.08);
  close("request_inference_time_seconds", 2, 0.18);
  close("e2e_request_latency_seconds", 2, 0.27);
  close("request_prompt_tokens", 2, 64);
  close("request_generation_tokens", 2, 6);
  close("request_params_max_tokens", 2, 6);
  close("max_num_generation_tokens", 2, 6);
});

it("reset starts all counters anew", () => {
  const { clock, engine, metrics, value } = setUp();
  engine.submit({ prompt: 32, maxTokens: 3 }, {});
  clock.run();
  metrics.reset();
  expect(value('vllm:prompt_tokens_total{model_name="m"}')).toBe(0);
  expect(value('vllm:e2e_request_latency_seconds_count{model_name="m"}')).toBe(0);
});

it("token buckets end at the context window", () => {
  expect(tokenBuckets(1024)).toEqual([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]);
  expect(tokenBuckets(2)).toEqual([1, 2]);
});

describe("a simulator of another engine", () => {
  it.each(["vllm", "sglang", "trtllm-serve", "triton-tensorrt-llm"])(
    "is read by the collector as %s, waiting, running, KV cache and its size (S-12)",
    async (engine) => {
      const simulator = await startSimulator(
        parseSimOptions({
          engine,
          host: "127.0.0.1",
          port: 0,
          "max-num-seqs": 1,
          "block-size": 8,
          "kv-cache-size": 100,
          // Nothing moves between a scrape and the look at the engine.
          "prefill-overhead": "1h",
        }),
      );
      const registry = new EndpointRegistry({ clock: realClock, random: new SeededRandom(1) });
      const labels = { "llm-d.ai/engine-type": engine };
      const address = { address: "127.0.0.1", port: simulator.port, rank: 0 };
      const endpoint = registry.upsert({ namespace: "default", name: engine, ...address, labels })!;
      const scraper = new ScrapeClient(realClock, new Dialects());
      let gaps = 0;
      const metrics = { pollFailed() {}, extractFailed: () => void gaps++ };
      const collector = new Collector({ clock: realClock, random: new SeededRandom(2), registry, scraper, metrics });
      const abort = new AbortController();
      try {
        collector.start();
        // Two requests for one place, the answer of the first never ends.
        const answers = [1, 2].map(() =>
          fetch(`${simulator.url}/v1/completions`, {
            method: "POST",
            body: JSON.stringify({ model: "sim", prompt: "a prompt of several words, ".repeat(20), max_tokens: 100 }),
            signal: abort.signal,
          }).catch(() => {}),
        );
        await poll("load", () => endpoint.metrics.waiting === 1);
        expect(endpoint.metrics).toMatchObject({ running: 1, blockSize: 8, blocks: 100 });
        expect(endpoint.metrics.kvUsage).toBe(simulator.engine.kv.usage);
        expect(endpoint.metrics.kvUsage).toBeGreaterThan(0.1);
        expect(gaps).toBe(0);
        abort.abort();
        await Promise.all(answers);
      } finally {
        abort.abort();
        await collector.close();
        await simulator.close();
      }
    },
  );
});

import { describe, expect, it } from "vitest";
import { poll } from "../../../test/support/poll.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { Collector } from "../../pool/endpoints/collector.ts";
import { Dialects } from "../../pool/endpoints/dialects/dialects.ts";
import { EndpointRegistry } from "../../pool/endpoints/registry.ts";
import { ScrapeClient } from "../../pool/endpoints/scrape-client.ts";
import { parseSimOptions } from "./options.ts";
import { startSimulator } from "./server.ts";

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

import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type EndpointMetrics, UNKNOWN_METRICS } from "../../../base/inference/endpoint.ts";
import { MappedDialect, type ReadPage } from "./dialect.ts";
import { VLLM } from "./engines.ts";

const dialect = new MappedDialect(VLLM);

function read(text: string, previous: EndpointMetrics = UNKNOWN_METRICS): ReadPage {
  const page = Buffer.from(text);
  return dialect.createReader().read(page, page.length, previous, 1234);
}

/** A whole page, with the lines of one family replaced. */
function page(replaced: Record<string, string> = {}): string {
  const families: Record<string, string> = {
    waiting: '# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine="0"} 3.0\n',
    running: '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine="0"} 5.0\n',
    kv: '# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{engine="0"} 0.25\n',
    cache: 'vllm:cache_config_info{block_size="16",num_gpu_blocks="27340"} 1.0\n',
    lora: "",
    ...replaced,
  };
  return Object.values(families).join("");
}

describe("MappedPages of vLLM", () => {
  it("reads a page of a real server", () => {
    const real = readFileSync(new URL("../../../../bench/data/vllm-metrics.txt", import.meta.url), "utf8")
      .replace("@WAIT@", "7.0")
      .replace("@RUNN@", "12.0")
      .replace("@KVUS@", "0.375");
    expect(read(real)).toEqual({
      metrics: {
        waiting: 7,
        running: 12,
        kvUsage: 0.375,
        maxLora: 4,
        loraRunning: new Set(["food-review", "sql-lora"]),
        loraWaiting: new Set(),
        blockSize: 16,
        blocks: 27467,
        scrapedAt: 1234,
      },
      found: 5,
      missing: [],
    });
  });

  it("takes what is there when a family is missing, and names the missing one (S-9)", () => {
    const { metrics, found, missing } = read(page({ kv: "" }));
    expect(metrics).toMatchObject({ waiting: 3, running: 5, scrapedAt: 1234 });
    expect(metrics.kvUsage).toBeNaN();
    expect(found).toBe(3);
    expect(missing).toEqual(["vllm:kv_cache_usage_perc"]);
  });

  it("finds nothing in garbage, and does not throw", () => {
    for (const text of [
      "",
      "\u0000\u0001",
      "<html>busy</html>",
      "vllm:num_requests_waiting",
      "{}",
      "a b c\n".repeat(9),
    ])
      expect(read(text)).toMatchObject({ found: 0 });
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        expect(dialect.createReader().read(bytes, bytes.length, UNKNOWN_METRICS, 0).found).toBeGreaterThanOrEqual(0);
      }),
    );
  });

  it("counts absurd values as missing", () => {
    for (const waiting of ["-1", "NaN", "+Inf", "1e300"])
      expect(read(page({ waiting: `vllm:num_requests_waiting ${waiting}\n` })).metrics.waiting).toBeNaN();
    for (const kv of ["1.01", "-0.1", "NaN", "+Inf", "55"])
      expect(read(page({ kv: `vllm:kv_cache_usage_perc ${kv}\n` })).metrics.kvUsage).toBeNaN();
    expect(read(page({ kv: "vllm:kv_cache_usage_perc 1\n" })).metrics.kvUsage).toBe(1);
    expect(read(page({ waiting: "vllm:num_requests_waiting 2.9\n" })).metrics.waiting).toBe(2);
  });

  it("accepts untyped samples and counters, not histograms or summaries (S-18)", () => {
    expect(read(page({ waiting: "vllm:num_requests_waiting 4\n" })).metrics.waiting).toBe(4);
    for (const [type, value] of [
      ["untyped", 4],
      ["counter", 4],
      ["histogram", Number.NaN],
      ["summary", Number.NaN],
    ] as const) {
      const { metrics } = read(
        page({ waiting: `# TYPE vllm:num_requests_waiting ${type}\nvllm:num_requests_waiting 4\n` }),
      );
      expect(metrics.waiting).toBe(value);
    }
  });

  it("prefers the later explicit timestamp; among samples without one the first (S-11)", () => {
    const two = (a: string, b: string): number =>
      read(page({ waiting: `vllm:num_requests_waiting{m="x"} ${a}\nvllm:num_requests_waiting{m="y"} ${b}\n` })).metrics
        .waiting;
    expect(two("1 1000", "2 2000")).toBe(2);
    expect(two("1 2000", "2 1000")).toBe(1);
    expect(two("1", "2 1000")).toBe(2);
    expect(two("1 -5", "2")).toBe(2);
    expect(two("1", "2")).toBe(1);
    expect(two("1 7", "2 7")).toBe(1);
  });

  it("adds up the ranks of one port and averages their KV usage (scheduling 1.4, S-11)", () => {
    const ranks = (name: string, ...values: number[]): string =>
      values.map((value, i) => `${name}{engine="${i}",model_name="m"} ${value}\n`).join("");
    const { metrics } = read(
      page({
        waiting: ranks("vllm:num_requests_waiting", 1, 2, 4),
        running: ranks("vllm:num_requests_running", 10, 20),
        kv: ranks("vllm:kv_cache_usage_perc", 0.5, 0.75, 1),
      }),
    );
    expect(metrics).toMatchObject({ waiting: 7, running: 30, kvUsage: 0.75 });
    // Other differences than the rank, a repeated rank, and timestamps: no sum.
    const waiting = (text: string): number => read(page({ waiting: text })).metrics.waiting;
    const name = "vllm:num_requests_waiting";
    expect(waiting(`${name}{engine="0",m="a"} 1\n${name}{engine="1",m="b"} 2\n`)).toBe(1);
    expect(waiting(`${name}{engine="0"} 1\n${name}{engine="0"} 2\n`)).toBe(1);
    expect(waiting(`${name}{m="a"} 1\n${name}{m="a",engine="1"} 2\n`)).toBe(1);
    expect(waiting(`${name}{engine="0"} 1 100\n${name}{engine="1"} 2 100\n`)).toBe(1);
    // A rank nobody can read makes the sum unknown, not smaller.
    expect(waiting(`${name}{engine="0"} 1\n${name}{engine="1"} NaN\n`)).toBeNaN();
  });

  it("falls back to the former name of the KV metric (S-13)", () => {
    const before = "vllm:gpu_cache_usage_perc 0.5\n";
    expect(read(page({ kv: before })).metrics.kvUsage).toBe(0.5);
    expect(read(page({ kv: `${before}vllm:kv_cache_usage_perc 0.125\n` })).metrics.kvUsage).toBe(0.125);
    expect(read(page({ kv: before }))).toMatchObject({ found: 4, missing: [] });
  });

  it("takes the adapters of the series with the greatest value, whatever its timestamp (S-14, R-61)", () => {
    const series = (value: string, running: string, waiting: string): string =>
      `vllm:lora_requests_info{max_lora="4",running_lora_adapters="${running}",waiting_lora_adapters="${waiting}"} ${value}\n`;
    const lora = series("1 9000", "old", "") + series("3 1000", "a, b,,", "c") + series("2 5000", "mid", "");
    expect(read(page({ lora })).metrics).toMatchObject({
      maxLora: 4,
      loraRunning: new Set(["a", "b"]),
      loraWaiting: new Set(["c"]),
    });
    // A series with both lists empty says that nothing is loaded now; a value of 0 may win too.
    expect(read(page({ lora: series("1", "old", "") + series("2", "", "") })).metrics.loraRunning.size).toBe(0);
    expect(read(page({ lora: series("0", "zero", "") })).metrics.loraRunning).toEqual(new Set(["zero"]));
    expect(read(page({ lora: series("NaN", "x", "") })).metrics.loraRunning.size).toBe(0);
  });

  it("says when max_lora cannot be read, and bounds the list of adapters", () => {
    const names = Array.from({ length: 2000 }, (_, i) => `a${i}`).join(",");
    const lora = `vllm:lora_requests_info{max_lora="four",running_lora_adapters="${names}"} 1\n`;
    const { metrics, missing } = read(page({ lora }));
    expect(metrics.maxLora).toBeNaN();
    expect(metrics.loraRunning.size).toBe(1024);
    expect(missing).toEqual(["vllm:lora_requests_info label max_lora"]);
  });

  it("does not mind a server without adapters, and keeps what was known of them (S-15, R-61)", () => {
    const previous = { ...UNKNOWN_METRICS, maxLora: 2, loraRunning: new Set(["a"]) };
    const { metrics, missing } = read(page(), previous);
    expect(missing).toEqual([]);
    expect(metrics).toMatchObject({ maxLora: 2, loraRunning: new Set(["a"]) });
  });

  it("reads block size and blocks, keeps them while the family is gone, forgets a block size that is (S-16)", () => {
    const first = read(page({ cache: 'vllm:cache_config_info{block_size="32",num_gpu_blocks="1000"} 1\n' }));
    expect(first.metrics).toMatchObject({ blockSize: 32, blocks: 1000 });
    const gone = read(page({ cache: "" }), first.metrics);
    expect(gone.metrics).toMatchObject({ blockSize: 32, blocks: 1000 });
    expect(gone.missing).toEqual(["vllm:cache_config_info"]);
    const without = read(page({ cache: 'vllm:cache_config_info{num_gpu_blocks="None"} 1\n' }), first.metrics);
    expect(without.metrics.blockSize).toBeNaN();
    expect(without.metrics.blocks).toBe(1000);
  });

  it("reads page after page of one endpoint, whatever changes between them", () => {
    const reader = dialect.createReader();
    const next = (text: string): ReadPage => reader.read(Buffer.from(text), text.length, UNKNOWN_METRICS, 0);
    const typed = (name: string, ...samples: string[]): string =>
      `# HELP ${name} x\n# TYPE ${name} gauge\n${samples.map((sample) => `${name}${sample}\n`).join("")}`;
    const waiting = (...samples: string[]): string => `\n${typed("vllm:num_requests_waiting", ...samples)}`;
    const lora = (names: string, value: number): string =>
      `{max_lora="4",running_lora_adapters="${names}",waiting_lora_adapters=""} ${value}`;
    const info = (...samples: string[]): string => typed("vllm:lora_requests_info", ...samples);

    expect(next(waiting(" 1") + info(lora("a", 1))).metrics).toMatchObject({ waiting: 1, loraRunning: new Set(["a"]) });
    const second = next(waiting(" 2") + info(lora("a", 1))).metrics;
    expect(second).toMatchObject({ waiting: 2, loraRunning: new Set(["a"]) });
    const third = next(waiting(" 2") + info(lora("a", 1), lora("b", 5))).metrics;
    expect(third).toMatchObject({ waiting: 2, loraRunning: new Set(["b"]) });
    const ranks = waiting('{engine="0"} 3', '{engine="1"} 4');
    expect(next(ranks + info(lora("b", 5))).metrics.waiting).toBe(7);
    expect(next(waiting('{engine="0"} 3', '{engine="1"} 9') + info(lora("b", 5))).metrics.waiting).toBe(12);
    const gone = next(info(lora("b", 5)));
    expect(gone.metrics.waiting).toBeNaN();
    expect(gone.metrics.loraRunning).toEqual(new Set(["b"]));
    expect(next("garbage").found).toBe(0);
  });
});

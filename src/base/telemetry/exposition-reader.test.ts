import { describe, expect, it } from "vitest";
import { ExpositionReader } from "./exposition-reader.ts";

const WANTED = ["vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:lora_requests_info"];

interface Seen {
  index: number;
  value: number;
  timestamp: number | undefined;
  type: string;
  labels: Record<string, string>;
}

function readAll(text: string, wanted = WANTED): { seen: Seen[]; reader: ExpositionReader } {
  const reader = new ExpositionReader(wanted);
  const bytes = Buffer.from(text);
  const seen: Seen[] = [];
  reader.read(bytes, bytes.length, ({ index, value, timestamp, type, labels }) => {
    seen.push({ index, value, timestamp, type, labels: Object.fromEntries(labels.toMap()) });
  });
  return { seen, reader };
}

describe("ExpositionReader", () => {
  it("yields wanted samples with labels, value, timestamp and type", () => {
    const { seen, reader } = readAll(
      [
        "# HELP vllm:num_requests_waiting Number of requests waiting; see vllm:kv_cache_usage_perc 0.9",
        "# TYPE vllm:num_requests_waiting gauge",
        'vllm:num_requests_waiting{engine="0",model_name="meta-llama/Llama-3.1-8B"} 17.0',
        'vllm:num_requests_waiting_created{engine="0"} 1.79e+09',
        'other{name="vllm:num_requests_waiting"} 3',
        "vllm:kv_cache_usage_perc 0.25 1763712000123",
        "",
      ].join("\n"),
    );
    expect(seen).toEqual([
      {
        index: 0,
        value: 17,
        timestamp: undefined,
        type: "gauge",
        labels: { engine: "0", model_name: "meta-llama/Llama-3.1-8B" },
      },
      { index: 1, value: 0.25, timestamp: 1763712000123, type: "untyped", labels: {} },
    ]);
    expect(reader.malformed).toBe(0);
  });

  it("undoes escapes, splits at no comma inside quotes, and decodes UTF-8", () => {
    const { seen } = readAll('vllm:lora_requests_info{running_lora_adapters="a,b",x="q\\"b\\\\n\\n}",y="naïve"} 1.7e9');
    expect(seen[0]?.labels).toEqual({ running_lora_adapters: "a,b", x: 'q"b\\n\n}', y: "naïve" });
    expect(seen[0]?.value).toBe(1.7e9);
  });

  it("gives single labels without decoding the others", () => {
    const reader = new ExpositionReader(WANTED);
    const page = Buffer.from('vllm:lora_requests_info{max_lora="4",max="5"} 1\n');
    const got: unknown[] = [];
    reader.read(page, page.length, ({ labels }) => {
      got.push(labels.get("max_lora"), labels.get("max"), labels.get("ma"), labels.size);
    });
    expect(got).toEqual(["4", "5", undefined, 2]);
  });

  it("reads infinities, NaN, CRLF, a missing last newline and the end mark of OpenMetrics", () => {
    const { seen, reader } = readAll(
      "vllm:kv_cache_usage_perc NaN\r\nvllm:kv_cache_usage_perc +Inf\r\n# EOF\r\nvllm:kv_cache_usage_perc -Inf",
    );
    expect(seen.map((sample) => sample.value)).toEqual([
      Number.NaN,
      Number.POSITIVE_INFINITY,
      Number.NEGATIVE_INFINITY,
    ]);
    expect(reader.malformed).toBe(0);
  });

  it("tells the type of a wanted name without samples, and forgets it with the next page", () => {
    const { reader } = readAll("# TYPE vllm:kv_cache_usage_perc histogram\n");
    expect(reader.typeOf(1)).toBe("histogram");
    expect(reader.typeOf(0)).toBe("untyped");
    reader.read(new Uint8Array(0), 0, () => {});
    expect(reader.typeOf(1)).toBe("untyped");
  });

  it("counts lines of wanted names that make no sense, and reads on", () => {
    const { seen, reader } = readAll(
      [
        "vllm:num_requests_waiting",
        "vllm:num_requests_waiting{ 1",
        'vllm:num_requests_waiting{engine="0} 1',
        "vllm:num_requests_waiting @WAIT@",
        "vllm:num_requests_waiting 1 2 3",
        "vllm:num_requests_waiting 1 soon",
        "# TYPE vllm:num_requests_waiting thermometer",
        "<html>vllm:num_requests_waiting 9</html>",
        "vllm:num_requests_waiting 4",
      ].join("\n"),
    );
    expect(seen.map((sample) => sample.value)).toEqual([4]);
    expect(reader.malformed).toBe(7);
  });

  it("takes a page of garbage for a page without samples", () => {
    const { seen, reader } = readAll("<!doctype html><title>503</title>\u0000\u0001".repeat(2000));
    expect(seen).toEqual([]);
    expect(reader.malformed).toBe(0);
  });

  it("reads 256 labels of a sample and calls more malformed (bound)", () => {
    const labels = (count: number): string => Array.from({ length: count }, (_, i) => `l${i}="${i}"`).join(",");
    const full = readAll(`vllm:lora_requests_info{${labels(256)}} 1\n`);
    expect(Object.keys(full.seen[0]?.labels ?? {}).length).toBe(256);
    const over = readAll(`vllm:lora_requests_info{${labels(257)}} 1\n`);
    expect(over.seen).toEqual([]);
    expect(over.reader.malformed).toBe(1);
  });

  it("calls a number of more than 128 bytes malformed (bound)", () => {
    expect(readAll(`vllm:kv_cache_usage_perc 0.${"0".repeat(125)}1`).seen.length).toBe(1);
    expect(readAll(`vllm:kv_cache_usage_perc 0.${"0".repeat(126)}1`).reader.malformed).toBe(1);
  });

  it("finds names longer than the window of its search", () => {
    const long = `m_${"x".repeat(400)}`;
    const { seen } = readAll(`${long}y 1\n${long} 2\n`, [long]);
    expect(seen.map((sample) => sample.value)).toEqual([2]);
  });

  it("wants nothing, finds nothing", () => {
    expect(readAll("up 1\n", []).seen).toEqual([]);
  });

  it("refuses names that it could not tell apart", () => {
    expect(() => new ExpositionReader(["up", "up"])).toThrow(expect.objectContaining({ code: "METRIC_SPEC" }));
    expect(() => new ExpositionReader([""])).toThrow(expect.objectContaining({ code: "METRIC_SPEC" }));
  });
});

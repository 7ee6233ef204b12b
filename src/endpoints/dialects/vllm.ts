import type { EndpointMetrics } from "../../inference/endpoint.ts";
import { ExpositionReader, type ExpositionSample } from "../../telemetry/exposition-reader.ts";
import type { Dialect, PageReader, ReadPage } from "./dialect.ts";
import { PageLayout, type SampleSink } from "./page-layout.ts";
import { Scalar } from "./scalar.ts";

const WAITING = "vllm:num_requests_waiting";
const RUNNING = "vllm:num_requests_running";
const KV_USAGE = "vllm:kv_cache_usage_perc";
/** Its name up to vLLM V0 and early V1. */
const KV_USAGE_BEFORE = "vllm:gpu_cache_usage_perc";
const LORA = "vllm:lora_requests_info";
const CACHE = "vllm:cache_config_info";
const NAMES = [WAITING, RUNNING, KV_USAGE, KV_USAGE_BEFORE, LORA, CACHE];

/** The most adapters taken from one list. */
const MAX_ADAPTERS = 1024;
const NO_ADAPTERS: ReadonlySet<string> = new Set();
const NOTHING_MISSING: readonly string[] = [];

/** The metrics page of vLLM, and of servers that imitate it (scheduling 1.3-1.7). */
export class VllmDialect implements Dialect {
  readonly name = "vllm";
  /** Its tables are large and it holds nothing from page to page: one serves all endpoints. */
  readonly #reader = new ExpositionReader(NAMES);

  createReader(): PageReader {
    return new VllmPages(this.#reader);
  }
}

/** The pages of one endpoint. */
class VllmPages implements PageReader, SampleSink {
  readonly #reader: ExpositionReader;
  readonly #waiting = new Scalar("sum", 0, Number.MAX_SAFE_INTEGER);
  readonly #running = new Scalar("sum", 0, Number.MAX_SAFE_INTEGER);
  readonly #kvUsage = new Scalar("mean", 0, 1);
  readonly #kvUsageBefore = new Scalar("mean", 0, 1);
  readonly #lora = new LoraInfo();
  readonly #cache = new CacheConfig();
  readonly #scalars = [this.#waiting, this.#running, this.#kvUsage, this.#kvUsageBefore];
  readonly #byName = [...this.#scalars, this.#lora, this.#cache];
  readonly #layout = new PageLayout(NAMES, this);

  constructor(reader: ExpositionReader) {
    this.#reader = reader;
  }

  reset(index: number): void {
    this.#byName[index]!.reset();
  }

  add(sample: ExpositionSample): void {
    this.#byName[sample.index]!.add(sample);
  }

  read(page: Uint8Array, length: number, previous: EndpointMetrics, now: number): ReadPage {
    this.#layout.read(this.#reader, page, length);
    if (this.#wantLabels()) {
      this.#layout.forget();
      this.#layout.read(this.#reader, page, length);
    }
    const waiting = Math.trunc(this.#waiting.value);
    const running = Math.trunc(this.#running.value);
    const current = this.#kvUsage.value;
    const kvUsage = Number.isNaN(current) ? this.#kvUsageBefore.value : current;
    const lora = this.#lora;
    const cache = this.#cache;

    const gaps: string[] = [];
    if (Number.isNaN(waiting)) gaps.push(WAITING);
    if (Number.isNaN(running)) gaps.push(RUNNING);
    if (Number.isNaN(kvUsage)) gaps.push(KV_USAGE);
    if (!cache.present) gaps.push(CACHE);
    const found = 4 - gaps.length + (lora.present ? 1 : 0);
    // A server without adapters may leave the family out (S-15); one that has it must say how many fit.
    if (lora.present && Number.isNaN(lora.max)) gaps.push(`${LORA} label max_lora`);
    if (cache.present && Number.isNaN(cache.blockSize)) gaps.push(`${CACHE} label block_size`);

    const metrics: EndpointMetrics = {
      waiting,
      running,
      kvUsage,
      maxLora: lora.present ? lora.max : previous.maxLora,
      loraRunning: lora.present ? lora.running : previous.loraRunning,
      loraWaiting: lora.present ? lora.waiting : previous.loraWaiting,
      blockSize: cache.present ? cache.blockSize : previous.blockSize,
      blocks: Number.isNaN(cache.blocks) ? previous.blocks : cache.blocks,
      scrapedAt: now,
    };
    return { metrics, found, missing: gaps.length === 0 ? NOTHING_MISSING : gaps };
  }

  #wantLabels(): boolean {
    let want = false;
    for (const scalar of this.#scalars) if (scalar.wantsLabels()) want = true;
    return want;
  }
}

/**
 * `vllm:lora_requests_info`: one series per combination of adapters ever seen, its value the time it was last true. The
 * greatest value is the present one, whatever its exposition timestamp, and with both lists empty too (scheduling 1.6).
 */
class LoraInfo {
  present = false;
  max = Number.NaN;
  #newest = -1;
  #runningList = "";
  #waitingList = "";
  #running: ReadonlySet<string> | undefined;
  #waiting: ReadonlySet<string> | undefined;

  get running(): ReadonlySet<string> {
    this.#running ??= adapters(this.#runningList);
    return this.#running;
  }

  get waiting(): ReadonlySet<string> {
    this.#waiting ??= adapters(this.#waitingList);
    return this.#waiting;
  }

  reset(): void {
    this.present = false;
    this.max = Number.NaN;
    this.#newest = -1;
    this.#setLists("", "");
  }

  add(sample: ExpositionSample): void {
    if (sample.type === "histogram" || sample.type === "summary" || !(sample.value > this.#newest)) return;
    const { labels } = sample;
    this.#newest = sample.value;
    this.present = true;
    this.max = integer(labels.get("max_lora"));
    this.#setLists(labels.get("running_lora_adapters") ?? "", labels.get("waiting_lora_adapters") ?? "");
  }

  #setLists(running: string, waiting: string): void {
    this.#runningList = running;
    this.#waitingList = waiting;
    this.#running = undefined;
    this.#waiting = undefined;
  }
}

/** `vllm:cache_config_info`: labels only; the greatest timestamp, then the first (scheduling 1.7). */
class CacheConfig {
  present = false;
  blockSize = Number.NaN;
  blocks = Number.NaN;
  #timestamp = 0;

  reset(): void {
    this.present = false;
    this.blockSize = Number.NaN;
    this.blocks = Number.NaN;
    this.#timestamp = 0;
  }

  add(sample: ExpositionSample): void {
    if (sample.type === "histogram" || sample.type === "summary") return;
    const timestamp = sample.timestamp ?? 0;
    if (this.present && timestamp <= this.#timestamp) return;
    this.present = true;
    this.#timestamp = timestamp;
    this.blockSize = integer(sample.labels.get("block_size"));
    this.blocks = integer(sample.labels.get("num_gpu_blocks"));
  }
}

function adapters(list: string): ReadonlySet<string> {
  if (list === "") return NO_ADAPTERS;
  const names = new Set<string>();
  for (const part of list.split(",", MAX_ADAPTERS)) {
    const name = part.trim();
    if (name !== "") names.add(name);
  }
  return names;
}

/** NaN unless `text` is a decimal integer from 0 to 2^53 - 1. */
function integer(text: string | undefined): number {
  if (text === undefined || !/^\s*\d{1,15}\s*$/.test(text)) return Number.NaN;
  return Number(text);
}

import type { ExpositionSample } from "../../../base/telemetry/exposition-reader.ts";

/** How the samples of data-parallel ranks on one page become one value. */
export type RankRule = "sum" | "mean" | "first";

/** The label that tells data-parallel ranks apart. */
const RANK_LABEL = "engine";

/**
 * One number from the samples of one name (scheduling 1.4). The sample with the greatest explicit timestamp wins, then the
 * first sample. Where none has a timestamp and label sets differ in `engine` alone, the ranks are added or averaged.
 */
export class Scalar {
  readonly #rule: RankRule;
  readonly #min: number;
  readonly #max: number;
  #count = 0;
  #value = Number.NaN;
  #timestamp = 0;
  #stamped = false;
  /** Labels of the first sample; undefined unless labels are compared. */
  #labels: Map<string, string> | undefined;
  #comparing = false;
  #ranks: Set<string> | undefined;
  #ranked = 0;

  /** @param min smallest and @param max largest plausible value; other values count as missing */
  constructor(rule: RankRule, min: number, max: number) {
    this.#rule = rule;
    this.#min = min;
    this.#max = max;
  }

  /** Forgets the samples of the last page. */
  reset(): void {
    this.#count = 0;
    this.#value = Number.NaN;
    this.#timestamp = 0;
    this.#stamped = false;
    this.#labels = undefined;
    this.#ranks = undefined;
  }

  add(sample: ExpositionSample): void {
    // A histogram or summary of that name measures another quantity (scheduling 1.3). An untyped family is accepted (S-18).
    if (sample.type === "histogram" || sample.type === "summary") return;
    const value = sample.value >= this.#min && sample.value <= this.#max ? sample.value : Number.NaN;
    const timestamp = sample.timestamp ?? 0;
    this.#stamped ||= sample.timestamp !== undefined;
    if (this.#count++ === 0) {
      this.#value = value;
      this.#timestamp = timestamp;
      this.#ranked = value;
      if (this.#comparing) this.#labels = sample.labels.toMap();
      return;
    }
    if (timestamp > this.#timestamp) {
      this.#value = value;
      this.#timestamp = timestamp;
    }
    if (this.#labels !== undefined && this.#isOtherRank(sample, this.#labels)) this.#ranked += value;
  }

  /**
   * True when the page must be read again for its value. Only a page with several samples of the name pays for decoding labels.
   * All pages after the first such page are decoded in one read.
   */
  wantsLabels(): boolean {
    if (this.#comparing || this.#count < 2 || this.#stamped || this.#rule === "first") return false;
    this.#comparing = true;
    return true;
  }

  /** NaN when the page held no plausible value. */
  get value(): number {
    if (this.#stamped || this.#ranks === undefined) return this.#value;
    return this.#rule === "sum" ? this.#ranked : this.#ranked / this.#ranks.size;
  }

  #isOtherRank(sample: ExpositionSample, first: ReadonlyMap<string, string>): boolean {
    const firstRank = first.get(RANK_LABEL);
    const rank = sample.labels.get(RANK_LABEL);
    if (firstRank === undefined || rank === undefined || sample.labels.size !== first.size) return false;
    for (const [name, value] of first) if (name !== RANK_LABEL && sample.labels.get(name) !== value) return false;
    this.#ranks ??= new Set([firstRank]);
    if (this.#ranks.has(rank)) return false;
    this.#ranks.add(rank);
    return true;
  }
}

/** The most adapters taken from one list. */
const MAX_ADAPTERS = 1024;
const NO_ADAPTERS: ReadonlySet<string> = new Set();

/**
 * `vllm:lora_requests_info`: one series per combination of adapters ever seen. Its value is the time when the combination was
 * last true. The series with the greatest value is the present one, for any exposition timestamp, and with both lists empty too
 * (scheduling 1.6).
 */
export class LoraInfo {
  present = false;
  /** NaN when the label cannot be read. */
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

  /** Forgets the samples of the last page. */
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
    this.max = labelInteger(labels.get("max_lora"));
    this.#setLists(labels.get("running_lora_adapters") ?? "", labels.get("waiting_lora_adapters") ?? "");
  }

  #setLists(running: string, waiting: string): void {
    this.#runningList = running;
    this.#waitingList = waiting;
    this.#running = undefined;
    this.#waiting = undefined;
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

/** A family such as `vllm:cache_config_info`: labels only; the greatest timestamp, then the first (scheduling 1.7). */
export class CacheInfo {
  present = false;
  /** NaN when the label cannot be read. */
  blockSize = Number.NaN;
  blocks = Number.NaN;
  readonly #blockSizeLabel: string;
  readonly #blocksLabel: string;
  #timestamp = 0;

  /** @param blockSizeLabel label that holds tokens per block, @param blocksLabel the number of blocks */
  constructor(blockSizeLabel: string, blocksLabel: string) {
    this.#blockSizeLabel = blockSizeLabel;
    this.#blocksLabel = blocksLabel;
  }

  /** Forgets the samples of the last page. */
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
    this.blockSize = labelInteger(sample.labels.get(this.#blockSizeLabel));
    this.blocks = labelInteger(sample.labels.get(this.#blocksLabel));
  }
}

/** The number a label holds; NaN unless it is a decimal integer of at most 15 digits. */
function labelInteger(text: string | undefined): number {
  if (text === undefined || !/^\s*\d{1,15}\s*$/.test(text)) return Number.NaN;
  return Number(text);
}

import type { ExpositionSample } from "../../../base/telemetry/exposition-reader.ts";
import { labelInteger } from "./label-integer.ts";

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

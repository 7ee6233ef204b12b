import { HolderTable } from "./holder-table.ts";

const SHARD_BITS = 4;
const SHARDS = 1 << SHARD_BITS;

/**
 * Holder tables by the high bits of a hash. Small tables grow in small steps: the growth to a million blocks stops the process for
 * 15 ms, to two million for 45 ms. But the blocks of one prompt lie side by side within each table, so more tables mean more far
 * memory for each lookup: 64 of them a quarter more time than 16. An entry is a number that stays while the block has a holder.
 */
export class ShardedHolders {
  readonly #tables = Array.from({ length: SHARDS }, () => new HolderTable());

  /** Distinct blocks. */
  get size(): number {
    let size = 0;
    for (const table of this.#tables) size += table.size;
    return size;
  }

  /** Bytes allocated. */
  get bytes(): number {
    let bytes = 0;
    for (const table of this.#tables) bytes += table.bytes;
    return bytes;
  }

  /** Returns the entry of a hash, or -1 when it has no holder. */
  find(low: number, high: number): number {
    const shard = high >>> (32 - SHARD_BITS);
    const entry = this.#tables[shard]!.find(low, high);
    return entry < 0 ? -1 : (entry << SHARD_BITS) | shard;
  }

  /** Adds a holder of a hash; it may be one already. @returns the entry */
  hold(low: number, high: number, slot: number): number {
    const shard = high >>> (32 - SHARD_BITS);
    return (this.#tables[shard]!.hold(low, high, slot) << SHARD_BITS) | shard;
  }

  /** Removes a holder; without any the entry is freed. */
  release(entry: number, slot: number): void {
    this.#tables[entry & (SHARDS - 1)]!.release(entry >>> SHARD_BITS, slot);
  }

  /** As `HolderTable.narrow`, for a hash. @returns -1 when the hash has no holder */
  narrow(low: number, high: number, alive: Uint32Array, gone: Uint32Array, words: number): number {
    const table = this.#tables[high >>> (32 - SHARD_BITS)]!;
    const entry = table.find(low, high);
    return entry < 0 ? -1 : table.narrow(entry, alive, gone, words);
  }

  /** As `HolderTable.heldIn`. */
  heldIn(entry: number, word: number): number {
    return this.#tables[entry & (SHARDS - 1)]!.heldIn(entry >>> SHARD_BITS, word);
  }

  /** Returns the lower half of the hash of an entry. */
  lowOf(entry: number): number {
    return this.#tables[entry & (SHARDS - 1)]!.lowOf(entry >>> SHARD_BITS);
  }

  /** Returns the upper half of the hash of an entry. */
  highOf(entry: number): number {
    return this.#tables[entry & (SHARDS - 1)]!.highOf(entry >>> SHARD_BITS);
  }
}

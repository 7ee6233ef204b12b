import type { Clock } from "../../../base/clock/clock.ts";
import type { CacheListener, StoredBlocks } from "../kv-cache.ts";

/** An event as vLLM writes it: its type, then its fields in order. */
export type CacheEvent = readonly unknown[];

/** Where vLLM says that it keeps blocks. */
const MEDIUM = "GPU";

/**
 * The changes of a prefix cache as the KV-cache events of vLLM (scheduling 3.14). The changes of one moment go out together, in their
 * order.
 */
export class CacheEvents implements CacheListener {
  readonly #clock: Pick<Clock, "soon">;
  readonly #blockSize: number;
  readonly #publish: (events: readonly CacheEvent[]) => void;
  #events: CacheEvent[] = [];
  /** Hashes of the last event, while it is one of removed blocks. */
  #removed: bigint[] | undefined;

  /** @param publish receives the events of one moment */
  constructor(clock: Pick<Clock, "soon">, blockSize: number, publish: (events: readonly CacheEvent[]) => void) {
    this.#clock = clock;
    this.#blockSize = blockSize;
    this.#publish = publish;
  }

  stored({ hashes, tokens, from, to, adapter }: StoredBlocks): void {
    if (to <= from) return;
    const names = Array.from({ length: to - from }, (_, i) => hashAt(hashes, from + i));
    const ids = Array.from(tokens.subarray(from * this.#blockSize, to * this.#blockSize));
    const parent = from === 0 ? null : hashAt(hashes, from - 1);
    this.#add(["BlockStored", names, parent, ids, this.#blockSize, null, MEDIUM, adapter ?? null]);
  }

  removed(first: number, second: number): void {
    const hash = hashOf(first, second);
    if (this.#removed !== undefined) {
      this.#removed.push(hash);
      return;
    }
    const hashes = [hash];
    this.#add(["BlockRemoved", hashes, MEDIUM]);
    this.#removed = hashes;
  }

  cleared(): void {
    this.#add(["AllBlocksCleared"]);
  }

  #add(event: CacheEvent): void {
    this.#removed = undefined;
    this.#events.push(event);
    if (this.#events.length === 1) this.#clock.soon(() => this.#flush());
  }

  #flush(): void {
    const events = this.#events;
    this.#events = [];
    this.#removed = undefined;
    this.#publish(events);
  }
}

function hashAt(hashes: Uint32Array, block: number): bigint {
  return hashOf(hashes[2 * block]!, hashes[2 * block + 1]!);
}

function hashOf(first: number, second: number): bigint {
  return (BigInt(first >>> 0) << 32n) | BigInt(second >>> 0);
}

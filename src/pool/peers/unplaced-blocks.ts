import type { Clock } from "../../base/clock/clock.ts";
import type { Placement } from "./message.ts";

/** The most blocks that are kept, 8 bytes each: 8 MiB. */
const MAX_BLOCKS_KEPT = 1 << 20;
/** The most decisions that are kept. */
const MAX_DECISIONS = 1 << 14;
/** Milliseconds for which they are kept. */
const KEPT = 300_000;

interface Kept {
  readonly placement: Placement;
  readonly at: number;
}

/**
 * What peers placed at endpoints that this pool does not have yet. A replica that starts reads the log before it has found all
 * endpoints. Bounds: a million blocks and 16,384 decisions, for five minutes; the oldest go first.
 */
export class UnplacedBlocks {
  readonly #clock: Clock;
  /** The oldest first. */
  #kept: Kept[] = [];
  #blocks = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get blocks(): number {
    return this.#blocks;
  }

  keep(placement: Placement): void {
    const now = this.#clock.now();
    const { low, high, from, count } = placement;
    // Copies, because the arrays are those of a whole message.
    const own = { low: low.slice(from, from + count), high: high.slice(from, from + count), from: 0 };
    this.#kept.push({ placement: { ...placement, ...own }, at: now });
    this.#blocks += placement.count;
    if (this.#isOver(now)) this.#drop(now);
  }

  /** Returns what was placed at an address, the oldest first, and forgets it. */
  take(key: string): readonly Placement[] {
    const taken = this.#kept.filter(({ placement }) => placement.key === key).map(({ placement }) => placement);
    if (taken.length === 0) return taken;
    this.#kept = this.#kept.filter(({ placement }) => placement.key !== key);
    for (const { count } of taken) this.#blocks -= count;
    return taken;
  }

  #isOver(now: number, from = 0): boolean {
    const left = this.#kept.length - from;
    const oldest = this.#kept[from];
    return oldest !== undefined && (this.#blocks > MAX_BLOCKS_KEPT || left > MAX_DECISIONS || now - oldest.at > KEPT);
  }

  /** Drops a quarter at a time: to drop one by one would move the rest each time. */
  #drop(now: number): void {
    let from = 0;
    const least = Math.ceil(this.#kept.length / 4);
    while (from < least || this.#isOver(now, from)) {
      const oldest = this.#kept[from];
      if (oldest === undefined) break;
      this.#blocks -= oldest.placement.count;
      from++;
    }
    this.#kept = this.#kept.slice(from);
  }
}

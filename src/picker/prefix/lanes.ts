const NONE: readonly number[] = [];
/** The source of blocks that Sluice expects at an endpoint. Those of engines are above, from 0. */
export const EXPECTED = -1;

/**
 * Small dense numbers for the sources of endpoints, which are places in bit sets. A closed lane is taken again only when it is
 * freed, so that what it still holds is not mistaken for the blocks of its next owner.
 */
export class Lanes {
  /** By slot: source and lane in turn. */
  readonly #bySlot: (number[] | undefined)[] = [];
  /** By slot: lanes only. */
  readonly #lanes: (number[] | undefined)[] = [];
  /** By slot: the lane of what Sluice expects there. */
  readonly #expected: (number | undefined)[] = [];
  readonly #free: number[] = [];
  #used = 0;
  #size = 0;
  // The last source that was found: an event names many blocks of one source.
  #foundSlot = -1;
  #foundSource = 0;
  #foundLane = -1;

  /** Open lanes. */
  get size(): number {
    return this.#size;
  }

  /** The highest lane that was ever open; 0 when there was none. */
  get highest(): number {
    return Math.max(0, this.#used - 1);
  }

  /** The open lanes of a slot. */
  of(slot: number): readonly number[] {
    return this.#lanes[slot] ?? NONE;
  }

  /** The open lane of what Sluice expects at a slot, or -1. */
  expectedAt(slot: number): number {
    return this.#expected[slot] ?? -1;
  }

  /** Returns the lane of a source, or -1. */
  find(slot: number, source: number): number {
    if (slot === this.#foundSlot && source === this.#foundSource) return this.#foundLane;
    const pairs = this.#bySlot[slot];
    let lane = -1;
    for (let i = 0; pairs !== undefined && lane < 0 && i < pairs.length; i += 2)
      if (pairs[i] === source) lane = pairs[i + 1]!;
    this.#foundSlot = slot;
    this.#foundSource = source;
    this.#foundLane = lane;
    return lane;
  }

  /** Returns the lane of a source, and opens one if it has none. */
  open(slot: number, source: number): number {
    const found = this.find(slot, source);
    if (found >= 0) return found;
    const lane = this.#free.pop() ?? this.#used++;
    while (this.#bySlot.length <= slot) {
      this.#bySlot.push(undefined);
      this.#lanes.push(undefined);
      this.#expected.push(undefined);
    }
    if (source === EXPECTED) this.#expected[slot] = lane;
    this.#bySlot[slot] ??= [];
    this.#bySlot[slot].push(source, lane);
    this.#lanes[slot] ??= [];
    this.#lanes[slot].push(lane);
    this.#size++;
    this.#foundLane = lane;
    return lane;
  }

  /** Closes the lanes of a slot, or that of one source. @returns the closed lanes, which nobody takes before `free` */
  close(slot: number, source?: number): number[] {
    const pairs = this.#bySlot[slot];
    if (pairs === undefined) return [];
    this.#foundSlot = -1;
    if (source === undefined || source === EXPECTED) this.#expected[slot] = undefined;
    const closed: number[] = [];
    const left: number[] = [];
    for (let i = 0; i < pairs.length; i += 2) {
      if (source === undefined || pairs[i] === source) closed.push(pairs[i + 1]!);
      else left.push(pairs[i]!, pairs[i + 1]!);
    }
    this.#bySlot[slot] = left.length === 0 ? undefined : left;
    this.#lanes[slot] = left.length === 0 ? undefined : left.filter((_, i) => i % 2 === 1);
    this.#size -= closed.length;
    return closed;
  }

  /** A closed lane holds nothing any more. */
  free(lane: number): void {
    this.#free.push(lane);
  }
}

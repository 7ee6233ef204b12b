const FIRST_NODES = 32;

/**
 * The entries one endpoint holds, by recency of use: a doubly linked list and a hash map from entry to node, both in
 * typed arrays. 20 to 24 bytes per entry, up to twice that allocated.
 */
export class EntryLru {
  /** Node 0 is the ring's anchor: its successor is the most recent node, its predecessor the oldest. */
  #entry = new Int32Array(FIRST_NODES);
  #newer = new Int32Array(FIRST_NODES);
  #older = new Int32Array(FIRST_NODES);
  /** Next node of the same bucket, or of the free list; 0 = none. */
  #chain = new Int32Array(FIRST_NODES);
  #heads = new Int32Array(FIRST_NODES);
  /** 32 less the bits of a bucket's number. */
  #shift = shiftFor(FIRST_NODES);
  #used = 1;
  #free = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Bytes allocated. */
  get bytes(): number {
    return 5 * this.#entry.byteLength;
  }

  /** Makes `entry` the most recent. @returns whether it is new here */
  touch(entry: number): boolean {
    let node = this.#heads[this.#bucket(entry)]!;
    while (node !== 0 && this.#entry[node] !== entry) node = this.#chain[node]!;
    if (node !== 0) {
      this.#unlink(node);
      this.#linkFirst(node);
      return false;
    }
    node = this.#free;
    if (node !== 0) this.#free = this.#chain[node]!;
    else {
      if (this.#used === this.#entry.length) this.#rebuild(this.#entry.length * 2);
      node = this.#used++;
    }
    this.#entry[node] = entry;
    const bucket = this.#bucket(entry);
    this.#chain[node] = this.#heads[bucket]!;
    this.#heads[bucket] = node;
    this.#linkFirst(node);
    this.#size++;
    return true;
  }

  /** Forgets the least recently used entry and returns it; the list must not be empty. */
  evict(): number {
    const node = this.#newer[0]!;
    const entry = this.#entry[node]!;
    this.#unlink(node);
    const bucket = this.#bucket(entry);
    let at = this.#heads[bucket]!;
    if (at === node) this.#heads[bucket] = this.#chain[node]!;
    else {
      while (this.#chain[at] !== node) at = this.#chain[at]!;
      this.#chain[at] = this.#chain[node]!;
    }
    this.#chain[node] = this.#free;
    this.#free = node;
    this.#size--;
    return entry;
  }

  /** Gives memory back after many evictions. */
  trim(): void {
    let nodes = this.#entry.length;
    while (nodes > FIRST_NODES && this.#size + 1 <= nodes / 4) nodes /= 2;
    if (nodes < this.#entry.length) this.#rebuild(nodes);
  }

  #bucket(entry: number): number {
    // Entries are dense integers, but one endpoint's may share their low bits: the high bits of a product do not.
    return Math.imul(entry, 0x9e3779b1) >>> this.#shift;
  }

  #unlink(node: number): void {
    const newer = this.#newer[node]!;
    const older = this.#older[node]!;
    this.#older[newer] = older;
    this.#newer[older] = newer;
  }

  #linkFirst(node: number): void {
    const second = this.#older[0]!;
    this.#older[0] = node;
    this.#newer[node] = 0;
    this.#older[node] = second;
    this.#newer[second] = node;
  }

  /** Moves everything into arrays of `nodes` nodes, a power of two above the size, keeping the order. */
  #rebuild(nodes: number): void {
    const entries = this.#entry;
    const newer = this.#newer;
    let from = newer[0]!;
    this.#entry = new Int32Array(nodes);
    this.#newer = new Int32Array(nodes);
    this.#older = new Int32Array(nodes);
    this.#chain = new Int32Array(nodes);
    this.#heads = new Int32Array(nodes);
    this.#shift = shiftFor(nodes);
    this.#used = 1;
    this.#free = 0;
    this.#size = 0;
    // From the oldest to the newest, so that the newest ends up first.
    for (; from !== 0; from = newer[from]!) this.touch(entries[from]!);
  }
}

function shiftFor(buckets: number): number {
  return Math.clz32(buckets) + 1;
}

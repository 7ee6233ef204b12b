const FIRST_NODES = 32;
const STRIDE = 6;
const NEWER = 1;
const OLDER = 2;
const CHAIN = 3;
const WEIGHT = 4;
const TURN = 5;

/** In place of a turn: the entry was not there. */
export const NEVER = 0;
/** In place of an entry, which is from 0 up. */
export const MARK = -1;

/**
 * Whether one turn is not after another one. Turns are 32-bit numbers that begin again after two billion; two turns of a list are
 * compared correctly while less than half of that lies between them.
 */
export function isNotAfter(turn: number, other: number): boolean {
  return ((turn - other) | 0) <= 0;
}

/**
 * The entries of one endpoint in the order of their use, each with a weight and the turn in which it was used last. A doubly linked
 * list and a hash map from entry to node, both in typed arrays. 28 bytes per entry or mark, up to twice that allocated.
 */
export class EntryLru {
  /**
   * Six numbers per node, side by side so that most nodes need one cache line: entry or `MARK`, newer node, older node, next node
   * (0 = none), weight, and turn. The next node is of the same bucket or of the free list. Node 0 is the anchor of the ring: its
   * successor is the most recent node, its predecessor the oldest.
   */
  #nodes = new Int32Array(STRIDE * FIRST_NODES);
  #heads = new Int32Array(FIRST_NODES);
  /**
   * The memory of `#nodes`: weights are floats of 32 bits. Their sum in 64 bits is exact, so it returns to 0 after any number of
   * changes.
   */
  #weights = new Float32Array(this.#nodes.buffer);
  /** 32 less the bits of a bucket's number. */
  #shift = shiftFor(FIRST_NODES);
  #used = 1;
  #free = 0;
  #size = 0;
  #marks = 0;
  #weight = 0;
  #turn = NEVER;
  #touches = 0;
  /**
   * The node that was next newer than the one touched last. Requests with the same prefix touch the same entries in the same
   * order, so the next touch is often of this node.
   */
  #following = 0;

  /** Entries. */
  get size(): number {
    return this.#size;
  }

  /** Entries and marks. */
  get length(): number {
    return this.#size + this.#marks;
  }

  /** Touches so far, and what a peer used. */
  get touches(): number {
    return this.#touches;
  }

  /** The sum of the weights of all entries. */
  get weight(): number {
    return this.#weight;
  }

  /** Bytes allocated. */
  get bytes(): number {
    return this.#nodes.byteLength + this.#heads.byteLength;
  }

  /** Begins a turn, which is that of all entries touched from now on. */
  nextTurn(): void {
    this.#turn = (this.#turn + 1) | 0;
    if (this.#turn === NEVER) this.#turn++;
  }

  /** The turn of the entries that are touched now. */
  get turn(): number {
    return this.#turn;
  }

  /** The turn of the least recently used entry or mark; the list must not be empty. */
  get oldestTurn(): number {
    return this.#nodes[STRIDE * this.#nodes[NEWER]! + TURN]!;
  }

  /**
   * Makes `entry` the most recent one, and sets its weight and its turn.
   * @param entry from 0 up
   * @param weight above 0, below 2^20; kept with 24 bits of precision
   * @returns the turn in which it was used before; `NEVER` = it is new here
   */
  touch(entry: number, weight: number): number {
    this.#touches++;
    const known = this.#moveFirst(entry);
    if (known !== 0) {
      this.#weigh(known, weight);
      const before = this.#nodes[STRIDE * known + TURN]!;
      this.#nodes[STRIDE * known + TURN] = this.#turn;
      return before;
    }
    const node = this.#add(entry, weight);
    const bucket = this.#bucket(entry);
    this.#nodes[STRIDE * node + CHAIN] = this.#heads[bucket]!;
    this.#heads[bucket] = node;
    this.#size++;
    return NEVER;
  }

  /** Makes `entry` the most recent one, as if touched in the turn in which it was used last. @returns whether it is there */
  refresh(entry: number): boolean {
    return this.#moveFirst(entry) !== 0;
  }

  /** Makes an entry the most recent one. @returns its node; 0 = it is not there */
  #moveFirst(entry: number): number {
    let node = this.#following;
    if (node === 0 || this.#nodes[STRIDE * node] !== entry) {
      node = this.#heads[this.#bucket(entry)]!;
      while (node !== 0 && this.#nodes[STRIDE * node] !== entry) node = this.#nodes[STRIDE * node + CHAIN]!;
    }
    if (node === 0) return 0;
    this.#following = this.#nodes[STRIDE * node + NEWER]!;
    this.#unlink(node);
    this.#linkFirst(node);
    return node;
  }

  /** A peer has used entries, which may be none of these. */
  usedByPeer(entries: number): void {
    this.#touches += entries;
  }

  /** Adds a mark: it has a place in the order of use, and is no entry. */
  addMark(): void {
    this.#add(MARK, 0);
    this.#marks++;
  }

  /** Takes a node for an entry, and makes it the most recent one. */
  #add(entry: number, weight: number): number {
    let node = this.#free;
    if (node !== 0) this.#free = this.#nodes[STRIDE * node + CHAIN]!;
    else {
      if (this.#used === this.#heads.length) this.#rebuild(this.#heads.length * 2);
      node = this.#used++;
    }
    this.#nodes[STRIDE * node] = entry;
    this.#linkFirst(node);
    this.#nodes[STRIDE * node + TURN] = this.#turn;
    this.#weigh(node, weight);
    return node;
  }

  /** Removes the least recently used entry or mark; the list must not be empty. @returns the entry, or `MARK` */
  evict(): number {
    const node = this.#nodes[NEWER]!;
    if (node === this.#following) this.#following = 0;
    const entry = this.#nodes[STRIDE * node]!;
    this.#unlink(node);
    if (entry === MARK) {
      this.#marks--;
      this.#release(node);
      return MARK;
    }
    const bucket = this.#bucket(entry);
    let at = this.#heads[bucket]!;
    if (at === node) this.#heads[bucket] = this.#nodes[STRIDE * node + CHAIN]!;
    else {
      while (this.#nodes[STRIDE * at + CHAIN] !== node) at = this.#nodes[STRIDE * at + CHAIN]!;
      this.#nodes[STRIDE * at + CHAIN] = this.#nodes[STRIDE * node + CHAIN]!;
    }
    this.#size--;
    this.#release(node);
    return entry;
  }

  #release(node: number): void {
    this.#nodes[STRIDE * node + CHAIN] = this.#free;
    this.#free = node;
    this.#weigh(node, 0);
  }

  /** Frees memory after many evictions. */
  trim(): void {
    let nodes = this.#heads.length;
    while (nodes > FIRST_NODES && this.length + 1 <= nodes / 4) nodes /= 2;
    if (nodes < this.#heads.length) this.#rebuild(nodes);
  }

  #bucket(entry: number): number {
    // Entries are dense integers, but those of one endpoint may share their low bits. The high bits of a product differ.
    return Math.imul(entry, 0x9e3779b1) >>> this.#shift;
  }

  #weigh(node: number, weight: number): void {
    const at = STRIDE * node + WEIGHT;
    this.#weight -= this.#weights[at]!;
    this.#weights[at] = weight;
    this.#weight += this.#weights[at]!;
  }

  #unlink(node: number): void {
    const newer = this.#nodes[STRIDE * node + NEWER]!;
    const older = this.#nodes[STRIDE * node + OLDER]!;
    this.#nodes[STRIDE * newer + OLDER] = older;
    this.#nodes[STRIDE * older + NEWER] = newer;
  }

  #linkFirst(node: number): void {
    const second = this.#nodes[OLDER]!;
    this.#nodes[OLDER] = node;
    this.#nodes[STRIDE * node + NEWER] = 0;
    this.#nodes[STRIDE * node + OLDER] = second;
    this.#nodes[STRIDE * second + NEWER] = node;
  }

  /** Moves all entries into arrays of `nodes` nodes, a power of two above the size, in the same order. */
  #rebuild(nodes: number): void {
    const old = this.#nodes;
    const weights = this.#weights;
    this.#nodes = new Int32Array(STRIDE * nodes);
    this.#heads = new Int32Array(nodes);
    this.#weights = new Float32Array(this.#nodes.buffer);
    this.#shift = shiftFor(nodes);
    this.#used = 1;
    this.#free = 0;
    this.#size = 0;
    this.#marks = 0;
    this.#weight = 0;
    this.#following = 0;
    // From the oldest to the newest, so that the newest becomes the first.
    const turn = this.#turn;
    const touches = this.#touches;
    for (let from = old[NEWER]!; from !== 0; from = old[STRIDE * from + NEWER]!) {
      this.#turn = old[STRIDE * from + TURN]!;
      const entry = old[STRIDE * from]!;
      const weight = weights[STRIDE * from + WEIGHT]!;
      if (entry === MARK) this.addMark();
      else this.touch(entry, weight);
    }
    this.#turn = turn;
    this.#touches = touches;
  }
}

function shiftFor(buckets: number): number {
  return Math.clz32(buckets) + 1;
}

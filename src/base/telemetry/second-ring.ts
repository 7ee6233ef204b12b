/** Width of a bucket: each bound is this much above the one before. */
const RATIO = 1.18;
const LOG_RATIO = Math.log(RATIO);
/** Buckets of one histogram: below 1 ms, then up to 1.18^78 ms, which is 404 s; the last one takes all above. */
export const RING_BUCKETS = 80;
const MOST = 65_535;

/** What a ring holds for each second. */
export interface RingShape {
  readonly seconds: number;
  /** Sums begin at 0 in each second; gauges begin at NaN: not measured. */
  readonly sums: number;
  readonly gauges: number;
  readonly histograms: number;
  /** Small counts, for example of causes; they stop at 65,535 in a second. */
  readonly counts: number;
}

/** The bucket of a time in milliseconds. */
export function ringBucket(ms: number): number {
  if (!(ms >= 1)) return 0;
  return Math.min(RING_BUCKETS - 1, 1 + Math.floor(Math.log(ms) / LOG_RATIO));
}

/**
 * The quantile of bucket counts in milliseconds, with the ends of a bucket interpolated; at most 9 % off above 1 ms.
 * @param q 0..1
 * @returns NaN without an observation
 */
export function bucketQuantile(counts: ArrayLike<number>, q: number): number {
  let total = 0;
  for (let i = 0; i < RING_BUCKETS; i++) total += counts[i]!;
  if (total === 0) return Number.NaN;
  const wanted = q * total;
  let before = 0;
  for (let i = 0; i < RING_BUCKETS; i++) {
    const here = counts[i]!;
    if (here > 0 && before + here >= wanted) {
      const low = i === 0 ? 0 : RATIO ** (i - 1);
      const high = i === 0 ? 1 : RATIO ** i;
      return low + ((high - low) * Math.max(0, wanted - before)) / here;
    }
    before += here;
  }
  return RATIO ** (RING_BUCKETS - 1);
}

/**
 * Figures of the last seconds in typed arrays of a fixed size. A second is a whole number that never falls; seconds without a
 * call are empty. Uses no Node API.
 */
export class SecondRing {
  readonly shape: RingShape;
  readonly #values: Float64Array;
  readonly #buckets: Uint16Array;
  readonly #counts: Uint16Array;
  readonly #width: number;
  readonly #first: number;
  #second: number;
  /** Places of the figures of `#second`, of its buckets and of its counts: a request has many of them, so they are computed once. */
  #valuesAt = 0;
  #bucketsAt = 0;
  #countsAt = 0;

  /** @param second the first one */
  constructor(shape: RingShape, second: number) {
    this.shape = shape;
    this.#width = shape.sums + shape.gauges;
    this.#values = new Float64Array(shape.seconds * this.#width);
    this.#buckets = new Uint16Array(shape.seconds * shape.histograms * RING_BUCKETS);
    this.#counts = new Uint16Array(shape.seconds * shape.counts);
    this.#first = second;
    this.#second = second;
    this.#clear(second);
    this.#moveTo(second);
  }

  /** Bytes of the arrays. */
  get bytes(): number {
    return this.#values.byteLength + this.#buckets.byteLength + this.#counts.byteLength;
  }

  /** The second that figures go to. */
  get newest(): number {
    return this.#second;
  }

  /** The oldest second that is kept. */
  get oldest(): number {
    return Math.max(this.#first, this.#second - this.shape.seconds + 1);
  }

  /** Figures go to this second from now on. An earlier second than the newest changes nothing. */
  advance(second: number): void {
    if (second <= this.#second) return;
    const from = Math.max(this.#second + 1, second - this.shape.seconds + 1);
    for (let next = from; next <= second; next++) this.#clear(next);
    this.#moveTo(second);
  }

  add(sum: number, value: number): void {
    this.#values[this.#valuesAt + sum]! += value;
  }

  /** @param gauge its place, from 0 up */
  set(gauge: number, value: number): void {
    this.#values[this.#valuesAt + this.shape.sums + gauge] = value;
  }

  observe(histogram: number, ms: number): void {
    const at = this.#bucketsAt + histogram * RING_BUCKETS + ringBucket(ms);
    if (this.#buckets[at]! < MOST) this.#buckets[at]!++;
  }

  count(place: number): void {
    const at = this.#countsAt + place;
    if (this.#counts[at]! < MOST) this.#counts[at]!++;
  }

  /** NaN for a second that is not kept. */
  sum(second: number, sum: number): number {
    return this.#keeps(second) ? this.#values[this.#at(second) + sum]! : Number.NaN;
  }

  gauge(second: number, gauge: number): number {
    return this.#keeps(second) ? this.#values[this.#at(second) + this.shape.sums + gauge]! : Number.NaN;
  }

  counted(second: number, place: number): number {
    return this.#keeps(second) ? this.#counts[this.#countsOf(second) + place]! : 0;
  }

  /** The quantile of one second; NaN without an observation. */
  quantile(second: number, histogram: number, q: number): number {
    if (!this.#keeps(second)) return Number.NaN;
    const at = this.#bucketsOf(second, histogram);
    return bucketQuantile(this.#buckets.subarray(at, at + RING_BUCKETS), q);
  }

  /** The buckets of several seconds together. */
  buckets(from: number, to: number, histogram: number): Float64Array {
    const together = new Float64Array(RING_BUCKETS);
    for (let second = Math.max(from, this.oldest); second <= Math.min(to, this.#second); second++) {
      const at = this.#bucketsOf(second, histogram);
      for (let i = 0; i < RING_BUCKETS; i++) together[i]! += this.#buckets[at + i]!;
    }
    return together;
  }

  #moveTo(second: number): void {
    this.#second = second;
    this.#valuesAt = this.#at(second);
    this.#bucketsAt = this.#bucketsOf(second, 0);
    this.#countsAt = this.#countsOf(second);
  }

  #keeps(second: number): boolean {
    return second >= this.oldest && second <= this.#second;
  }

  #at(second: number): number {
    return (second % this.shape.seconds) * this.#width;
  }

  #bucketsOf(second: number, histogram: number): number {
    return ((second % this.shape.seconds) * this.shape.histograms + histogram) * RING_BUCKETS;
  }

  #countsOf(second: number): number {
    return (second % this.shape.seconds) * this.shape.counts;
  }

  #clear(second: number): void {
    const { sums, histograms, counts } = this.shape;
    const at = this.#at(second);
    this.#values.fill(0, at, at + sums);
    this.#values.fill(Number.NaN, at + sums, at + this.#width);
    const bucket = this.#bucketsOf(second, 0);
    this.#buckets.fill(0, bucket, bucket + histograms * RING_BUCKETS);
    const count = this.#countsOf(second);
    this.#counts.fill(0, count, count + counts);
  }
}

import { type Endpoint, isFresh } from "../inference/endpoint.ts";
import { SluiceError } from "../inference/errors.ts";
import type { ColumnKey } from "../plugin/keys.ts";
import type { Candidates } from "../plugin/kinds.ts";

/** Milliseconds after which metrics are stale, unless the endpoint is scraped more rarely (design section 5). */
const DEFAULT_STALENESS_MS = 200;

const FIRST_ROOM = 16;

/**
 * The candidates of one decision as columns. One instance serves all decisions of a scheduler: it is filled anew each
 * time and grows to the largest pool seen.
 */
export class CandidateColumns implements Candidates {
  count = 0;
  now = 0;
  endpoints: readonly Endpoint[] = [];
  waiting = new Float64Array(FIRST_ROOM);
  running = new Float64Array(FIRST_ROOM);
  kvUsage = new Float64Array(FIRST_ROOM);
  fresh = new Uint8Array(FIRST_ROOM);
  readonly #columns = new Map<ColumnKey, Float64Array>();
  readonly #staleness: number;

  /**
   * @param keys what the producers of the profile write
   * @param staleness milliseconds, above 0
   */
  constructor(keys: Iterable<ColumnKey>, staleness = DEFAULT_STALENESS_MS) {
    this.#staleness = staleness;
    for (const key of keys) this.#columns.set(key, new Float64Array(FIRST_ROOM));
  }

  /** How many candidates the arrays have room for. */
  get room(): number {
    return this.waiting.length;
  }

  /**
   * Reads the endpoints' metrics once. A value that is missing or stale becomes the worst, that is the largest, known
   * value of its column; where nobody's is known the column is NaN throughout. Producers' columns become zero.
   * @param endpoints not copied; must not change until the next call
   * @param now monotonic milliseconds
   */
  fill(endpoints: readonly Endpoint[], now: number): void {
    const count = endpoints.length;
    if (count > this.room) this.#grow(count);
    this.count = count;
    this.now = now;
    this.endpoints = endpoints;
    const { waiting, running, kvUsage, fresh } = this;
    for (let i = 0; i < count; i++) {
      const endpoint = endpoints[i]!;
      const { metrics } = endpoint;
      const believed = isFresh(endpoint, now, this.#staleness);
      fresh[i] = believed ? 1 : 0;
      waiting[i] = believed ? metrics.waiting : Number.NaN;
      running[i] = believed ? metrics.running : Number.NaN;
      kvUsage[i] = believed ? metrics.kvUsage : Number.NaN;
    }
    substituteUnknown(waiting, count);
    substituteUnknown(running, count);
    substituteUnknown(kvUsage, count);
    for (const column of this.#columns.values()) column.fill(0, 0, count);
  }

  /** Drops the candidates whose `keep` is 0, keeping the order of the others. @returns how many are left */
  retain(keep: Uint8Array): number {
    let kept = 0;
    while (kept < this.count && keep[kept] !== 0) kept++;
    if (kept === this.count) return kept;
    const endpoints = this.endpoints.slice(0, kept);
    for (let i = kept + 1; i < this.count; i++) {
      if (keep[i] === 0) continue;
      endpoints.push(this.endpoints[i]!);
      this.waiting[kept] = this.waiting[i]!;
      this.running[kept] = this.running[i]!;
      this.kvUsage[kept] = this.kvUsage[i]!;
      this.fresh[kept] = this.fresh[i]!;
      for (const column of this.#columns.values()) column[kept] = column[i]!;
      kept++;
    }
    this.count = kept;
    this.endpoints = endpoints;
    return kept;
  }

  /** Zeroes columns, for a producer that failed half-way. */
  clear(keys: readonly ColumnKey[]): void {
    for (const key of keys) this.#columns.get(key)?.fill(0, 0, this.count);
  }

  /** @throws SluiceError COLUMN_MISSING */
  column(key: ColumnKey): Float64Array {
    const column = this.#columns.get(key);
    if (column === undefined)
      throw new SluiceError(
        "COLUMN_MISSING",
        `no producer of this profile writes the column ${key.name}; a plugin that reads it must list it in "requires"`,
      );
    return column;
  }

  optionalColumn(key: ColumnKey): Float64Array | undefined {
    return this.#columns.get(key);
  }

  #grow(count: number): void {
    const room = 2 ** Math.ceil(Math.log2(count));
    this.waiting = new Float64Array(room);
    this.running = new Float64Array(room);
    this.kvUsage = new Float64Array(room);
    this.fresh = new Uint8Array(room);
    for (const key of this.#columns.keys()) this.#columns.set(key, new Float64Array(room));
  }
}

function substituteUnknown(column: Float64Array, count: number): void {
  let worst = Number.NaN;
  let unknown = 0;
  for (let i = 0; i < count; i++) {
    const value = column[i]!;
    if (Number.isNaN(value)) unknown++;
    else if (!(value <= worst)) worst = value;
  }
  if (unknown === 0 || unknown === count) return;
  for (let i = 0; i < count; i++) if (Number.isNaN(column[i])) column[i] = worst;
}

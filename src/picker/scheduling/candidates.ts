import { type Endpoint, isFresh } from "../../base/inference/endpoint.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { AttributeKey, ColumnKey } from "../../base/plugin/keys.ts";
import type { Candidates } from "../../base/plugin/kinds.ts";
import { type DataScope, NO_WRITER, NOTHING_IN_SCOPE } from "./profile.ts";

/** Milliseconds after which metrics are stale, unless the scrape interval of the endpoint is longer. */
export const DEFAULT_STALENESS_MS = 200;

const FIRST_ROOM = 16;

/** Numbers. A loop writes fewer of them faster than a call into native code. */
const FEW = 64;

/** Writes `value` to the first `count` places. */
export function fillFirst(column: Float64Array, value: number, count: number): void {
  if (count > FEW) column.fill(value, 0, count);
  else for (let i = 0; i < count; i++) column[i] = value;
}

/**
 * The candidates of one decision as columns, with the attributes that producers write for the request. One instance serves all
 * decisions of a scheduler: each decision fills it again, and it grows to the largest pool.
 */
export class CandidateColumns implements Candidates {
  count = 0;
  now = 0;
  endpoints: readonly Endpoint[] = [];
  /** Some of the given endpoints are down, and some are not. */
  mixed = false;
  waiting = new Float64Array(FIRST_ROOM);
  running = new Float64Array(FIRST_ROOM);
  kvUsage = new Float64Array(FIRST_ROOM);
  fresh = new Uint8Array(FIRST_ROOM);
  /** The data that the current plugin may read. */
  scope: DataScope = NOTHING_IN_SCOPE;
  readonly #columns: Float64Array[];
  #attributes: unknown[];
  readonly #staleness: number;

  /**
   * @param columns number of columns that the producers write
   * @param attributes number of request attributes that they write
   * @param staleness milliseconds, above 0
   */
  constructor(columns: number, attributes: number, staleness = DEFAULT_STALENESS_MS) {
    this.#staleness = staleness;
    this.#columns = Array.from({ length: columns }, () => new Float64Array(FIRST_ROOM));
    this.#attributes = new Array<unknown>(attributes).fill(undefined);
  }

  /** The number of candidates that fit in the arrays. */
  get room(): number {
    return this.waiting.length;
  }

  /**
   * Reads the endpoints' metrics once. A missing or stale value becomes the worst, that is the largest, known value of its
   * column. A column without any known value is NaN throughout. Producers' columns become zero, and the request has no
   * attributes.
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
    let down = 0;
    for (let i = 0; i < count; i++) {
      const endpoint = endpoints[i]!;
      if (endpoint.state === "down") down++;
      const { metrics } = endpoint;
      const believed = isFresh(endpoint, now, this.#staleness);
      fresh[i] = believed ? 1 : 0;
      waiting[i] = believed ? metrics.waiting : Number.NaN;
      running[i] = believed ? metrics.running : Number.NaN;
      kvUsage[i] = believed ? metrics.kvUsage : Number.NaN;
    }
    this.mixed = down > 0 && down < count;
    substituteUnknown(waiting, count);
    substituteUnknown(running, count);
    substituteUnknown(kvUsage, count);
    const columns = this.#columns;
    for (let at = 0; at < columns.length; at++) fillFirst(columns[at]!, 0, count);
    const attributes = this.#attributes;
    for (let at = 0; at < attributes.length; at++) attributes[at] = undefined;
  }

  /** Copies `other`, which has the same columns; both share the attributes. */
  copyFrom(other: CandidateColumns): void {
    const { count } = other;
    if (count > this.room) this.#grow(count);
    this.count = count;
    this.now = other.now;
    this.endpoints = other.endpoints;
    this.mixed = other.mixed;
    copy(this.waiting, other.waiting, count);
    copy(this.running, other.running, count);
    copy(this.kvUsage, other.kvUsage, count);
    this.fresh.set(other.fresh.subarray(0, count));
    for (let at = 0; at < this.#columns.length; at++) copy(this.#columns[at]!, other.#columns[at]!, count);
    this.#attributes = other.#attributes;
  }

  /** Drops the candidates whose `keep` is 0; the others stay in order. @returns the number of candidates that are left */
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
      for (const column of this.#columns) column[kept] = column[i]!;
      kept++;
    }
    this.count = kept;
    this.endpoints = endpoints;
    return kept;
  }

  /** Clears the data of a producer that failed half-way. */
  clear(scope: DataScope): void {
    for (const at of scope.writes.values()) {
      if (at.of === "endpoint") this.#columns[at.place]!.fill(0, 0, this.count);
      else this.#attributes[at.place] = undefined;
    }
  }

  /** @throws SluiceError DATA_UNDECLARED, COLUMN_MISSING */
  column(key: ColumnKey): Float64Array {
    const place = this.#placeOf(key);
    if (place !== NO_WRITER) return this.#columns[place]!;
    throw new SluiceError(
      "COLUMN_MISSING",
      `no producer writes the column ${key.name}; list it in "requires", or read it with optionalColumn`,
    );
  }

  /** @throws SluiceError DATA_UNDECLARED */
  optionalColumn(key: ColumnKey): Float64Array | undefined {
    const place = this.#placeOf(key);
    return place === NO_WRITER ? undefined : this.#columns[place]!;
  }

  /** Returns the column at a place of the plan, for the scheduler itself; undefined for `NO_WRITER`. */
  at(place: number): Float64Array | undefined {
    return this.#columns[place];
  }

  /** Returns the attribute at a place of the plan, for the scheduler itself. */
  attributeAt(place: number): unknown {
    return this.#attributes[place];
  }

  /** @throws SluiceError DATA_UNDECLARED */
  attribute<T>(key: AttributeKey<T>): T | undefined {
    const place = this.scope.attributes.get(key);
    if (place === undefined) throw undeclared(key.name, "attribute");
    return this.#attributes[place] as T | undefined;
  }

  /** @throws SluiceError DATA_NOT_PRODUCED */
  setAttribute<T>(key: AttributeKey<T>, value: T): void {
    const at = this.scope.writes.get(key);
    if (at === undefined)
      throw new SluiceError(
        "DATA_NOT_PRODUCED",
        `this plugin writes the attribute ${key.name} without declaring it; list it in "produces"`,
      );
    this.#attributes[at.place] = value;
  }

  #placeOf(key: ColumnKey): number {
    const place = this.scope.columns.get(key);
    if (place === undefined) throw undeclared(key.name, "column");
    return place;
  }

  #grow(count: number): void {
    const room = 2 ** Math.ceil(Math.log2(count));
    this.waiting = new Float64Array(room);
    this.running = new Float64Array(room);
    this.kvUsage = new Float64Array(room);
    this.fresh = new Uint8Array(room);
    for (let at = 0; at < this.#columns.length; at++) this.#columns[at] = new Float64Array(room);
  }
}

function undeclared(name: string, what: string): SluiceError {
  return new SluiceError(
    "DATA_UNDECLARED",
    `this plugin reads the ${what} ${name} without declaring it; list it in "requires" or "optional"`,
  );
}

function copy(to: Float64Array, from: Float64Array, count: number): void {
  for (let i = 0; i < count; i++) to[i] = from[i]!;
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

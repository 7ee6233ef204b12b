import type { EndpointColumns, EndpointStatics } from "../../../src/wires/admin/feed/endpoints.ts";

/** Seconds of a sparkline. */
const SPARK = 60;

/** One endpoint with its present figures. */
export type EndpointRow = EndpointStatics & {
  readonly [Name in keyof EndpointColumns]: EndpointColumns[Name][number];
} & { readonly spark: readonly number[] };

/** The endpoints of the stream: what seldom changes, the newest figures, and requests in flight of the last minute. */
export class EndpointLoads {
  #generation = -1;
  #statics: readonly EndpointStatics[] = [];
  #columns: EndpointColumns | undefined;
  #rows: readonly EndpointRow[] | undefined;
  readonly #sparks = new Map<string, number[]>();
  /** Endpoints of the pool; more than the rows when the process does not send all. */
  total: number | undefined;
  /** Wall-clock milliseconds of the figures. */
  at: number | undefined;

  takeStatics(generation: number, endpoints: readonly EndpointStatics[], total: number): void {
    if (generation !== this.#generation) this.#columns = undefined;
    this.#generation = generation;
    this.#statics = endpoints;
    this.total = total;
    this.#rows = undefined;
    const present = new Set(endpoints.map(({ id }) => id));
    for (const id of this.#sparks.keys()) if (!present.has(id)) this.#sparks.delete(id);
  }

  /** Figures of another order of endpoints than the known one are not used. */
  takeLoads(generation: number, at: number, columns: EndpointColumns): void {
    if (generation !== this.#generation) return;
    this.at = at;
    this.#columns = columns;
    this.#rows = undefined;
    this.#statics.forEach(({ id }, place) => {
      const spark = this.#sparks.get(id) ?? [];
      spark.push(columns.inFlight[place] ?? 0);
      if (spark.length > SPARK) spark.shift();
      this.#sparks.set(id, spark);
    });
  }

  /** In the order of the process. Figures are null or 0 until the first ones have come. */
  get rows(): readonly EndpointRow[] {
    this.#rows ??= this.#statics.map((statics, place) => rowOf(statics, this.#columns, place, this.#sparks));
    return this.#rows;
  }

  clear(): void {
    this.#generation = -1;
    this.#statics = [];
    this.#columns = undefined;
    this.#rows = undefined;
    this.#sparks.clear();
    this.total = undefined;
    this.at = undefined;
  }
}

function rowOf(
  statics: EndpointStatics,
  columns: EndpointColumns | undefined,
  place: number,
  sparks: ReadonlyMap<string, number[]>,
): EndpointRow {
  return { ...statics, ...valuesAt(columns, place), spark: sparks.get(statics.id) ?? [] };
}

/** The values of one endpoint. */
export function valuesAt(columns: EndpointColumns | undefined, place: number) {
  return {
    waiting: columns?.waiting[place] ?? null,
    running: columns?.running[place] ?? null,
    kvUsage: columns?.kvUsage[place] ?? null,
    ageMs: columns?.ageMs[place] ?? null,
    fresh: columns?.fresh[place] ?? 0,
    inFlight: columns?.inFlight[place] ?? 0,
    inFlightTokens: columns?.inFlightTokens[place] ?? 0,
    requests: columns?.requests[place] ?? 0,
    share: columns?.share[place] ?? null,
    failures: columns?.failures[place] ?? 0,
    tokensPerSecond: columns?.tokensPerSecond[place] ?? null,
    tpotMs: columns?.tpotMs[place] ?? null,
    ttftMs: columns?.ttftMs[place] ?? null,
    nextScrapeMs: columns?.nextScrapeMs[place] ?? null,
  };
}

import { ExpositionReader } from "../../base/telemetry/exposition-reader.ts";

const HITS = "vllm:prefix_cache_hits_total";
const QUERIES = "vllm:prefix_cache_queries_total";

/** The prefix-cache counters of the simulators, summed over restarts: a counter that fell began again at zero. */
export class CacheCounters {
  readonly #last = new Map<string, { hits: number; queries: number }>();
  readonly #reader = new ExpositionReader([HITS, QUERIES]);
  #hits = 0;
  #queries = 0;

  /** @param server any name @param page its metrics page */
  add(server: string, page: string): void {
    const now = { hits: 0, queries: 0 };
    const bytes = Buffer.from(page);
    this.#reader.read(bytes, bytes.length, ({ index, value }) => {
      if (index === 0) now.hits += value;
      else now.queries += value;
    });
    const last = this.#last.get(server);
    this.#last.set(server, now);
    if (last === undefined) return;
    this.#hits += now.hits >= last.hits ? now.hits - last.hits : now.hits;
    this.#queries += now.queries >= last.queries ? now.queries - last.queries : now.queries;
  }

  /** Cached prompt tokens by all prompt tokens since the start or the last `restart`, 0..1. */
  get hitRate(): number {
    return this.#queries === 0 ? 0 : this.#hits / this.#queries;
  }

  /** Counts from here. */
  restart(): void {
    this.#hits = 0;
    this.#queries = 0;
  }
}

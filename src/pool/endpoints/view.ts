import type { Clock } from "../../base/clock/clock.ts";
import type { ServerTls } from "../../base/grpc/server-tls.ts";
import { type EndpointState, isFresh } from "../../base/inference/endpoint.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";
import type { EndpointRegistry } from "./registry.ts";
import { namesOf } from "./served-models.ts";

/** One endpoint as `/debug/endpoints` and the page show it. An unknown number is null: JSON has no NaN. */
export interface EndpointView {
  readonly id: string;
  readonly hostPort: string;
  /** What it speaks: its own scheme, or the one that counts for all endpoints. */
  readonly scheme: "http" | "https";
  readonly rank: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly state: EndpointState;
  /** ISO 8601. */
  readonly since: string;
  readonly sinceMs: number;
  /** Why it is in this state. */
  readonly cause: string;
  readonly metrics: {
    readonly waiting: number | null;
    readonly running: number | null;
    readonly kvUsage: number | null;
    /** The most requests that it ran at a time since it came, as far as the pages showed: those running while others waited. */
    readonly capacity: number | null;
    readonly maxLora: number | null;
    readonly loraRunning: readonly string[];
    readonly loraWaiting: readonly string[];
    readonly blockSize: number | null;
    readonly blocks: number | null;
    /** Milliseconds since the metrics were read; null when never. */
    readonly ageMs: number | null;
    readonly fresh: boolean;
  };
  /** Further numbers that the configuration asks for, by `attribute/producer`. */
  readonly attributes?: Readonly<Record<string, number>>;
  /** The models that a models-data-source has read, at most 32. */
  readonly listedModels?: readonly string[];
  /** The models that it serves; null = unknown, it counts as serving every model. */
  readonly models: {
    readonly source: "file" | "server";
    /** At most 32, in the order of the list; `*` = every name. */
    readonly names: readonly string[];
    readonly count: number;
  } | null;
  /** With the part of the peers. */
  readonly inFlight: { readonly requests: number; readonly tokens: number };
  /** What other replicas of this picker have in flight there, and how old that is; absent where none share their load. */
  readonly peers?: { readonly requests: number; readonly tokens: number; readonly ageMs: number };
  /** Milliseconds between scrapes; `fresh` is measured against it. */
  readonly scrapeIntervalMs: number;
  /** Milliseconds until the next scrape, or the next try of a down endpoint; 0 while one runs, null when none is planned. */
  readonly nextScrapeInMs: number | null;
}

/** All endpoints and the totals of the debug contract (api-resources 6A.6). */
export interface PoolView {
  readonly endpoints: readonly EndpointView[];
  readonly totalEndpoints: number;
  readonly maxEndpoints: number;
  readonly states: Readonly<Record<EndpointState, number>>;
}

/** The figures of the pool gauges (scheduling 8.4); NaN where no endpoint knows the value. */
export interface PoolAggregates {
  /** Endpoints whose scrapes succeed. */
  readonly ready: number;
  readonly meanKvUsage: number;
  readonly meanWaiting: number;
  readonly meanRunning: number;
  /** Sample standard deviations (n - 1), 0 for fewer than two values. */
  readonly stdDevKvUsage: number;
  readonly stdDevWaiting: number;
  readonly stdDevRunning: number;
  readonly states: Readonly<Record<EndpointState, number>>;
}

/** Reads the pool for people and for gauges; changes nothing. */
export class EndpointsView {
  readonly #registry: EndpointRegistry;
  readonly #clock: Clock;
  readonly #staleness: number;
  readonly #tls: Pick<ServerTls, "secures"> | undefined;

  /**
   * @param staleness milliseconds of `isFresh`; `--metrics-staleness-threshold`, default 2,000
   * @param tls which endpoints speak TLS; absent = those with `scheme: https`
   */
  constructor(registry: EndpointRegistry, clock: Clock, staleness = 2000, tls?: Pick<ServerTls, "secures">) {
    this.#tls = tls;
    this.#registry = registry;
    this.#clock = clock;
    this.#staleness = staleness;
  }

  /** @param limit the most endpoints shown, in order of their ids; default all */
  pool(limit = Number.POSITIVE_INFINITY): PoolView {
    const all = [...this.#registry.list()].sort((a, b) => (a.id < b.id ? -1 : 1));
    const now = this.#clock.now();
    return {
      endpoints: all.slice(0, limit).map((endpoint) => this.#endpoint(endpoint, now)),
      totalEndpoints: all.length,
      maxEndpoints: this.#registry.maxEndpoints,
      states: countStates(all),
    };
  }

  /** Milliseconds after which metrics are not fresh. */
  get staleness(): number {
    return this.#staleness;
  }

  one(endpoint: PoolEndpoint): EndpointView {
    return this.#endpoint(endpoint, this.#clock.now());
  }

  aggregates(): PoolAggregates {
    const all = this.#registry.list();
    const ready = all.filter((endpoint) => this.#isReady(endpoint));
    const kvUsage = meanAndDeviation(ready.map((endpoint) => endpoint.metrics.kvUsage));
    const waiting = meanAndDeviation(ready.map((endpoint) => endpoint.metrics.waiting));
    const running = meanAndDeviation(ready.map((endpoint) => endpoint.metrics.running));
    return {
      ready: ready.length,
      meanKvUsage: kvUsage.mean,
      meanWaiting: waiting.mean,
      meanRunning: running.mean,
      stdDevKvUsage: kvUsage.deviation,
      stdDevWaiting: waiting.deviation,
      stdDevRunning: running.deviation,
      states: countStates(all),
    };
  }

  #isReady(endpoint: PoolEndpoint): boolean {
    return endpoint.state === "up" && isFresh(endpoint, this.#clock.now(), this.#staleness);
  }

  #endpoint(endpoint: PoolEndpoint, now: number): EndpointView {
    const { metrics, inFlight } = endpoint;
    return {
      id: endpoint.id,
      hostPort: endpoint.hostPort,
      scheme: (this.#tls?.secures(endpoint) ?? endpoint.scheme === "https") ? "https" : "http",
      rank: endpoint.rank,
      labels: endpoint.labels,
      state: endpoint.state,
      since: new Date(endpoint.sinceWall).toISOString(),
      sinceMs: now - endpoint.since,
      cause: endpoint.cause,
      metrics: {
        waiting: known(metrics.waiting),
        running: known(metrics.running),
        kvUsage: known(metrics.kvUsage),
        capacity: endpoint.unscraped.capacity || null,
        maxLora: known(metrics.maxLora),
        loraRunning: [...metrics.loraRunning],
        loraWaiting: [...metrics.loraWaiting],
        blockSize: known(metrics.blockSize),
        blocks: known(metrics.blocks),
        ageMs: known(now - metrics.scrapedAt),
        fresh: isFresh(endpoint, now, this.#staleness),
      },
      ...furtherOf(endpoint),
      models: modelsOf(endpoint),
      inFlight: { requests: inFlight.requests, tokens: inFlight.tokens },
      ...peersOf(endpoint, now),
      scrapeIntervalMs: endpoint.scrapeInterval,
      nextScrapeInMs: known(Math.max(0, endpoint.nextScrapeAt - now)),
    };
  }
}

/** The most names of models shown for one endpoint. */
const MAX_MODELS_SHOWN = 32;

function furtherOf({
  metrics,
  attributes,
  listedModels,
}: PoolEndpoint): Pick<EndpointView, "attributes" | "listedModels"> {
  const values = Object.fromEntries([...attributes, ...(metrics.attributes ?? [])]);
  return {
    ...(Object.keys(values).length === 0 ? {} : { attributes: values }),
    ...(listedModels === undefined ? {} : { listedModels: listedModels.slice(0, MAX_MODELS_SHOWN) }),
  };
}

function peersOf({ peers }: PoolEndpoint, now: number): Pick<EndpointView, "peers"> {
  if (peers === undefined) return {};
  return { peers: { requests: peers.requests, tokens: peers.tokens, ageMs: Math.round(peers.ageMs(now)) } };
}

function modelsOf({ models }: PoolEndpoint): EndpointView["models"] {
  if (models === undefined) return null;
  const names = models.byName === "any" ? ["*"] : namesOf(models);
  return { source: models.source, names: names.slice(0, MAX_MODELS_SHOWN), count: names.length };
}

function known(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

function countStates(endpoints: readonly PoolEndpoint[]): Record<EndpointState, number> {
  const counts = { up: 0, blind: 0, down: 0 };
  for (const endpoint of endpoints) counts[endpoint.state]++;
  return counts;
}

/** Over the values that are not NaN, rounded to two decimals as the published gauges are (scheduling 8.4). */
function meanAndDeviation(values: readonly number[]): { readonly mean: number; readonly deviation: number } {
  const present = values.filter((value) => !Number.isNaN(value));
  const count = present.length;
  const mean = present.reduce((sum, value) => sum + value, 0) / count;
  if (count < 2) return { mean: twoDecimals(mean), deviation: 0 };
  const squares = present.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { mean: twoDecimals(mean), deviation: twoDecimals(Math.sqrt(squares / (count - 1))) };
}

function twoDecimals(value: number): number {
  return Math.round(value * 100) / 100;
}

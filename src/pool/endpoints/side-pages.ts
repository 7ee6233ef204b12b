import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { ServerTls } from "../../base/grpc/server-tls.ts";
import { UNKNOWN_METRICS } from "../../base/inference/endpoint.ts";
import type { Dialect } from "./dialects/dialect.ts";
import { PageClient } from "./page-client.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";
import type { EndpointRegistry } from "./registry.ts";
import type { MetricsPage, RunningScrape, ScrapeResult } from "./scraper.ts";
import { NOWHERE, TimerWheel, type WheelEntry } from "./timer-wheel.ts";

/** Milliseconds for one page (scheduling 1.2). */
const TIMEOUT = 1000;
/** Pages under way at once, of all endpoints. */
export const MAX_FETCHING = 32;
/** Values stay for this many intervals, and for `LEAST_KEPT` milliseconds at least, while pages cannot be read. */
const KEPT_INTERVALS = 5;
const LEAST_KEPT = 5000;

/** Reads the values of one kind of page into an endpoint. */
export interface SideReader {
  /**
   * Reads the first `length` bytes of `page`, synchronously and without keeping them. Never throws for a bad page.
   * @returns what is missing; empty = all values were read
   */
  read(page: Uint8Array, length: number, endpoint: PoolEndpoint): readonly string[];
  /** The values are too old, or the endpoint has left. */
  forget(endpoint: PoolEndpoint): void;
}

/** A page besides the metrics page. */
export interface SidePage extends Omit<MetricsPage, "also" | "every"> {
  /** Type names for the counters of failures (scheduling 8.5). */
  readonly sourceType: string;
  readonly extractorType: string;
  readonly reader: SideReader;
  /** Milliseconds between two fetches from one endpoint. */
  readonly interval: number;
  /** The page is at the address of the endpoint's node. */
  readonly useNodeAddress: boolean;
}

export interface SidePagesOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly registry: EndpointRegistry;
  readonly pages: readonly SidePage[];
  readonly pollFailed: (sourceType: string) => void;
  readonly extractFailed: (sourceType: string, extractorType: string) => void;
  /** For pages at the serving ports of endpoints that speak TLS. */
  readonly tls?: ServerTls | undefined;
  /** Default: over HTTP. `done` as of `Scraper.scrape`. */
  readonly fetch?: (endpoint: PoolEndpoint, done: (result: ScrapeResult) => void) => RunningScrape;
}

/** `waiting`: in the wheel until its next fetch. `queued`: waits for a place. `fetching`: under way, its timeout is in the wheel. */
type Phase = "waiting" | "queued" | "fetching";

/** One page of one endpoint. */
class Target implements WheelEntry {
  due = 0;
  bucket = NOWHERE;
  place = 0;
  readonly endpoint: PoolEndpoint;
  readonly page: SidePage;
  readonly client: PageClient;
  phase: Phase = "waiting";
  running: RunningScrape | undefined;
  /** Monotonic milliseconds of the last page that could be read. */
  readAt = Number.NEGATIVE_INFINITY;

  constructor(endpoint: PoolEndpoint, page: SidePage, client: PageClient) {
    this.endpoint = endpoint;
    this.page = page;
    this.client = client;
  }
}

/**
 * Fetches the pages that are no metrics pages of model servers: of GPU exporters, and lists of models. They are apart from the
 * collector on purpose: an exporter that is slow, silent or gone changes nothing but the values that come from it, neither the
 * state of an endpoint nor the age of its metrics.
 */
export class SidePages {
  readonly #options: SidePagesOptions;
  readonly #clients: readonly (readonly [SidePage, PageClient])[];
  readonly #wheel: TimerWheel<Target>;
  readonly #targets = new Map<PoolEndpoint, readonly Target[]>();
  readonly #queue = new Set<Target>();
  readonly #unsubscribe: readonly (() => void)[];
  #fetching = 0;

  /** Starts. */
  constructor(options: SidePagesOptions) {
    const { clock, registry, pages, tls } = options;
    this.#options = options;
    this.#clients = pages.map((page) => [page, new PageClient(clock, fetchedAs(page), TIMEOUT, tls)]);
    this.#wheel = new TimerWheel(clock, (target) => this.#onDue(target));
    this.#unsubscribe = [
      registry.onAdded((endpoint) => this.#add(endpoint)),
      registry.onRemoved((endpoint) => this.#remove(endpoint)),
    ];
    for (const endpoint of registry.list()) this.#add(endpoint);
  }

  /** Pages under way. */
  get fetching(): number {
    return this.#fetching;
  }

  /** Stops for good. */
  async close(): Promise<void> {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    for (const endpoint of [...this.#targets.keys()]) this.#remove(endpoint);
    this.#wheel.clear();
    await Promise.all(this.#clients.map(([, client]) => client.close()));
  }

  #add(endpoint: PoolEndpoint): void {
    const { clock, random } = this.#options;
    const targets = this.#clients.map(([page, client]) => new Target(endpoint, page, client));
    this.#targets.set(endpoint, targets);
    // Spread over one interval, so that endpoints that came together are not asked in step.
    for (const target of targets) this.#wheel.put(target, clock.now() + random.next() * target.page.interval);
  }

  #remove(endpoint: PoolEndpoint): void {
    const targets = this.#targets.get(endpoint) ?? [];
    this.#targets.delete(endpoint);
    for (const target of targets) {
      this.#wheel.take(target);
      this.#queue.delete(target);
      if (target.phase === "fetching") this.#fetching--;
      target.running?.cancel();
      target.client.forget(endpoint);
      target.page.reader.forget(endpoint);
    }
    this.#next();
  }

  #onDue(target: Target): void {
    if (target.phase === "fetching") {
      this.#finish(target, target.running!.expire("no page in time"));
      return;
    }
    target.phase = "queued";
    this.#queue.add(target);
    this.#next();
  }

  #next(): void {
    for (const target of this.#queue) {
      if (this.#fetching >= MAX_FETCHING) return;
      this.#queue.delete(target);
      this.#fetch(target);
    }
  }

  #fetch(target: Target): void {
    const { clock } = this.#options;
    target.phase = "fetching";
    this.#fetching++;
    this.#wheel.put(target, clock.now() + TIMEOUT);
    const { endpoint, client } = target;
    const done = (result: ScrapeResult): void => this.#finish(target, result);
    target.running = this.#options.fetch?.(endpoint, done) ?? client.fetch(endpoint, UNKNOWN_METRICS, done);
  }

  #finish(target: Target, result: ScrapeResult): void {
    const { clock, pollFailed, extractFailed } = this.#options;
    const { sourceType, extractorType, interval, reader } = target.page;
    const now = clock.now();
    this.#fetching--;
    target.running = undefined;
    target.phase = "waiting";
    if (result.kind === "read") target.readAt = now;
    else {
      if (result.kind === "unreadable" && result.polled) extractFailed(sourceType, extractorType);
      else pollFailed(sourceType);
      if (now - target.readAt > Math.max(LEAST_KEPT, KEPT_INTERVALS * interval)) reader.forget(target.endpoint);
    }
    this.#wheel.put(target, now + interval);
    this.#next();
  }
}

/** The page as `PageClient` fetches it: its reader writes to the endpoint, and the metrics that it gives have no meaning. */
function fetchedAs({
  reader,
  useNodeAddress,
  sourceType,
  ...page
}: SidePage): ConstructorParameters<typeof PageClient>[1] {
  const dialect: Dialect = {
    name: sourceType,
    createReader: (endpoint) => ({
      read(bytes, length, previous) {
        const missing = reader.read(bytes, length, endpoint!);
        return { metrics: previous, found: missing.length === 0 ? 1 : 0, missing };
      },
    }),
  };
  // Without a node the address is none, and the fetch fails as one that finds no server.
  const hostOf = ({ nodeAddress = "", port }: PoolEndpoint) => ({ address: nodeAddress, port });
  return { ...page, dialects: { of: () => dialect }, ...(useNodeAddress ? { hostOf } : {}) };
}

import type { Clock } from "../../base/clock/clock.ts";
import type { ServerTls } from "../../base/grpc/server-tls.ts";
import { type EndpointMetrics, UNKNOWN_METRICS } from "../../base/inference/endpoint.ts";
import { PageClient } from "./page-client.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";
import type { EndpointDialects, MetricsPage, RunningScrape, ScrapeResult, Scraper } from "./scraper.ts";

/** Fetches and reads the metrics pages of endpoints: most often one page of each, else all pages that are due. */
export class ScrapeClient implements Scraper {
  readonly #first: PageClient;
  readonly #pages: readonly ScrapedPage[];
  /** Where endpoints have several pages. */
  readonly #readings = new Map<PoolEndpoint, JointReadings>();

  /**
   * @param connectTimeout milliseconds after which a pending connection is given up; at least the collector's timeout
   * @param tls for pages at the serving ports of endpoints that speak TLS
   */
  constructor(
    clock: Clock,
    dialects: EndpointDialects,
    page: MetricsPage = {},
    connectTimeout = 1000,
    tls?: ServerTls,
  ) {
    this.#pages = [{ ...page, dialects }, ...(page.also ?? [])].map((each) => ({
      client: new PageClient(clock, each, connectTimeout, tls),
      every: each.every ?? 1,
    }));
    this.#first = this.#pages[0]!.client;
  }

  scrape(endpoint: PoolEndpoint, done: (result: ScrapeResult) => void): RunningScrape {
    if (this.#pages.length === 1) return this.#first.fetch(endpoint, endpoint.metrics, done);
    let readings = this.#readings.get(endpoint);
    if (readings === undefined) {
      readings = new JointReadings(this.#pages);
      this.#readings.set(endpoint, readings);
    }
    return new JointScrape(readings, endpoint, done);
  }

  forget(endpoint: PoolEndpoint): void {
    this.#readings.delete(endpoint);
    for (const { client } of this.#pages) client.forget(endpoint);
  }

  async close(): Promise<void> {
    this.#readings.clear();
    await Promise.all(this.#pages.map(({ client }) => client.close()));
  }
}

/** One of several pages of an endpoint. */
interface ScrapedPage {
  readonly client: PageClient;
  /** The page is fetched in every n-th scrape (scheduling 1.2). */
  readonly every: number;
}

/** One page of one endpoint, from scrape to scrape. */
interface Reading {
  readonly page: ScrapedPage;
  /** Its values when it was last readable. */
  metrics: EndpointMetrics;
  /** Its last fetch failed. Its older values do not count beside pages that could be read. */
  failed: boolean;
}

/** The values of one endpoint's pages. */
class JointReadings {
  readonly #readings: readonly Reading[];
  #scrapes = 0;

  constructor(pages: readonly ScrapedPage[]) {
    this.#readings = pages.map((page) => ({ page, metrics: UNKNOWN_METRICS, failed: false }));
  }

  /** The pages to fetch in the scrape that begins. */
  due(): readonly Reading[] {
    const scrape = this.#scrapes++;
    return this.#readings.filter(({ page }) => scrape % page.every === 0);
  }

  /**
   * One set of values. For each value, the page that was read last counts; of pages read at once, the one that is named last.
   */
  merged(): EndpointMetrics {
    const known = this.#readings.filter(({ failed }) => !failed).map(({ metrics }) => metrics);
    return known.sort((a, b) => a.scrapedAt - b.scrapedAt).reduce(overlaid, UNKNOWN_METRICS);
  }
}

/** The fetch of one page. */
interface Fetch {
  readonly reading: Reading;
  running: RunningScrape | undefined;
  result: ScrapeResult | undefined;
}

/** The fetches of one endpoint's due pages, side by side: a slow page does not hold up another. */
class JointScrape implements RunningScrape {
  readonly #readings: JointReadings;
  readonly #fetches: readonly Fetch[];

  constructor(readings: JointReadings, endpoint: PoolEndpoint, done: (result: ScrapeResult) => void) {
    this.#readings = readings;
    this.#fetches = readings.due().map((reading) => ({ reading, running: undefined, result: undefined }));
    for (const fetch of this.#fetches) {
      const { client } = fetch.reading.page;
      fetch.running = client.fetch(endpoint, fetch.reading.metrics, (result) => {
        fetch.result = result;
        if (this.#fetches.every((each) => each.result !== undefined)) done(this.#outcome());
      });
    }
  }

  cancel(): void {
    for (const { running, result } of this.#fetches) if (result === undefined) running?.cancel();
  }

  expire(detail: string): ScrapeResult {
    for (const fetch of this.#fetches) fetch.result ??= fetch.running?.expire(detail);
    return this.#outcome();
  }

  /** A silent page at the serving port says more about the endpoint than a readable page elsewhere. */
  #outcome(): ScrapeResult {
    let unreachable: ScrapeResult | undefined;
    let unreadable: ScrapeResult | undefined;
    let read = 0;
    let partial = false;
    let pollFailures = 0;
    for (const { reading, result } of this.#fetches) {
      if (result === undefined) continue;
      reading.failed = result.kind !== "read";
      if (result.kind === "read") {
        reading.metrics = result.metrics;
        read++;
        partial ||= result.partial;
      } else if (result.kind === "unreachable") unreachable ??= result;
      else {
        unreadable ??= result;
        if (result.polled) partial = true;
        else pollFailures++;
      }
    }
    if (unreachable !== undefined) return unreachable;
    if (read === 0 && unreadable !== undefined) return unreadable;
    return { kind: "read", metrics: this.#readings.merged(), partial, pollFailures };
  }
}

/** The values of `under`, overwritten by those that `over` knows. */
function overlaid(under: EndpointMetrics, over: EndpointMetrics): EndpointMetrics {
  const adapters = Number.isNaN(over.maxLora) && over.loraRunning.size + over.loraWaiting.size === 0 ? under : over;
  return {
    waiting: known(over.waiting, under.waiting),
    running: known(over.running, under.running),
    kvUsage: known(over.kvUsage, under.kvUsage),
    maxLora: adapters.maxLora,
    loraRunning: adapters.loraRunning,
    loraWaiting: adapters.loraWaiting,
    blockSize: known(over.blockSize, under.blockSize),
    blocks: known(over.blocks, under.blocks),
    ...bothAttributes(under, over),
    scrapedAt: over.scrapedAt,
  };
}

function bothAttributes(under: EndpointMetrics, over: EndpointMetrics): Pick<EndpointMetrics, "attributes"> {
  if (under.attributes === undefined) return over.attributes === undefined ? {} : { attributes: over.attributes };
  return { attributes: new Map([...under.attributes, ...(over.attributes ?? [])]) };
}

function known(value: number, otherwise: number): number {
  return Number.isNaN(value) ? otherwise : value;
}

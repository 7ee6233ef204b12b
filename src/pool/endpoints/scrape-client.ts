import type { Clock } from "../../base/clock/clock.ts";
import type { Dialects } from "./dialects/dialects.ts";
import { JointReadings, JointScrape, type ScrapedPage } from "./joint-scrape.ts";
import type { MetricsPage } from "./metrics-page.ts";
import { PageClient } from "./page-client.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";
import type { RunningScrape, ScrapeResult, Scraper } from "./scraper.ts";

export type { MetricsPage } from "./metrics-page.ts";
export { MAX_PAGE_BYTES } from "./page-client.ts";

/** Fetches and reads the metrics pages of endpoints: most often one of each, else all that are due. */
export class ScrapeClient implements Scraper {
  readonly #first: PageClient;
  readonly #pages: readonly ScrapedPage[];
  /** Where endpoints have several pages. */
  readonly #readings = new Map<PoolEndpoint, JointReadings>();

  /** @param connectTimeout milliseconds after which a pending connection is given up; at least the collector's timeout */
  constructor(clock: Clock, dialects: Dialects, page: MetricsPage = {}, connectTimeout = 1000) {
    this.#pages = [{ ...page, dialects }, ...(page.also ?? [])].map((each) => ({
      client: new PageClient(clock, each, connectTimeout),
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

import type { EndpointMetrics } from "../../../base/inference/endpoint.ts";

/** What a dialect made of one metrics page. */
export interface ReadPage {
  readonly metrics: EndpointMetrics;
  /** How many of the wanted values the page held; 0 means it is of no use at all. */
  readonly found: number;
  /** Names of what was wanted and is missing, absurd or of the wrong type. */
  readonly missing: readonly string[];
}

/** How one kind of model server names its load on its metrics page. */
export interface Dialect {
  /** Engine name as in the label `llm-d.ai/engine-type`. */
  readonly name: string;
  /** A reader for the pages of one endpoint. */
  createReader(): PageReader;
}

/** Reads the pages of one endpoint, one after the other. */
export interface PageReader {
  /**
   * Reads the first `length` bytes of `page`, synchronously and without keeping them. Never throws for a bad page.
   * @param previous what is kept where the page is silent about things that do not change (adapters, block sizes)
   * @param now monotonic milliseconds, the `scrapedAt` of the result
   */
  read(page: Uint8Array, length: number, previous: EndpointMetrics, now: number): ReadPage;
}

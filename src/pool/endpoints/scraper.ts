import type { AttemptFailure, EndpointMetrics } from "../../base/inference/endpoint.ts";
import type { Dialect } from "./dialects/dialect.ts";
import type { MetricsHost, PoolEndpoint } from "./pool-endpoint.ts";

/** The result of one scrape. */
export type ScrapeResult =
  /**
   * The scrape read at least one value. `partial`: a wanted value was missing or of the wrong type. `pollFailures`: number of
   * pages, of several, that did not arrive; default 0.
   */
  | {
      readonly kind: "read";
      readonly metrics: EndpointMetrics;
      readonly partial: boolean;
      readonly pollFailures?: number;
    }
  /**
   * The server is there, but the scrape read no value. Causes: an error status, too many bytes, garbage, or no whole page in
   * time on a connection that the server has accepted. `polled`: a page with status 200 did arrive.
   */
  | { readonly kind: "unreadable"; readonly detail: string; readonly polled: boolean }
  /** The server refused, reset or never accepted the connection. */
  | { readonly kind: "unreachable"; readonly failure: AttemptFailure; readonly detail: string };

export interface RunningScrape {
  /** Drops the connection. `done` will not be called any more. */
  cancel(): void;
  /**
   * As `cancel`, because the time is up.
   * @param detail the part that did not arrive in time, for people
   * @returns the result of the scrape
   */
  expire(detail: string): ScrapeResult;
}

/** The port between the collector, which decides when to scrape, and the code that fetches and reads a page. */
export interface Scraper {
  /**
   * Starts one scrape; never called while another one of the same endpoint runs.
   * @param done called exactly once, unless cancelled or expired, and never before `scrape` has returned
   */
  scrape(endpoint: PoolEndpoint, done: (result: ScrapeResult) => void): RunningScrape;
  /** The endpoint has left the pool: closes its connections and frees its state. */
  forget(endpoint: PoolEndpoint): void;
  /** Closes everything. */
  close(): Promise<void>;
}

/** The place of the model servers' metrics pages (scheduling 1.2). */
export interface MetricsPage {
  /** Default `http`. */
  readonly scheme?: "http" | "https";
  /** Begins with a slash; default `/metrics`. */
  readonly path?: string;
  /** 1..65535; absent or 0 = the endpoint's own. */
  readonly port?: number;
  /** False checks the servers' certificates; default true, as in the reference. */
  readonly insecureSkipVerify?: boolean;
  /** PEM: the authorities that servers' certificates are checked against; the system's when absent. */
  readonly ca?: string;
  /** PEM: the client certificate and key for servers that ask for one. */
  readonly client?: { readonly cert: string; readonly key: string };
  /** The page is fetched in every n-th scrape of an endpoint, from the first one on; default 1. */
  readonly every?: number;
  /** Further pages of the same servers. */
  readonly also?: readonly FurtherPage[];
}

/** The way to read the page of an endpoint with these labels. */
export interface EndpointDialects {
  of(labels: Readonly<Record<string, string>>): Dialect;
}

/** A further page, with the way to read it. */
export interface FurtherPage extends Omit<MetricsPage, "also"> {
  readonly dialects: EndpointDialects;
  /** Default: the endpoint's `metricsHost`. */
  readonly hostOf?: (endpoint: PoolEndpoint) => MetricsHost;
}

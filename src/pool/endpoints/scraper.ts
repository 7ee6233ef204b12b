import type { AttemptFailure, EndpointMetrics } from "../../base/inference/endpoint.ts";
import type { Dialects } from "./dialects/dialects.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";

/** What one scrape brought. */
export type ScrapeResult =
  /**
   * At least one value. `partial`: something wanted was missing or of the wrong type. `pollFailures`: of several pages this
   * many did not come, default 0.
   */
  | {
      readonly kind: "read";
      readonly metrics: EndpointMetrics;
      readonly partial: boolean;
      readonly pollFailures?: number;
    }
  /**
   * The server is there, but no value came: an error status, too much, garbage, or no whole page in time on a connection that
   * the server has accepted. `polled`: a page with status 200 did arrive.
   */
  | { readonly kind: "unreadable"; readonly detail: string; readonly polled: boolean }
  /** The server refused, reset or never accepted the connection. */
  | { readonly kind: "unreachable"; readonly failure: AttemptFailure; readonly detail: string };

export interface RunningScrape {
  /** Drops the connection; `done` will not be called any more. */
  cancel(): void;
  /**
   * As `cancel`, because the time is up.
   * @param detail what did not come in time, for people
   * @returns what has come of the scrape
   */
  expire(detail: string): ScrapeResult;
}

/** The port between the collector, which decides when, and what fetches and reads a page. */
export interface Scraper {
  /**
   * Starts one scrape; never called while another one of the same endpoint runs.
   * @param done called exactly once, unless cancelled or expired, and never before `scrape` has returned
   */
  scrape(endpoint: PoolEndpoint, done: (result: ScrapeResult) => void): RunningScrape;
  /** The endpoint has left the pool: closes what is kept for it. */
  forget(endpoint: PoolEndpoint): void;
  /** Closes everything. */
  close(): Promise<void>;
}

/** Where the metrics pages of the model servers are (scheduling 1.2). */
export interface MetricsPage {
  /** Default `http`. */
  readonly scheme?: "http" | "https";
  /** Begins with a slash; default `/metrics`. */
  readonly path?: string;
  /** 1..65535; absent or 0 = the endpoint's own. */
  readonly port?: number;
  /** False checks the servers' certificates; default true, as in the reference. */
  readonly insecureSkipVerify?: boolean;
  /** PEM: the authorities that certificates are checked against; the system's when absent. */
  readonly ca?: string;
  /** PEM: what the servers are shown of ours, where they ask. */
  readonly client?: { readonly cert: string; readonly key: string };
  /** It is fetched in every n-th scrape of an endpoint, from the first one on; default 1. */
  readonly every?: number;
  /** Further pages of the same servers. */
  readonly also?: readonly FurtherPage[];
}

/** A page that is fetched beside another one, with how it is read. */
export interface FurtherPage extends Omit<MetricsPage, "also"> {
  readonly dialects: Dialects;
}

import type { Dialects } from "./dialects/dialects.ts";

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

import type { Quantiles } from "./overview.ts";

/** The answer of `/debug/feed/endpoints`. */
export interface EndpointsFeed {
  readonly at: number;
  /** Endpoints of the pool, and those that the query matches. */
  readonly total: number;
  readonly matched: number;
  readonly states: Readonly<Record<"up" | "blind" | "down", number>>;
  /** Sorted by id. */
  readonly endpoints: readonly EndpointStatics[];
  /** In the order of `endpoints`. */
  readonly columns: EndpointColumns;
  /** The label names of the pool with their values, at most 32 names and 64 values each, for filters. */
  readonly labels: Readonly<Record<string, readonly string[]>>;
  readonly leftOut: LeftOut;
}

/** What seldom changes of an endpoint. */
export interface EndpointStatics {
  readonly id: string;
  readonly hostPort: string;
  readonly scheme: "http" | "https";
  readonly rank: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly state: "up" | "blind" | "down";
  readonly since: number;
  /** Why it is in this state. */
  readonly cause: string;
  /** The models that it serves; null = unknown, it counts as serving every model. At most 32 names; `*` = every name. */
  readonly models: {
    readonly source: "file" | "server";
    readonly names: readonly string[];
    readonly count: number;
  } | null;
  readonly adapters: {
    readonly running: readonly string[];
    readonly waiting: readonly string[];
    readonly most: number | null;
  };
  /** Blocks of the KV cache, and tokens of one block. */
  readonly blocks: number | null;
  readonly blockSize: number | null;
  /** The most requests that it ran at a time, as far as seen. */
  readonly capacity: number | null;
  readonly scrapeIntervalMs: number;
}

/** One value per endpoint. */
export interface EndpointColumns {
  /** Requests that wait and run in the model server, as it reports. */
  readonly waiting: readonly (number | null)[];
  readonly running: readonly (number | null)[];
  /** 0..1 */
  readonly kvUsage: readonly (number | null)[];
  /** Milliseconds since the metrics were read; null = never. */
  readonly ageMs: readonly (number | null)[];
  /** 1 = the metrics are fresh. */
  readonly fresh: readonly (0 | 1)[];
  /** Requests and tokens of this process in flight. */
  readonly inFlight: readonly number[];
  readonly inFlightTokens: readonly number[];
  /** Requests routed to it since the start. */
  readonly requests: readonly number[];
  /** Its share of the requests routed in the last minute, 0..1; null = none was routed. */
  readonly share: readonly (number | null)[];
  /** Failed attempts since the start. */
  readonly failures: readonly number[];
  /** Output tokens per second over the last minute. */
  readonly tokensPerSecond: readonly (number | null)[];
  /** Mean milliseconds per output token of the streams that ended in the last minute. */
  readonly tpotMs: readonly (number | null)[];
  /** Mean milliseconds to the first token in the last minute. */
  readonly ttftMs: readonly (number | null)[];
  /** Milliseconds until the next scrape; null = none is planned. */
  readonly nextScrapeMs: readonly (number | null)[];
}

/** The answer of `/debug/feed/endpoint`. */
export interface EndpointDetail {
  readonly at: number;
  readonly endpoint: EndpointStatics;
  /** Arrays of one value. */
  readonly columns: EndpointColumns;
  /** Its changes of state, the oldest first, at most 32. The first one may be the state in which it came. */
  readonly timeline: readonly StateChange[];
  /** Older changes that are no longer kept. */
  readonly earlier: number;
  readonly spark: Spark;
  /** Over the last 15 minutes. */
  readonly ttftMs: Quantiles;
  readonly leftOut: LeftOut;
}

export interface StateChange {
  readonly at: number;
  readonly state: "up" | "blind" | "down";
  readonly cause: string;
}

/** The last 15 minutes in steps of 15 s, the oldest first; null = the endpoint was not there. */
export interface Spark {
  /** Unix seconds of the first value. */
  readonly from: number;
  readonly step: 15;
  readonly inFlight: readonly (number | null)[];
  readonly kvUsage: readonly (number | null)[];
  /** Requests per second that ended at it. */
  readonly requestsPerSecond: readonly (number | null)[];
  /** Output tokens per second. */
  readonly tokensPerSecond: readonly (number | null)[];
}

/**
 * Why endpoints were left out of decisions in the last minute. A filter names at most eight endpoints in a record, so counts
 * per endpoint are lower bounds where `named` is false.
 */
export interface LeftOut {
  /** Seconds that the kept records cover, at most 60. */
  readonly seconds: number;
  readonly decisions: number;
  readonly reasons: readonly {
    /** `down`, `served-models` (does not serve the model), or the instance name of a screener or filter. */
    readonly reason: string;
    /** Endpoints left out, summed over the decisions. */
    readonly times: number;
    /** Decisions in which it left out one or more. */
    readonly decisions: number;
    /** Whether each endpoint that it left out was named. */
    readonly named: boolean;
    /** The endpoints that it left out most often, at most 16. */
    readonly endpoints: readonly { readonly id: string; readonly times: number }[];
  }[];
}

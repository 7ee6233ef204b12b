/** Longer spans, from Prometheus. The process sends fixed queries only; a reader chooses one by its name. */
export type HistoryFigure =
  | "requests"
  | "errors"
  | "ttft"
  | "duration"
  | "tokens"
  | "prefix"
  | "saturation"
  | "inFlight"
  | "waiting"
  | "endpoints"
  | "messages"
  | "backlog"
  | "budget";

export type HistorySpan = "1h" | "6h" | "24h" | "7d";

/** The answer of `/debug/feed/history`. A Prometheus that does not answer gets 502 with `FeedError`. */
export interface HistoryFeed {
  readonly figure: HistoryFigure;
  /** Unix seconds of the first value, and seconds between two values; at most 400 values. */
  readonly from: number;
  readonly step: number;
  /** `1/s`, `ms`, `share` (0..1), `count`. */
  readonly unit: "1/s" | "ms" | "share" | "count";
  /** At most 32. */
  readonly series: readonly { readonly name: string; readonly values: readonly (number | null)[] }[];
}

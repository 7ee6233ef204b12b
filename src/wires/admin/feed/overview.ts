/** The figures of the last 15 minutes, one value a second. */

/**
 * How a request ended. The sum of `answered` and `server-error` is `complete` of `sluice_exchanges_total`.
 * `answered`: the answer of a model server passed on to its end with a status of 2xx; `server-error`: with another status;
 * `refused`: Sluice answered in place of a model server; `cancelled`: the client went away (`client-gone`); `interrupted`: the
 * model server's connection broke within the answer; `unfollowed`: the proxy shows Sluice no answers (`no-response-phase`);
 * `failed`: an error of Sluice itself.
 */
export type Outcome = import("../../../picker/core/watch/traffic-outcome.ts").TrafficOutcome;

/**
 * One `T` for each figure of the process. A process has only figures that it can know: those of a dispatcher differ from those
 * of a gateway. `null` = no observation in that second.
 *
 * Of gateway and epp, each for one second:
 * `requests.<Outcome>` requests that ended; `started` requests that arrived; `ttft.p50`, `ttft.p90`, `ttft.p99` ms of requests
 * whose answers ended in the second; `duration.p50`, `duration.p90`, `duration.p99` ms; `queued.p50`, `queued.p90`,
 * `queued.p99` ms waited in flow control, of requests that left it; `tokens.prompt`, `tokens.output`, `tokens.cached` as usage
 * reports them; `prefix.predicted` share of the prompt tokens that the prefix index said were cached at the chosen endpoint,
 * 0..1; `prefix.reported` cached tokens / prompt tokens of answers whose usage has the cached tokens, 0..1; `saturation` 1 =
 * full; `inFlight` requests; `waiting` requests in flow control; `retries` attempts made again; `decisions`;
 * `endpoints.up`, `endpoints.blind`, `endpoints.down`; `cpu` share of one core; `lag` ms, the longest delay of the event loop.
 *
 * Of a dispatcher:
 * `messages.success`, `messages.failed`, `messages.expired`, `messages.shed`, `messages.retried`; `latency.p50`, `latency.p90`,
 * `latency.p99` ms of one request to the gateway; `inFlight` messages that were sent; `backlog` messages over all queues;
 * `oldest` s, the age of the oldest message; `eta` s; `budget.D`, `budget.B` 0..1, `budget.N`, of the first capacity;
 * `gate` 1 = all capacities open, 0 = one is closed; `cpu`, `lag`.
 */
export type Figures<T> = Readonly<Partial<Record<FigureName, T>>>;

export type FigureName =
  | `requests.${Outcome}`
  | "started"
  | "decisions"
  | `${"ttft" | "duration" | "queued" | "latency"}.${"p50" | "p90" | "p99"}`
  | `tokens.${"prompt" | "output" | "cached"}`
  | `prefix.${"predicted" | "reported"}`
  | "saturation"
  | "inFlight"
  | "waiting"
  | "retries"
  | `endpoints.${"up" | "blind" | "down"}`
  | `messages.${"success" | "failed" | "expired" | "shed" | "retried"}`
  | "backlog"
  | "oldest"
  | "eta"
  | `budget.${"D" | "B" | "N"}`
  | "gate"
  | "cpu"
  | "lag"
  | "broker";

/** The answer of `/debug/feed/overview`. */
export interface Overview {
  /** Unix seconds of the first value of each figure. */
  readonly from: number;
  /** Seconds between two values. */
  readonly step: 1;
  /** Values of each figure; the last one is of the last full second. */
  readonly count: number;
  readonly figures: Figures<readonly (number | null)[]>;
  /** The last minute and all seconds of the answer, as one figure each. */
  readonly windows: { readonly minute: WindowFigures; readonly all: WindowFigures };
  readonly totals: Totals;
  /** The events of these seconds, the oldest first. */
  readonly events: readonly EventEntry[];
  /** Id for `lastEventId`, so that a stream continues without a gap. */
  readonly lastEventId: string;
}

/**
 * Of a dispatcher only `durationMs` has values: the time of one attempt at the gateway. Quantiles over a window come from its
 * buckets, which are 18 % wide: a figure is at most 9 % off. Null = no observation.
 */
export interface WindowFigures {
  readonly seconds: number;
  readonly requestsPerSecond: Readonly<Partial<Record<Outcome, number>>>;
  readonly ttftMs: Quantiles;
  readonly durationMs: Quantiles;
  readonly queuedMs: Quantiles;
  readonly promptTokensPerSecond: number;
  readonly outputTokensPerSecond: number;
  /** 0..1 */
  readonly predictedHitRate: number | null;
  readonly reportedHitRate: number | null;
  /** Causes of `refused`, `server-error`, `interrupted`, `cancelled` and `failed`, most frequent first, at most 16. */
  readonly errors: readonly ErrorCause[];
}

export interface Quantiles {
  readonly p50: number | null;
  readonly p90: number | null;
  readonly p99: number | null;
}

export interface ErrorCause {
  readonly outcome: Outcome;
  /** The reason of a refusal (as `reason` in the log of requests), or `status 500`, or the end cause. */
  readonly cause: string;
  readonly count: number;
}

/** Since the start of the process, equal to `/metrics`. */
export interface Totals {
  /** `sluice_exchanges_total`, for gateway and epp. */
  readonly requests: Readonly<Partial<Record<Outcome, number>>>;
  /** The sums of `llm_d_epp_request_input_tokens`, `..._output_tokens` and `..._cached_tokens`. */
  readonly tokens: { readonly prompt: number; readonly output: number; readonly cached: number };
  /** `llm_d_epp_request_total`: requests for which an endpoint was chosen. */
  readonly routed: number;
  /** Of a dispatcher: the sums of the counters of messages, such as `llm_d_async_async_successful_requests_total`. */
  readonly messages?: Readonly<Record<"success" | "failed" | "expired" | "shed" | "retried", number>>;
}

export type EventKind = import("../../../picker/core/watch/process-events.ts").ProcessEventKind;

/** One thing that happened. */
export interface EventEntry {
  /** From 1 up, without gaps, per process. */
  readonly number: number;
  readonly at: number;
  readonly kind: EventKind;
  /** What it happened to: an endpoint id, a file, a queue; "" = the process. */
  readonly subject: string;
  /** One sentence for people. */
  readonly text: string;
  /** Equal events that were joined into this one, when more came than the ring should hold; 1 = none. */
  readonly times: number;
}

/** The answer of `/debug/feed/events`. */
export interface EventsFeed {
  readonly events: readonly EventEntry[];
  /** Events that the ring no longer holds, of those after `after`. */
  readonly lost: number;
}

/**
 * What a serving process (`gateway`, `epp`, `dispatch`, `batch-server`) tells its page: the types of all answers. Types only, no Node API: the
 * page and the process compile against the same files. Units stand in the names or in the comments; an unknown number is null,
 * because JSON has no NaN. `at` and `...At` are Unix times in milliseconds, unless a comment says otherwise.
 *
 * Routes, GET apart from one, on the admin port behind the same access rules as `/debug`, JSON in UTF-8, `cache-control: no-store`:
 *
 * | Route | Query | Answer | Served by |
 * |---|---|---|---|
 * | `/debug/feed` | none | `FeedHello` | all |
 * | `/debug/feed/overview` | `seconds` 1..900 (default 900) | `Overview` in overview.ts | all |
 * | `/debug/feed/endpoints` | `state` (up, blind, down; several by comma), `label` (`name=value`, may repeat), `model`, `q` (part of an id or address), `limit` 1..1000 (default 1000) | `EndpointsFeed` in endpoints.ts | gateway, epp |
 * | `/debug/feed/endpoint` | `id` (must) | `EndpointDetail` in endpoints.ts; 404 `FeedError` | gateway, epp |
 * | `/debug/feed/decisions` | `q` (start of a request id, or a sequence number), `model`, `endpoint` (id), `key` (name), `reason` (a refusal reason, or `routed`, `refused`, `failed`, `waited`, `retried`), `before` (sequence), `limit` 1..200 (default 50) | `DecisionsFeed` in decisions.ts | gateway, epp |
 * | `/debug/feed/decision` | `id` (sequence, request id, or its first 8 or more characters) | `DecisionDetail` in decisions.ts; 404 `FeedError` | gateway, epp |
 * | `/debug/feed/queues` | none | `QueuesFeed` in queues.ts (`kind: "flow-control"` or `"off"` or `"dispatch"`) | all |
 * | `/debug/feed/config` | none | `ConfigFeed` in config.ts | all |
 * | `POST /debug/feed/check` | none; the body is a `ConfigDraft` as JSON, of at most 64 KiB | `ConfigCheck` in config.ts; 429 `FeedError` for more than four in a second | gateway, epp |
 * | `/debug/feed/events` | `after` (event number), `limit` 1..512 (default 512) | `EventsFeed` in overview.ts | all |
 * | `/debug/feed/history` | `figure` (a `HistoryFigure`), `span` (`1h`, `6h`, `24h`, `7d`), `end` (Unix seconds, default now) | `HistoryFeed` in history.ts; 404 `FeedError` where no Prometheus is given | all |
 * | `/debug/feed/stream` | `topics` (of `FeedTopic`, by comma; default `overview,events`), the filters of `/debug/feed/decisions` for the topic `decisions` | server-sent events, below | all |
 *
 * The demo adds the routes of demo.ts. An unknown query parameter, a bad value or a parameter given twice (apart from `label`)
 * gets 400 with `FeedError`. A topic that the process does not have gets 400, too.
 *
 * The stream. Every event has `event:` (a key of `FeedEvents`) and one line of JSON in `data:`; `FeedEvents` gives its type.
 * Events that stand on a ring have an `id:`, which the browser sends back as `Last-Event-ID`; where a header cannot be set, the
 * query parameter `lastEventId` does the same. The process then continues behind it, as far as its rings reach: `gap` says what
 * is lost. Order after a connect: `hello`, then per topic a first full event, then updates. A `tick` comes once a second.
 * A comment line (`: alive`) comes every 10 s when nothing else does. At most 32 readers; one more gets 503 with `FeedError`.
 * A reader that leaves 64 events or 1 MiB unread gets `bye` with the reason `slow` where it still fits, and is dropped: its
 * connection ends 5 s later. An event that others have joined comes again with its number. `retry:` is 1,000 ms.
 */
import type { DecisionRow } from "./decisions.ts";
import type { EndpointColumns, EndpointStatics } from "./endpoints.ts";
import type { EventEntry, Figures, Totals } from "./overview.ts";
import type { QueuesFeed } from "./queues.ts";

/** An answer with a status of 400, 404 or 503. */
export interface FeedError {
  /** A sentence for people. */
  readonly error: string;
}

export type FeedKind = "gateway" | "epp" | "dispatch" | "batch-server";

export type FeedTopic = "overview" | "events" | "endpoints" | "decisions" | "queues";

/** The answer of `/debug/feed`, and the first event of a stream. */
export interface FeedHello {
  /** Version of this contract. */
  readonly feed: 1;
  readonly kind: FeedKind;
  /** Of the pool or the process, for titles. */
  readonly name: string;
  /** Of Sluice. */
  readonly version: string;
  /** Start of the process. */
  readonly startedAt: number;
  /** The clock of the process now. */
  readonly at: number;
  /** Changes with each start of the process: figures of another instance do not continue. */
  readonly instance: string;
  /** `draining`: the process received its signal to end. */
  readonly phase: "starting" | "serving" | "draining";
  /** Why the process is not ready; null when it is. */
  readonly unready: string | null;
  readonly topics: readonly FeedTopic[];
  /** Whether `/debug/feed/history` answers. */
  readonly history: boolean;
  /** Whether the routes of demo.ts are there. */
  readonly demo: boolean;
  /** Whether `/debug/peers` answers: the process shares what it knows with other replicas. */
  readonly replicas: boolean;
  /** Whether `/debug/limits` answers: there are limits by key and model. */
  readonly limits: boolean;
  /** Whether `/debug/batches` answers. */
  readonly batches: boolean;
  /** What the rings hold at most, and their bytes. */
  readonly rings: {
    /** Seconds of the overview. */
    readonly seconds: number;
    readonly events: number;
    readonly decisions: number;
    /** Bytes of the typed arrays of all rings, apart from the decision records. */
    readonly bytes: number;
  };
  readonly readers: { readonly open: number; readonly most: number };
}

/** The name and the data of each event of `/debug/feed/stream`. */
export interface FeedEvents {
  /** First, without id. */
  readonly hello: FeedHello;
  /** What a resumed reader missed for good: the ring no longer holds it. Without id. */
  readonly gap: { readonly topic: "overview" | "events" | "decisions"; readonly lost: number };
  /** Topic overview, once a second: the last full second, one value per figure. On resume one for each second missed. */
  readonly tick: Tick;
  /** Topic events: one thing that happened. */
  readonly event: EventEntry;
  /**
   * Topic endpoints: all of what seldom changes, at the start and when an endpoint comes, goes or changes a label, its models or
   * its state. The order of `endpoints` is the order of the columns in `loads` of the same `generation`.
   */
  readonly endpoints: {
    readonly generation: number;
    readonly endpoints: readonly EndpointStatics[];
    readonly total: number;
  };
  /** Topic endpoints, once a second. */
  readonly loads: { readonly generation: number; readonly at: number; readonly columns: EndpointColumns };
  /** Topic decisions, up to four times a second. */
  readonly decisions: DecisionsBatch;
  /** Topic queues, once a second: the answer of `/debug/feed/queues`. */
  readonly queues: QueuesFeed;
  /** The last event: the process drops this reader. */
  readonly bye: { readonly reason: "slow" | "draining" | "ended"; readonly detail: string };
}

export interface Tick {
  /** Unix seconds of the begin of the second that `figures` describe. */
  readonly second: number;
  /** One value per figure; keys as in `Overview.figures`. */
  readonly figures: Figures<number | null>;
  readonly totals: Totals;
}

/** New decisions, and updates of those that ended, the oldest first. */
export interface DecisionsBatch {
  /** At most 10 new ones a batch. A row with a known sequence replaces the former one. */
  readonly rows: readonly DecisionRow[];
  /** Decisions that passed the filter since the last batch and were left out, because more passed than a batch holds. */
  readonly leftOut: number;
  /** All decisions since the last batch. */
  readonly passed: number;
}

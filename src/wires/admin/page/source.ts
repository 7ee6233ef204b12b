import type { EventRing } from "../../../base/telemetry/event-ring.ts";
import type { ConfigCheck, ConfigFeed } from "../feed/config.ts";
import type { DecisionDetail, DecisionRow, DecisionsFeed } from "../feed/decisions.ts";
import type { EndpointColumns, EndpointDetail, EndpointsFeed } from "../feed/endpoints.ts";
import type { FeedHello, FeedTopic, Tick } from "../feed/feed.ts";
import type { HistoryFeed, HistoryFigure, HistorySpan } from "../feed/history.ts";
import type { EventKind, Overview } from "../feed/overview.ts";
import type { QueuesFeed } from "../feed/queues.ts";

/** What a process has beside its feed. */
export type Beside = Partial<Pick<FeedHello, "demo" | "replicas" | "limits" | "batches">>;

/** What decisions a reader wants; an absent part takes all. */
export interface DecisionFilter {
  /** The start of a request id, or a sequence number. */
  readonly q?: string | undefined;
  readonly model?: string | undefined;
  readonly endpoint?: string | undefined;
  readonly key?: string | undefined;
  readonly reason?: string | undefined;
}

export interface EndpointFilter {
  readonly states?: readonly string[] | undefined;
  /** `name=value` each; all must hold. */
  readonly labels?: readonly (readonly [name: string, value: string])[] | undefined;
  readonly model?: string | undefined;
  /** A part of the id or the address. */
  readonly q?: string | undefined;
  readonly limit: number;
}

/** The endpoints of a process, for its page. */
export interface EndpointsSource {
  list(filter: EndpointFilter): EndpointsFeed;
  /** Undefined = unknown. */
  one(id: string): EndpointDetail | undefined;
  /** Grows when something changes that `loads` does not show. */
  generation(): number;
  loads(): EndpointColumns;
}

/** The decisions of a process, for its page. */
export interface DecisionsSource {
  list(filter: DecisionFilter, before: number | undefined, limit: number): DecisionsFeed;
  /** A sentence for people when there is none. */
  one(id: string): DecisionDetail | string;
  /** Number of the newest record, 0 before the first; and of the oldest that is kept. */
  newest(): number;
  oldest(): number;
  /** Records after a number that the filter takes: the newest `limit`, the oldest first, and how many there were. */
  after(
    filter: DecisionFilter,
    sequence: number,
    limit: number,
  ): { readonly rows: readonly DecisionRow[]; readonly passed: number };
  /** How the request of a decision stands, without making its row; undefined when the decision is no longer kept. */
  outcome(sequence: number): DecisionRow["journey"]["outcome"] | undefined;
  /** The present row of a decision; undefined when it is no longer kept. */
  row(sequence: number): DecisionRow | undefined;
}

/** What a process knows about longer spans. */
export interface HistorySource {
  /** @throws HistoryError where Prometheus gives no answer */
  read(figure: HistoryFigure, span: HistorySpan, end: number | undefined): Promise<HistoryFeed>;
}

/** Prometheus gave no answer that can be shown. */
export class HistoryError extends Error {}

/** All that the page can ask of one process. Nothing here is computed before somebody asks. */
export interface FeedSource {
  readonly topics: readonly FeedTopic[];
  /** As in `FeedHello`: word characters and `-`, at most 64. */
  readonly instance: string;
  /** All but what the server knows itself. */
  hello(): Omit<FeedHello, "feed" | "instance" | "readers" | "topics" | "history" | keyof Beside>;
  readonly events: EventRing<EventKind>;
  overview(seconds: number): Omit<Overview, "events" | "lastEventId">;
  /** The last full second, in Unix seconds; and the oldest that is kept. */
  lastSecond(): number;
  oldestSecond(): number;
  tick(second: number): Tick;
  queues(): QueuesFeed;
  config(): ConfigFeed | Promise<ConfigFeed>;
  /** Reads the text of a configuration, and changes nothing; absent where there is none to replay with. */
  readonly check?: ((text: string) => ConfigCheck) | undefined;
  readonly endpoints?: EndpointsSource | undefined;
  readonly decisions?: DecisionsSource | undefined;
  readonly history?: HistorySource | undefined;
  /** Writes an error of this source to the log. */
  failed(error: unknown): void;
}

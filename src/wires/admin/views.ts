import type { ExpositionFormat } from "../../base/telemetry/exposition.ts";

/** The read-only views that the admin pages show; `core-views.ts` joins them from the rooms that own the data. */
export interface AdminViews {
  /** The page of `/metrics`. */
  metrics(format: ExpositionFormat): string;
  ready(): boolean;
  /** Every endpoint with state, cause and load, sorted by id. */
  endpoints(): object;
  /** The newest decisions first, at most `count`. */
  decisions(count: number): readonly object[];
  /** One decision, explained; by its number, the request's `x-request-id`, or how that begins where no other begins so. */
  decision(id: string): object | undefined;
  /** The request ids that begin so, the newest first; none for a text that is too short to stand for one. */
  requestIds(start: string): readonly string[];
  /** Everything that decision depended on, as JSON; null when no full record of it is kept, undefined when it is unknown. */
  fullDecision(id: string): string | null | undefined;
  /**
   * The decisions after record number `since` of which everything was kept, as `fullDecision`, oldest first; where they
   * are more than fits an answer, the newest of them.
   */
  fullDecisions(since: number): readonly string[];
  /** What the plugins say of themselves: `{timestamp, plugins}` (scheduling 9.2). */
  pluginStates(): object;
  /** What was learned of each model's text: `{models, otherBytesPerToken}`. */
  models(): object;
  /**
   * What the page shows as one line of JSON: endpoints, the decisions after record number `since`, and a backlog if there is one.
   * @returns the line and the number of the newest record in it
   */
  picture(since: number | undefined): { readonly data: string; readonly mark: number };
}

/** How a queue in front of the endpoints stands, for the page; figures are undefined while the dispatcher says nothing. */
export interface BacklogPicture {
  readonly waiting: number;
  readonly inFlight: number | undefined;
  readonly done: number;
  /** Seconds until it is empty; null = not known. */
  readonly etaSeconds: number | null | undefined;
  /** The gate's state, and why. */
  readonly gate: string;
  readonly because: string;
}

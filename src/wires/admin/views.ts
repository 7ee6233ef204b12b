import type { ExpositionFormat } from "../../base/telemetry/exposition.ts";
import type { KeptDecisions } from "../../picker/decisions/explain-words.ts";
import type { PeersFeed } from "./feed/peers.ts";

/** The read-only views that the admin pages show; `core-views.ts` joins them from the rooms that own the data. */
export interface AdminViews {
  /** The page of `/metrics`. */
  metrics(format: ExpositionFormat): string | Promise<string>;
  ready(): boolean;
  /** Why the process is not ready; undefined when it is. */
  unready(): string | undefined;
  /** Every endpoint with state, cause and load, sorted by id. */
  endpoints(): object;
  /** The newest decisions first, at most `count`. */
  decisions(count: number): readonly object[];
  /**
   * One decision, explained. `id`: its number, the `x-request-id`, or the start of an `x-request-id` if no other has that
   * start.
   */
  decision(id: string): object | undefined;
  keptDecisions(): KeptDecisions;
  /** The request ids that begin with `start`, newest first; none when `start` is too short to name one. */
  requestIds(start: string): readonly string[];
  /** All inputs of that decision, as JSON; null when its full record is not kept, undefined when the decision is unknown. */
  fullDecision(id: string): string | null | undefined;
  /**
   * The full records after record number `since`, each as `fullDecision`, oldest first. When they are more than fits an answer:
   * the newest of them.
   */
  fullDecisions(since: number): readonly string[];
  /** The states that the plugins report: `{timestamp, plugins}` (scheduling 9.2). */
  pluginStates(): object;
  /** The learned bytes per token of each model: `{models, otherBytesPerToken}`. */
  models(): object;
  /** The queues of flow control: bands, flows, saturation; undefined while flow control is off. */
  queues(): object | undefined;
  /** The limits by key and model, and what is used of them; undefined where there are none. */
  limits(): object | undefined;
  /** Whether `limits` has an answer. */
  readonly hasLimits: boolean;
  /** The other replicas and the store through which they share; undefined where none share what they know. */
  peers(): PeersFeed | undefined;
  /** Whether `peers` has an answer. */
  readonly sharesWithPeers: boolean;
}

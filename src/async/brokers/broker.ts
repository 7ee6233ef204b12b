import type { Message, ResultMessage } from "./messages/message.ts";
import type { QueueSettings } from "./settings.ts";

/**
 * A message held under a lease that the broker knows: it goes back into its queue when the lease is not renewed.
 * It contains all that a broker needs to settle it.
 */
export interface Claim {
  /** Unique per delivery, never reused: settling an id whose lease was lost does nothing (fenced). */
  readonly id: string;
  readonly queue: QueueSettings;
  /** `routing.queueId` and `routing.requestQueueName` come from the configuration; the message's own values do not count. */
  readonly message: Message;
  /** True: a mark to cancel this submission existed at the time of the claim. */
  readonly cancelled: boolean;
  /** Unix milliseconds of the broker's clock when it was published; NaN where the broker does not know. */
  readonly publishedAt: number;
  /** The entry as the store had it, for brokers that need it to put a claim back; only brokers use it. */
  readonly entry?: string;
  /** True: the lease was found lost. Another process has the message, and the outcome of this claim is discarded. */
  lost: boolean;
  /** True: the store lost this claim with other data. Its outcome is written, and marked as recovered. */
  recovered?: boolean;
  /** Data of the claim's holder; brokers leave it alone. */
  holder?: unknown;
}

/** The outcome of a claimed message. */
export type Settlement =
  | { readonly kind: "result"; readonly claim: Claim; readonly result: ResultMessage }
  /** Parked until `due` (Unix seconds, fractional), then queued again with its deadline as the score. */
  | {
      readonly kind: "retry";
      readonly claim: Claim;
      readonly due: number;
      /**
       * The broker's time when `due` was computed, Unix milliseconds; default now. The broker's clock may be set meanwhile;
       * then the pause between the two times counts (H-45).
       */
      readonly since?: number;
      readonly retryCount: number;
      /** As the gates left them. */
      readonly labels: Readonly<Record<string, string>>;
    }
  /** Back into the queue at the same place. */
  | { readonly kind: "refuse"; readonly claim: Claim; readonly labels: Readonly<Record<string, string>> }
  /** Into the dead letters, with the result for its owner. */
  | { readonly kind: "dead"; readonly claim: Claim; readonly reason: string; readonly result: ResultMessage };

/**
 * `settled`: done. `recovered`: done in a store that had lost the claim with other data. `fenced`: another process holds or has
 * settled the message; nothing was written. `answered`: the message had a terminal result; nothing was written.
 * `dead-lettered`: the claim is gone, but its result could not be written to its place (a key of another type) and is in the
 * dead letters. `{ failed }`: still claimed, to be tried again.
 */
export type SettleOutcome =
  | "settled"
  | "recovered"
  | "fenced"
  | "answered"
  | "dead-lettered"
  | { readonly failed: string };

export interface ClaimRequest {
  /** Wanted messages whose deadline has not passed, >= 0. */
  readonly max: number;
  /** Messages taken in addition whose deadline has passed, >= 0: they cost no capacity. */
  readonly expired: number;
}

export interface ClaimResult {
  /** In dispatch order: smallest score first. Claims past their deadline are among them. */
  readonly claims: readonly Claim[];
  /** Entries left in the queue afterwards; NaN where the broker cannot say. */
  readonly waiting: number;
  /** The broker's clock, Unix milliseconds. */
  readonly time: number;
}

/** The events that a broker reports. */
export interface BrokerEvents {
  /** The queue may hold messages that it did not hold before. */
  available(queue: QueueSettings): void;
  /** An entry could not be read and became a dead letter (with an INVALID_REQUEST result if it had an id). */
  deadLettered(queue: QueueSettings, reason: string): void;
  /** A lease ran out, of any process, and its message is queued again. */
  reclaimed(queue: QueueSettings, count: number): void;
  /** A write had to be repeated. */
  writeRetried(): void;
  /** The store lost leases that this process holds, with other data; the process keeps their messages. */
  forgotten(queue: QueueSettings, count: number): void;
  /** The store may have lost leases: all held leases must be renewed now. Resolves after the attempt; never rejects. */
  doubted(): Promise<void>;
}

/** The contents of a queue in numbers, for users and metrics; NaN where the broker does not know. */
export interface QueueBacklog {
  /** Queued, not claimed. */
  readonly waiting: number;
  /** Claimed by any process. */
  readonly claimed: number;
  /** Parked for a retry; for all queues together where they share one set. */
  readonly retries: number;
  readonly dead: number;
  /** Deadline of the first entry, Unix seconds. */
  readonly nextDeadline: number;
  /** When the first entry was created, Unix seconds; absent where the broker does not know. */
  readonly nextCreated?: number;
}

/**
 * The store where requests wait and results go. Every method may be called while others run. A method that fails because the
 * broker is away rejects with SluiceError BROKER_UNAVAILABLE. Nothing was lost then, and the caller tries again.
 * Cases that every broker passes: `test/support/brokers/broker.cases.ts`.
 */
export interface Broker {
  /** Connects in the background: a broker that is away causes a delay and no failure. */
  start(events: BrokerEvents): void;
  claim(queue: QueueSettings, request: ClaimRequest): Promise<ClaimResult>;
  /** Settles several claims at once; one outcome each, in order. Repeating a settlement whose answer was lost is safe. */
  settle(settlements: readonly Settlement[]): Promise<readonly SettleOutcome[]>;
  /**
   * Extends leases, or makes them again where the store has lost data; returns claims that other processes have, with `lost`
   * set.
   */
  renew(claims: readonly Claim[]): Promise<readonly Claim[]>;
  /** For each claim: whether there is a mark to cancel it. */
  cancelled(claims: readonly Claim[]): Promise<readonly boolean[]>;
  /** Queues retries that are due. @returns milliseconds until the next retry is due, at most the idle poll interval */
  moveDue(): Promise<number>;
  /**
   * Queues messages whose lease ran out, of any holder.
   * @param held the claims of this process: other claims under its name are leftovers of lost answers
   */
  reclaim(held: ReadonlySet<string>): Promise<void>;
  /** For the readiness probe: rejects with the reason while requests cannot be claimed, or results cannot be written. */
  check(): Promise<void>;
  backlog(queue: QueueSettings): Promise<QueueBacklog>;
  /** Called after everything was settled. */
  close(): Promise<void>;
}

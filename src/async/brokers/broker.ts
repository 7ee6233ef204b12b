import type { Message, ResultMessage } from "./messages/message.ts";
import type { QueueSettings } from "./settings.ts";

/**
 * A message held under a lease that the broker knows: it comes back by itself when the lease is not renewed.
 * Everything a broker needs to settle it is in here.
 */
export interface Claim {
  /** Unique per delivery, never reused: settling an id whose lease was lost does nothing (fenced). */
  readonly id: string;
  readonly queue: QueueSettings;
  /** `routing.queueId` and `routing.requestQueueName` are the configuration's, whatever the message said. */
  readonly message: Message;
  /** A mark to cancel this submission was there when it was claimed. */
  readonly cancelled: boolean;
  /** Unix milliseconds of the broker's clock when it was published; NaN where the broker does not know. */
  readonly publishedAt: number;
  /** The entry as the store had it, where the broker needs it to put a claim back; for brokers alone. */
  readonly entry?: string;
  /** Set when the lease was found lost: somebody else has the message, and whatever comes of this is discarded. */
  lost: boolean;
  /** Set when the store was found to have lost this claim with other data: what comes of it is written, and says so. */
  recovered?: boolean;
  /** What whoever holds it keeps with it; brokers leave it alone. */
  holder?: unknown;
}

/** What became of a claimed message. */
export type Settlement =
  | { readonly kind: "result"; readonly claim: Claim; readonly result: ResultMessage }
  /** Parked until `due` (Unix seconds, fractional), then queued again with its deadline as the score. */
  | {
      readonly kind: "retry";
      readonly claim: Claim;
      readonly due: number;
      /**
       * The broker's time when `due` was reckoned, Unix milliseconds; default now. Where the broker's clock is one that may
       * be set meanwhile, the pause between the two is what counts (H-45).
       */
      readonly since?: number;
      readonly retryCount: number;
      /** As the gates left them. */
      readonly labels: Readonly<Record<string, string>>;
    }
  /** Back into the queue exactly where it was. */
  | { readonly kind: "refuse"; readonly claim: Claim; readonly labels: Readonly<Record<string, string>> }
  /** Into the dead letters, with the result that tells its owner. */
  | { readonly kind: "dead"; readonly claim: Claim; readonly reason: string; readonly result: ResultMessage };

/**
 * `settled`: done. `recovered`: done in a store that had lost the claim with other data. `fenced`: somebody else holds or has
 * settled the message, nothing was written. `answered`: the message had a terminal result, nothing was written. `dead-lettered`: the claim is gone, but its
 * result could not be written where it belongs (a key of another type) and stands in the dead letters. `{ failed }`: still
 * claimed, to be tried again.
 */
export type SettleOutcome =
  | "settled"
  | "recovered"
  | "fenced"
  | "answered"
  | "dead-lettered"
  | { readonly failed: string };

export interface ClaimRequest {
  /** Messages wanted whose deadline has not passed, >= 0. */
  readonly max: number;
  /** Messages taken besides whose deadline has passed, >= 0: they cost no capacity. */
  readonly expired: number;
}

export interface ClaimResult {
  /** In dispatch order: smallest score first. Those past their deadline are among them. */
  readonly claims: readonly Claim[];
  /** Entries left in the queue afterwards; NaN where the broker cannot say. */
  readonly waiting: number;
  /** The broker's clock, Unix milliseconds. */
  readonly time: number;
}

/** What a broker reports by itself. */
export interface BrokerEvents {
  /** There may be something to claim that was not there before. */
  available(queue: QueueSettings): void;
  /** An entry could not be read, and stands in the dead letters now (with an INVALID_REQUEST result if it had an id). */
  deadLettered(queue: QueueSettings, reason: string): void;
  /** A lease of somebody ran out and its message is queued again. */
  reclaimed(queue: QueueSettings, count: number): void;
  /** A write had to be repeated. */
  writeRetried(): void;
  /** The store had lost leases that this process holds, with other data; their messages stay in hand. */
  forgotten(queue: QueueSettings, count: number): void;
  /** The store may have lost leases: all that are held are to be renewed now. Resolves when that was tried; never rejects. */
  doubted(): Promise<void>;
}

/** What is in a queue, for people and metrics; NaN where the broker does not know. */
export interface QueueBacklog {
  /** Queued, not claimed. */
  readonly waiting: number;
  /** Claimed by anybody. */
  readonly claimed: number;
  /** Parked for a retry; for all queues together where they share the place. */
  readonly retries: number;
  readonly dead: number;
  /** Deadline of the first entry, Unix seconds. */
  readonly nextDeadline: number;
  /** When the first entry was created, Unix seconds; absent where the broker cannot say. */
  readonly nextCreated?: number;
}

/**
 * Where requests wait and results go. Every method may be called while others run. All that can fail because the broker is
 * away rejects with SluiceError BROKER_UNAVAILABLE, and nothing was lost by it: the caller tries again.
 * Cases that every broker passes: `test/support/brokers/broker.cases.ts`.
 */
export interface Broker {
  /** Connects in the background: a broker that is away delays, and fails nothing. */
  start(events: BrokerEvents): void;
  claim(queue: QueueSettings, request: ClaimRequest): Promise<ClaimResult>;
  /** Settles several at once; one outcome each, in order. Repeating a settlement whose answer was lost is safe. */
  settle(settlements: readonly Settlement[]): Promise<readonly SettleOutcome[]>;
  /** Extends leases, or makes them again where the store has lost data; returns those that others have now, with `lost` set. */
  renew(claims: readonly Claim[]): Promise<readonly Claim[]>;
  /** Per claim: is there a mark to cancel it? */
  cancelled(claims: readonly Claim[]): Promise<readonly boolean[]>;
  /** Queues retries that are due. @returns milliseconds until the next one is, at most those of the idle poll */
  moveDue(): Promise<number>;
  /** Queues messages whose lease ran out, whoever held it. @param held the claims of this process: others under its name are leftovers of lost answers */
  reclaim(held: ReadonlySet<string>): Promise<void>;
  /** For the readiness probe: rejects with the reason while requests cannot be claimed, or results cannot be written. */
  check(): Promise<void>;
  backlog(queue: QueueSettings): Promise<QueueBacklog>;
  /** After everything was settled. */
  close(): Promise<void>;
}

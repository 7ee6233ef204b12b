import type { Clock } from "../../../base/clock/clock.ts";
import type { Logger } from "../../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../../base/telemetry/rate-limited-log.ts";
import type { Claim, ClaimRequest } from "../broker.ts";
import { ClaimBuffer } from "../claim-buffer.ts";
import { readEntry, unreadableResult } from "../intake.ts";
import type { ResultMessage } from "../messages/message.ts";
import { UnreadableMessage } from "../messages/request.ts";
import type { QueueSettings } from "../settings.ts";

/** Most messages that wait in memory for a worker, per channel; further ones are dropped. */
const WAITING = { claims: 10_000, bytes: 64 * 1024 * 1024 };

/** Milliseconds between two log lines about dropped messages of one channel. */
const LOG_INTERVAL = 10_000;

export interface ChannelHooks {
  /** There are messages to claim that were not there at the last claim. */
  available(): void;
  /** @param result for the owner, where the owner is known */
  unreadable(result: ResultMessage | undefined, reason: string): void;
}

/** The received messages of one channel that wait for a worker. */
export class Channel {
  readonly #queue: QueueSettings;
  readonly #hooks: ChannelHooks;
  readonly #log: RateLimitedLog;
  readonly #fresh = new ClaimBuffer(WAITING);
  readonly #again = new ClaimBuffer(WAITING);
  #announced = false;
  #deliveries = 0;
  #dropped = 0;

  constructor(queue: QueueSettings, deps: { readonly clock: Clock; readonly log: Logger }, hooks: ChannelHooks) {
    this.#queue = queue;
    this.#hooks = hooks;
    this.#log = new RateLimitedLog(deps.log, deps.clock, { intervalMs: LOG_INTERVAL, maxKeys: 1 });
  }

  /** Messages that wait. */
  get waiting(): number {
    return this.#fresh.claims.length + this.#again.claims.length;
  }

  /** The waiting messages that are no longer in Redis. */
  get retries(): number {
    return this.#again.claims.length;
  }

  receive(text: string): void {
    if (this.#fresh.room > 0) {
      this.#store(this.#fresh, text);
      return;
    }
    this.#dropped++;
    const fields = { channel: this.#queue.name, dropped: this.#dropped };
    this.#log.log(
      "error",
      "dropped",
      fields,
      "messages arrive faster than the workers send them; some messages were dropped",
    );
  }

  /** A message from the retry set is never dropped: the caller checks the room before it takes one out. */
  receiveRetry(text: string): void {
    this.#store(this.#again, text);
  }

  /** Retries first: they have waited longer. @param now Unix milliseconds */
  take({ max, expired }: ClaimRequest, now: number): readonly Claim[] {
    this.#announced = false;
    const claims = this.#again.take({ max, expired }, now);
    const late = claims.filter(({ message }) => message.request.deadline * 1000 < now).length;
    claims.push(...this.#fresh.take({ max: max - (claims.length - late), expired: expired - late }, now));
    return claims;
  }

  /** All waiting messages; they stay. */
  all(): readonly Claim[] {
    return [...this.#again.claims, ...this.#fresh.claims];
  }

  #store(buffer: ClaimBuffer, text: string): void {
    try {
      const message = readEntry(text, this.#queue);
      const id = `${this.#queue.name}#${++this.#deliveries}`;
      const publishedAt = Number.NaN;
      buffer.add({ id, queue: this.#queue, message, cancelled: false, publishedAt, lost: false });
    } catch (error) {
      if (!(error instanceof UnreadableMessage)) throw error;
      this.#hooks.unreadable(unreadableResult(error), error.message);
      return;
    }
    if (this.#announced) return;
    this.#announced = true;
    this.#hooks.available();
  }
}

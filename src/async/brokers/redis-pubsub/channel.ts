import type { Clock } from "../../../base/clock/clock.ts";
import type { Logger } from "../../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../../base/telemetry/rate-limited-log.ts";
import type { Claim, ClaimRequest } from "../broker.ts";
import { ClaimBuffer } from "../claim-buffer.ts";
import { readEntry, unreadableResult } from "../intake.ts";
import type { ResultMessage } from "../messages/message.ts";
import { UnreadableMessage } from "../messages/request.ts";
import type { QueueSettings } from "../settings.ts";

/** What may wait in memory for a worker, per channel; what comes on top is dropped. */
const WAITING = { claims: 10_000, bytes: 64 * 1024 * 1024 };

/** Milliseconds between two lines about messages of one channel that were dropped. */
const LOG_INTERVAL = 10_000;

export interface ChannelHooks {
  /** There is something to claim that was not there at the last claim. */
  available(): void;
  /** @param result for its owner, where that is known */
  unreadable(result: ResultMessage | undefined, reason: string): void;
}

/** What was received from one channel and waits for a worker. */
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

  /** Of them, those that are no longer in Redis. */
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
    this.#log.log("error", "dropped", fields, "messages come faster than they are worked on, and some were dropped");
  }

  /** What was in Redis is never dropped: whoever takes it out looks for room first. */
  receiveRetry(text: string): void {
    this.#store(this.#again, text);
  }

  /** Retries first: they have waited. @param now Unix milliseconds */
  take({ max, expired }: ClaimRequest, now: number): readonly Claim[] {
    this.#announced = false;
    const claims = this.#again.take({ max, expired }, now);
    const late = claims.filter(({ message }) => message.request.deadline * 1000 < now).length;
    claims.push(...this.#fresh.take({ max: max - (claims.length - late), expired: expired - late }, now));
    return claims;
  }

  /** Everything that waits; it stays. */
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

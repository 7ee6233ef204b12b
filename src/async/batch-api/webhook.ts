import type { Clock, Timer } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { GatewayAnswer, InferenceClient } from "../dispatch/send/inference-client.ts";
import type { Events } from "./batches.ts";
import { Outage } from "./outage.ts";
import type { WebhookEvent } from "./webhook-events.ts";
import { webhookSignature } from "./webhook-secret.ts";

/** Milliseconds between two looks for events. */
const LOOK = 1000;
/** Attempts at the same time. */
const AT_ONCE = 8;
/** Milliseconds for one attempt. */
const TIMEOUT = 15_000;
/** Seconds after which an attempt has ended, with its note. */
const LONGEST_ATTEMPT = TIMEOUT / 1000 + 5;
/** Seconds before the second attempt; doubled for each further one up to the longest. */
const FIRST_PAUSE = 5;
const LONGEST_PAUSE = 2 * 3600;
/** The pauses differ by this share, so that events that failed together do not come together again. */
const SPREAD = 0.2;
/** An event is given up after so many attempts, or when it is so many seconds old. */
const MOST_ATTEMPTS = 50;
const OLDEST = 72 * 3600;

/** Where events go. */
export interface WebhookSettings {
  /** Absolute, http or https. The operator gives it, so it may be an address within. */
  readonly url: string;
  /** At least one. */
  readonly secrets: readonly Uint8Array[];
}

export interface WebhookParts extends WebhookSettings {
  readonly events: Events;
  /** Follows no redirects; closed by `stop`. */
  readonly client: InferenceClient;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
}

/** The outcome of one attempt. */
type Verdict =
  | { readonly kind: "delivered" }
  /** The receiver does not want it, ever. */
  | { readonly kind: "refused"; readonly problem: string }
  | { readonly kind: "failed"; readonly problem: string; readonly retryAfter: number }
  | { readonly kind: "cut" };

/**
 * Sends each event until the receiver confirms it with a 2xx status, with growing pauses. An attempt is noted before it begins. So
 * a receiver may get an event twice after a kill, with the same `webhook-id`, but never none.
 */
export class Webhook {
  readonly #parts: WebhookParts;
  readonly #url: URL;
  readonly #stopping = new AbortController();
  readonly #sending = new Set<Promise<void>>();
  readonly #outage: Outage;
  #looking: Timer | undefined;
  #looked: Promise<void> | undefined;

  constructor(parts: WebhookParts) {
    this.#parts = parts;
    this.#url = new URL(parts.url);
    this.#outage = new Outage(
      parts,
      "the events of the webhook cannot be read now; Sluice tries again",
      "the events of the webhook can be read again",
    );
  }

  start(): void {
    this.#look();
  }

  /** Ends attempts under way; a later process makes them again. Never rejects. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#looking?.cancel();
    await this.#looked;
    await Promise.all(this.#sending);
    await this.#parts.client.close();
  }

  #look(): void {
    this.#looked = this.#lookOnce().finally(() => {
      if (!this.#stopping.signal.aborted) this.#looking = this.#parts.clock.after(LOOK, () => this.#look(), true);
    });
  }

  async #lookOnce(): Promise<void> {
    const { events, log } = this.#parts;
    try {
      const due = await events.due(this.#now, AT_ONCE);
      this.#outage.succeeded();
      for (const event of due) {
        if (this.#sending.size >= AT_ONCE || this.#stopping.signal.aborted) return;
        const sent = this.#deliver(event).catch((error: unknown) =>
          log.error({ event: event.id, error: messageOf(error) }, "the state of a webhook event cannot be stored now"),
        );
        this.#sending.add(sent);
        void sent.then(() => this.#sending.delete(sent));
      }
    } catch (error) {
      this.#outage.failed(error);
    }
  }

  async #deliver(event: WebhookEvent): Promise<void> {
    const { events, log } = this.#parts;
    const end = event.createdAt + OLDEST;
    if (this.#now >= end) return this.#giveUp(event, "the event is too old", 0);
    const attempt = event.attempts + 1;
    const pause = this.#pause(attempt);
    // No other process begins while this attempt may run.
    if (!(await events.begin(event, this.#now + Math.max(pause, LONGEST_ATTEMPT)))) return;
    const verdict = verdictOf(await this.#send(event));
    switch (verdict.kind) {
      case "delivered":
        return events.end(event, "delivered", 0);
      case "refused":
        return this.#giveUp(event, verdict.problem, 1);
      case "cut":
        return events.cutOff(event, this.#now);
      case "failed": {
        const due = this.#now + Math.max(pause, Math.min(verdict.retryAfter, LONGEST_PAUSE));
        if (attempt >= MOST_ATTEMPTS || due >= end) return this.#giveUp(event, verdict.problem, 1);
        await events.failed(event, due);
        log.warn(
          { event: event.id, batch: event.batchId, attempt, problem: verdict.problem },
          "the webhook receiver did not accept an event; Sluice sends it again",
        );
      }
    }
  }

  async #giveUp(event: WebhookEvent, problem: string, failedAttempts: number): Promise<void> {
    const { events, log } = this.#parts;
    await events.end(event, "givenUp", failedAttempts);
    log.error(
      { event: event.id, batch: event.batchId, attempts: event.attempts + failedAttempts, problem },
      "Sluice gives up a webhook event: no attempt succeeded",
    );
  }

  #send({ id, type, batchId, createdAt }: WebhookEvent): Promise<GatewayAnswer> {
    const body = JSON.stringify({
      ...{ id, object: "event", created_at: Math.floor(createdAt), type },
      data: { id: batchId },
    });
    const timestamp = Math.floor(this.#now);
    const headers = [
      ...["content-type", "application/json", "user-agent", "sluice"],
      ...["webhook-id", id, "webhook-timestamp", String(timestamp)],
      ...["webhook-signature", webhookSignature(this.#parts.secrets, id, timestamp, body)],
    ];
    return this.#parts.client.send(
      { url: this.#url, headers, body: Buffer.from(body), timeoutMs: TIMEOUT },
      this.#stopping.signal,
    );
  }

  /** Seconds until the attempt after this one. @param attempt from 1 */
  #pause(attempt: number): number {
    const usual = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempt - 1));
    return usual * (1 - SPREAD + 2 * SPREAD * this.#parts.random.next());
  }

  /** Unix seconds. */
  get #now(): number {
    return this.#parts.clock.wall() / 1000;
  }
}

function verdictOf(answer: GatewayAnswer): Verdict {
  switch (answer.kind) {
    case "aborted":
      return { kind: "cut" };
    case "timeout":
    case "no-answer":
      return { kind: "failed", problem: answer.message, retryAfter: 0 };
    case "response":
    case "truncated": {
      const { status, retryAfterMs = 0 } = answer;
      // The status counts alone; nobody reads the body.
      if (status >= 200 && status < 300) return { kind: "delivered" };
      const problem = `the receiver answered with status ${status}`;
      // By Standard Webhooks, 410 says that the receiver is gone for good.
      return status === 410
        ? { kind: "refused", problem }
        : { kind: "failed", problem, retryAfter: retryAfterMs / 1000 };
    }
  }
}

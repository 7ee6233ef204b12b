import type { Events } from "../batches.ts";
import type { WebhookEvent, WebhookFigures } from "../webhook-events.ts";
import { EVENT } from "./scripts.ts";
import type { StoreLink } from "./store-link.ts";

/** The events of a webhook in the store. Each attempt belongs to the process that begins it. */
export class RedisEvents implements Events {
  readonly #link: StoreLink;

  constructor(link: StoreLink) {
    this.#link = link;
  }

  async due(now: number, limit: number): Promise<readonly WebhookEvent[]> {
    const link = this.#link;
    const range = ["-inf", now, "BYSCORE", "LIMIT", 0, limit];
    const ids = (await link.send("ZRANGE", link.key("event-due"), ...range)) as string[];
    if (ids.length === 0) return [];
    const [texts, attempts] = (await Promise.all([
      link.send("HMGET", link.key("events"), ...ids),
      link.send("HMGET", link.key("event-attempts"), ...ids),
    ])) as [(string | null)[], (string | null)[]];
    return ids.flatMap((id, at) => {
      const text = texts[at];
      if (text === null || text === undefined) return [];
      const [type, batchId, created, seq] = JSON.parse(text) as [string, string, string, number];
      return [{ seq, id, type, batchId, createdAt: Number(created), attempts: Number(attempts[at] ?? 0) }];
    });
  }

  async begin({ id, attempts }: WebhookEvent, due: number): Promise<boolean> {
    return (await this.#link.run(EVENT, id, "begin", due, attempts)) === 1;
  }

  async failed({ id }: WebhookEvent, due: number): Promise<void> {
    await this.#link.run(EVENT, id, "failed", due);
  }

  async cutOff({ id }: WebhookEvent, due: number): Promise<void> {
    await this.#link.run(EVENT, id, "cut", due);
  }

  async end({ id }: WebhookEvent, outcome: "delivered" | "givenUp", failedAttempts: number): Promise<void> {
    await this.#link.run(EVENT, id, "end", outcome, failedAttempts);
  }

  async figures(): Promise<WebhookFigures> {
    const link = this.#link;
    const [tallies, waiting] = await Promise.all([
      link.send("HMGET", link.key("event-tallies"), "delivered", "givenUp", "failedAttempts"),
      link.send("HLEN", link.key("events")),
    ]);
    const [delivered, givenUp, failedAttempts] = (tallies as (string | null)[]).map(Number);
    return { delivered: delivered!, givenUp: givenUp!, failedAttempts: failedAttempts!, waiting: Number(waiting) };
  }
}

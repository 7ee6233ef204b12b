import type { Logger } from "../../base/telemetry/logger.ts";
import type { BatchStatus } from "./batch-status.ts";
import type { BatchDatabase } from "./database.ts";
import { newId } from "./file-table.ts";

/** The statuses of which a webhook tells, by the names of OpenAI's events. */
const EVENT_TYPES: Readonly<Partial<Record<BatchStatus, string>>> = {
  completed: "batch.completed",
  failed: "batch.failed",
  expired: "batch.expired",
  cancelled: "batch.cancelled",
};

/** The type of the event of a status; undefined = nobody is told of it. */
export function eventType(status: BatchStatus): string | undefined {
  return EVENT_TYPES[status];
}

/** The most events that wait; beyond, the oldest is given up. */
export const MOST_EVENTS = 100_000;

/** Tells operators of an event that was given up because too many waited. */
export function logCrowdedOut(log: Logger, event: string, batch: string): void {
  log.error({ event, batch }, "Sluice gives up the oldest webhook event: too many newer events wait");
}

/** An event that waits for its delivery. Times are Unix seconds. */
export interface WebhookEvent {
  readonly seq: number;
  readonly id: string;
  readonly type: string;
  readonly batchId: string;
  readonly createdAt: number;
  /** Attempts that began. */
  readonly attempts: number;
}

/** What became of all events of the folder since it exists. */
export interface WebhookTallies {
  readonly delivered: number;
  readonly givenUp: number;
  readonly failedAttempts: number;
}

/** The tallies, and the events that wait for an attempt. */
export interface WebhookFigures extends WebhookTallies {
  readonly waiting: number;
}

const NO_TALLIES: WebhookTallies = { delivered: 0, givenUp: 0, failedAttempts: 0 };

// Databases of earlier versions have no such table, and those versions read over it.
const TABLE = `
CREATE TABLE IF NOT EXISTS webhook_events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL,
  type TEXT NOT NULL,
  batch TEXT NOT NULL,
  created REAL NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  due REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS webhook_events_due ON webhook_events (due);
`;

/** The events that a webhook has not got yet. They are in the database of the batches, so an end of the process loses none. */
export class WebhookEvents {
  readonly #db: BatchDatabase;
  readonly #log: Logger;
  readonly #most: number;

  /** @param most events that wait @throws SluiceError BATCH_STORE */
  constructor(db: BatchDatabase, log: Logger, most = MOST_EVENTS) {
    this.#db = db;
    this.#log = log;
    this.#most = most;
    db.define(TABLE);
  }

  /** Adds the event of a batch that has ended; within the transaction of its last status. @param now Unix seconds */
  insert(batchId: string, status: BatchStatus, now: number): void {
    const type = eventType(status);
    if (type === undefined) return;
    const sql = "INSERT INTO webhook_events (id, type, batch, created, due) VALUES (?, ?, ?, ?, ?)";
    this.#db.run(sql, newId("evt_"), type, batchId, now, now);
    const oldest = `DELETE FROM webhook_events WHERE seq IN (
      SELECT seq FROM webhook_events ORDER BY seq DESC LIMIT -1 OFFSET ?) RETURNING id, batch`;
    const lost = this.#db.all<{ id: string; batch: string }>(oldest, this.#most);
    if (lost.length > 0) this.#count({ givenUp: lost.length });
    for (const event of lost) logCrowdedOut(this.#log, event.id, event.batch);
  }

  /** Events whose time for an attempt has come, the most urgent first. @param now Unix seconds */
  due(now: number, limit: number): readonly WebhookEvent[] {
    const sql = `SELECT seq, id, type, batch AS batchId, created AS createdAt, attempts FROM webhook_events
      WHERE due <= ? ORDER BY due LIMIT ?`;
    return this.#db.all<WebhookEvent>(sql, now, limit);
  }

  /** Notes an attempt before it begins, and when the next one is due, in case that nobody notes its end. @throws SluiceError BATCH_STORE */
  begin({ seq }: WebhookEvent, due: number): void {
    this.#db.write(() =>
      this.#db.run("UPDATE webhook_events SET attempts = attempts + 1, due = ? WHERE seq = ?", due, seq),
    );
  }

  /** Notes a failed attempt. @throws SluiceError BATCH_STORE */
  failed({ seq }: WebhookEvent, due: number): void {
    this.#db.write(() => {
      this.#db.run("UPDATE webhook_events SET due = ? WHERE seq = ?", due, seq);
      this.#count({ failedAttempts: 1 });
    });
  }

  /** Takes back an attempt that the end of the process cut off. @throws SluiceError BATCH_STORE */
  cutOff({ seq }: WebhookEvent, due: number): void {
    this.#db.write(() =>
      this.#db.run("UPDATE webhook_events SET attempts = attempts - 1, due = ? WHERE seq = ?", due, seq),
    );
  }

  /** Removes an event that the receiver has, or that it does not get any more. @throws SluiceError BATCH_STORE */
  end({ seq }: WebhookEvent, outcome: "delivered" | "givenUp", failedAttempts: number): void {
    this.#db.write(() => {
      const gone = this.#db.run("DELETE FROM webhook_events WHERE seq = ?", seq);
      this.#count({ [outcome]: gone, failedAttempts });
    });
  }

  waiting(): number {
    return this.#db.get<{ n: number }>("SELECT count(*) AS n FROM webhook_events")!.n;
  }

  figures(): WebhookFigures {
    return { ...this.tallies(), waiting: this.waiting() };
  }

  tallies(): WebhookTallies {
    return { ...NO_TALLIES, ...this.#db.kept<Partial<WebhookTallies>>("webhook") };
  }

  #count(more: Partial<WebhookTallies>): void {
    const { delivered, givenUp, failedAttempts } = this.tallies();
    this.#db.keep("webhook", {
      delivered: delivered + (more.delivered ?? 0),
      givenUp: givenUp + (more.givenUp ?? 0),
      failedAttempts: failedAttempts + (more.failedAttempts ?? 0),
    });
  }
}

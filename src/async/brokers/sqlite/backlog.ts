import type { Backlog } from "../broker.ts";
import type { QueueTables } from "./tables.ts";

/** What is in a queue; only within `read` or `write` of the file. */
export function readBacklog(tables: QueueTables, queueName: string): Backlog {
  const queue = tables.queue(queueName);
  const { waiting, claimed, parked, dead } = tables.counts(queue);
  const published = tables.firstPublished(queue);
  return {
    waiting,
    claimed,
    retries: parked,
    dead,
    nextDeadline: tables.firstScore(queue),
    ...(Number.isNaN(published) ? {} : { nextCreated: Math.floor(published / 1000) }),
  };
}

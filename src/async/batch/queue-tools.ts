import { realClock } from "../../base/clock/real.ts";
import { columns } from "../../base/process/screen.ts";
import type { QueueBacklog } from "../brokers/broker.ts";
import { parseEnvelope } from "../brokers/messages/envelope.ts";
import { UnreadableMessage } from "../brokers/messages/request.ts";
import type { DeadLetter, QueueEntry } from "../brokers/queue-client.ts";
import { durationText } from "./batch-progress.ts";
import { print, tell } from "./print.ts";
import { type ReleaseOptions, releaseQueues } from "./queue-release.ts";
import { openQueueStore, type QueueStore, type QueueStoreLocation } from "./queue-store.ts";

/** Most dead letters that one call puts back. */
const STEP = 100;
/** Most ids that one call marks. */
const MARKED = 500;

/**
 * Prints the contents of each queue in numbers, and how many results wait: as a table, or as one JSON document.
 * @param names of queues; none = all known queues
 */
export function listQueues(source: QueueStoreLocation, names: readonly string[], json: boolean): Promise<void> {
  return withQueueStore(source, async (place) => {
    const queues = await Promise.all(
      (await place.queueNames(names)).map(async (queue) => ({ queue, ...(await place.client.backlog(queue)) })),
    );
    const results = await Promise.all(
      (await place.resultQueueNames()).map(async (queue) => ({
        queue,
        results: await place.client.resultDepth(queue),
      })),
    );
    const now = realClock.wall() / 1000;
    if (json) {
      await print(
        `${JSON.stringify({ place: place.client.place, queues: queues.map((each) => viewOf(each, now)), results })}\n`,
      );
      return;
    }
    const lines = [
      ...columns([
        ["QUEUE", "WAITING", "CLAIMED", "RETRIES", "DEAD", "FIRST DEADLINE", "AGE OF FIRST"],
        ...queues.map((each) => rowOf(each, now)),
      ]),
      "",
      ...columns([["RESULT QUEUE", "RESULTS"], ...results.map(({ queue, results: count }) => [queue, String(count)])]),
    ];
    if (place.client.sharedRetries && queues.length > 1)
      lines.push("", "RETRIES counts the retries of all queues together.");
    await print(`${lines.join("\n")}\n`);
  });
}

/** Prints the first entries of a queue, or its oldest dead letters: as a table, or as JSON lines with the entries in them. */
export function peekQueue(
  source: QueueStoreLocation,
  wanted: string,
  options: { readonly count: number; readonly dead: boolean; readonly json: boolean },
): Promise<void> {
  return withQueueStore(source, async (place) => {
    const { name } = await place.requestQueue(wanted);
    const { inspector } = place.client;
    const entries = options.dead
      ? await inspector.dead(name, options.count)
      : await inspector.peek(name, options.count);
    const views = entries.map(entryView);
    if (options.json) {
      await print(views.map((view) => `${JSON.stringify(view)}\n`).join(""));
      return;
    }
    if (views.length === 0) {
      tell(`queue ${name} has no ${options.dead ? "dead letters" : "waiting entries"}`);
      return;
    }
    const now = realClock.wall() / 1000;
    const head = ["ID", "DEADLINE", "CREATED", "RETRIES", "BYTES", ...(options.dead ? ["DIED", "REASON"] : [])];
    await print(`${columns([head, ...views.map((view) => entryRow(view, now))]).join("\n")}\n`);
  });
}

/** Marks requests as cancelled. Whether a request still waited shows only when a worker is about to send it. */
export function cancelRequests(source: QueueStoreLocation, ids: readonly string[]): Promise<void> {
  return withQueueStore(source, async (place) => {
    const producer = await place.client.producer("unused", place.resultQueueName);
    try {
      for (let at = 0; at < ids.length; at += MARKED) await producer.cancelRequests(ids.slice(at, at + MARKED));
    } finally {
      await producer.close();
    }
    tell(
      `${ids.length === 1 ? "1 id is" : `${ids.length} ids are`} marked as cancelled: unsent requests end with CANCELLED; other requests do not change`,
    );
  });
}

/** Puts dead letters back into their queue, the oldest first. @param most undefined = all dead letters of this moment */
export function requeueDead(source: QueueStoreLocation, wanted: string, most: number | undefined): Promise<void> {
  return withQueueStore(source, async (place) => {
    const { name } = await place.requestQueue(wanted);
    // A message that dies again meanwhile waits for the next call.
    const { dead } = await place.client.backlog(name);
    const count = Math.min(most ?? dead, dead);
    let moved = 0;
    while (moved < count) {
      const step = await place.client.inspector.requeueDead(name, Math.min(STEP, count - moved));
      if (step === 0) break;
      moved += step;
    }
    tell(
      dead === 0 ? `queue ${name} has no dead letters` : `${moved} of ${dead} dead letters are back in queue ${name}`,
    );
  });
}

/**
 * Hands claimed messages and retries back to their queues.
 * @param wanted names of queues; none = all known queues
 */
export function releaseMessages(
  source: QueueStoreLocation,
  wanted: readonly string[],
  options: Omit<ReleaseOptions, "queues">,
): Promise<void> {
  return withQueueStore(source, async (place) => {
    const queues = await place.queueNames(wanted);
    await releaseQueues(place, { ...options, queues }, realClock, tell);
  });
}

async function withQueueStore(source: QueueStoreLocation, work: (place: QueueStore) => Promise<void>): Promise<void> {
  const place = await openQueueStore(source, false);
  try {
    await work(place);
  } finally {
    place.close();
  }
}

type NamedBacklog = QueueBacklog & { readonly queue: string };

function rowOf(backlog: NamedBacklog, now: number): string[] {
  const { queue, waiting, claimed, retries, dead, nextDeadline, nextCreated } = backlog;
  return [
    ...[queue, numberText(waiting), numberText(claimed), numberText(retries), numberText(dead)],
    Number.isNaN(nextDeadline) ? NOTHING : agoText(nextDeadline, now),
    nextCreated === undefined ? NOTHING : durationText(Math.max(0, now - nextCreated)),
  ];
}

/** JSON has no NaN: an unknown value is null. */
function viewOf(
  { queue, waiting, claimed, retries, dead, nextDeadline, nextCreated }: NamedBacklog,
  now: number,
): object {
  const known = (value: number): number | null => (Number.isNaN(value) ? null : value);
  return {
    queue,
    waiting: known(waiting),
    claimed: known(claimed),
    retries: known(retries),
    dead: known(dead),
    nextDeadline: known(nextDeadline),
    oldestAgeSeconds: nextCreated === undefined ? null : Math.max(0, Math.floor(now - nextCreated)),
  };
}

/** Replaces a value that is unknown or does not apply. */
export const NOTHING = "-";

/** An entry of a queue, or a dead letter, for display. */
export interface EntryView {
  /** Null where the entry cannot be read. */
  readonly id: string | null;
  /** Unix seconds; null where the entry cannot be read. */
  readonly deadline: number | null;
  readonly created: number | null;
  readonly retryCount: number;
  readonly bytes: number;
  /** Of a waiting entry: its position in the queue, smallest first. */
  readonly score?: number;
  /** Of a dead letter: when it became one, Unix seconds, and the reason. */
  readonly died?: number;
  readonly reason?: string;
  /** The envelope as JSON; a text where the entry is not JSON. */
  readonly entry: unknown;
}

/** Returns an entry for display. An entry that cannot be read has null in place of its fields, and its text. */
export function entryView(stored: QueueEntry | DeadLetter): EntryView {
  const about =
    "score" in stored ? { score: stored.score } : { died: Math.floor(stored.at / 1000), reason: stored.reason };
  const bytes = Buffer.byteLength(stored.entry);
  try {
    const { request, routing } = parseEnvelope(stored.entry);
    return {
      id: request.id,
      deadline: request.deadline,
      created: Number.isNaN(request.created) ? null : request.created,
      retryCount: routing.retryCount,
      ...{ bytes, ...about, entry: JSON.parse(stored.entry) as unknown },
    };
  } catch (error) {
    if (!(error instanceof UnreadableMessage)) throw error;
    const id = error.id === "" ? null : error.id;
    return { id, deadline: null, created: null, retryCount: 0, bytes, ...about, entry: stored.entry };
  }
}

/** The cells of the table row of an entry. @param now Unix seconds */
export function entryRow(view: EntryView, now: number): string[] {
  return [
    view.id ?? "(unreadable)",
    view.deadline === null ? NOTHING : agoText(view.deadline, now),
    view.created === null ? NOTHING : agoText(view.created, now),
    String(view.retryCount),
    String(view.bytes),
    ...(view.died === undefined ? [] : [agoText(view.died, now), view.reason ?? ""]),
  ];
}

/** `in 5m 3s` or `2h 4m ago`. @param at and now: Unix seconds */
export function agoText(at: number, now: number): string {
  return at > now ? `in ${durationText(at - now)}` : `${durationText(now - at)} ago`;
}

/** A number for a table; `NOTHING` for NaN. */
export function numberText(value: number): string {
  return Number.isNaN(value) ? NOTHING : String(value);
}

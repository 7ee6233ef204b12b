import { parseEnvelope } from "../brokers/messages/envelope.ts";
import { UnreadableMessage } from "../brokers/messages/request.ts";
import type { DeadLetter, QueueEntry } from "../brokers/producer.ts";
import { timeText } from "./batch-progress.ts";

/** What stands for a figure that is not known, or is about nothing. */
export const NOTHING = "-";

/** An entry of a queue, or a dead letter, as people look at it. */
export interface EntryView {
  /** Null where the entry cannot be read. */
  readonly id: string | null;
  /** Unix seconds; null as above. */
  readonly deadline: number | null;
  readonly created: number | null;
  readonly retryCount: number;
  readonly bytes: number;
  /** Of a waiting entry: its place, smallest first. */
  readonly score?: number;
  /** Of a dead letter: when it became one, Unix seconds, and why. */
  readonly died?: number;
  readonly reason?: string;
  /** The JSON of the envelope, or a text where it is none. */
  readonly entry: unknown;
}

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

/** The cells of a row about it. @param now Unix seconds */
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
  return at > now ? `in ${timeText(at - now)}` : `${timeText(now - at)} ago`;
}

export function numberText(value: number): string {
  return Number.isNaN(value) ? NOTHING : String(value);
}

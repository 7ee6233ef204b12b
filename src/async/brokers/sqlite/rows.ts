import { encodeEnvelope, parseEnvelope } from "../messages/envelope.ts";
import type { Routing } from "../messages/message.ts";
import { UnreadableMessage } from "../messages/request.ts";

/** A message as the statements of this folder select it. */
export interface MessageRow {
  readonly seq: number;
  readonly score: number;
  readonly deliveries: number;
  readonly lost: number;
  readonly cancelled: number;
  readonly published: number;
  readonly retries: number | null;
  readonly labels: string | null;
  readonly body: string;
}

/** The columns of a `MessageRow`, of `messages`. */
export const MESSAGE_COLUMNS =
  "seq, score, deliveries, lost, cancelled, published, retries, labels, (SELECT body FROM entries WHERE entries.seq = messages.seq) AS body";

/** The changes to a message's routing since its envelope was written. */
export function changesOf({ retries, labels, lost }: MessageRow): Partial<Routing> {
  return {
    ...(retries === null ? {} : { retryCount: retries }),
    ...(labels === null ? {} : { labels: JSON.parse(labels) as Record<string, string> }),
    ...(lost === 0 ? {} : { lostLeases: lost }),
  };
}

/** The envelope with its present routing. */
export function entryText(row: MessageRow): string {
  if (row.retries === null && row.labels === null && row.lost === 0) return row.body;
  try {
    const message = parseEnvelope(row.body);
    return encodeEnvelope({ ...message, routing: { ...message.routing, ...changesOf(row) } });
  } catch (error) {
    if (!(error instanceof UnreadableMessage)) throw error;
    return row.body;
  }
}

/** The one name of a delivery, unique among all files for ever. */
export function deliveryId(file: string, { seq, deliveries }: MessageRow): string {
  return `${file}:${seq}:${deliveries}`;
}

/** The parts of a delivery's name: the file, the store of which the file is a state, and the numbers. */
export function deliveryOf(id: string): {
  readonly file: string;
  readonly store: string;
  readonly seq: number;
  readonly deliveries: number;
} {
  const [file = "", seq, deliveries] = id.split(":");
  return { file, store: file.slice(0, file.indexOf("@")), seq: Number(seq), deliveries: Number(deliveries) };
}

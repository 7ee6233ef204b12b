import { messageOf } from "../../../base/inference/errors.ts";
import type { ResultMessage } from "../messages/message.ts";
import { encodeResult, errorResult } from "../messages/result.ts";
import { type PubSubClient, STATUS, statusOf } from "./client.ts";

/** Limits of one Publish request: 1,000 messages and 10 MB, with room for what surrounds them. */
const ENTRIES = 1000;
const BYTES = 9_500_000;

/**
 * Publishes results and waits until the service has confirmed them. A result larger than a message can be is replaced by
 * one that says so, with the status of the answer: nobody could ever send it.
 * @returns per result undefined when it is confirmed, else the reason why not
 */
export async function publishResults(
  client: PubSubClient,
  results: readonly ResultMessage[],
): Promise<readonly (string | undefined)[]> {
  const entries = results.map(encodeForTopic);
  const problems = new Array<string | undefined>(results.length);
  const batches: Promise<void>[] = [];
  for (let from = 0; from < entries.length; ) {
    let to = from;
    let bytes = 0;
    while (to < entries.length && to - from < ENTRIES && (to === from || bytes + entries[to]!.length <= BYTES))
      bytes += entries[to++]!.length;
    batches.push(publishBatch(client, entries, from, to, problems));
    from = to;
  }
  await Promise.all(batches);
  return problems;
}

async function publishBatch(
  client: PubSubClient,
  entries: readonly Uint8Array[],
  from: number,
  to: number,
  problems: (string | undefined)[],
): Promise<void> {
  try {
    await client.publish(entries.slice(from, to));
  } catch (error) {
    // One message that the topic refuses (a schema, say) must not keep the others.
    if (statusOf(error) === STATUS.INVALID_ARGUMENT && to - from > 1)
      for (let at = from; at < to; at++) await publishBatch(client, entries, at, at + 1, problems);
    else problems.fill(messageOf(error), from, to);
  }
}

function encodeForTopic(result: ResultMessage): Uint8Array {
  const entry = Buffer.from(encodeResult(result));
  if (entry.length <= BYTES) return entry;
  const problem = `the result has ${entry.length} bytes, and a Pub/Sub message holds no more than ${BYTES}`;
  return Buffer.from(
    encodeResult({ ...errorResult(result.id, "INFERENCE_ERROR", problem), statusCode: result.statusCode }),
  );
}

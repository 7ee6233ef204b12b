import { parseEnvelope } from "../messages/envelope.ts";
import { UnreadableMessage } from "../messages/request.ts";
import type { Redis } from "../redis/connection.ts";
import { deadKey } from "./keys.ts";
import { DUE, MOVE } from "./retry-scripts.ts";

/** Entries per step: few enough that the server is not held up, many enough that thousands are moved in a second. */
const STEP = 250;

/** What one round has moved. */
export interface Moved {
  /** Queues that have got something. */
  readonly queueNames: ReadonlySet<string>;
  readonly buried: number;
  /** Milliseconds until the next retry is due; infinite when there is none. */
  readonly next: number;
}

/**
 * Queues the retries that are due, with their deadline as the score, wherever they came from: deployments may share the
 * set. Entries that cannot be read, or whose queue is none, become its dead letters. Source: async-processor 5.2.7.
 * @throws SluiceError of the connection
 */
export async function moveDue(redis: Redis, retryQueueName: string): Promise<Moved> {
  const queueNames = new Set<string>();
  let buried = 0;
  for (;;) {
    // As bytes: an entry that is no text must be named exactly to be moved away.
    const [wait, ...entries] = (await redis.run(DUE, [retryQueueName], [String(STEP)], true)) as [number, ...Buffer[]];
    const next = wait < 0 ? Number.POSITIVE_INFINITY : wait;
    if (entries.length === 0) return { queueNames, buried, next };
    const keys = [retryQueueName, deadKey(retryQueueName)];
    const numbers = new Map<string, string>();
    const args: (string | Buffer)[] = [];
    for (const entry of entries) {
      const { queueName, deadline, problem } = destination(entry);
      let number = "0";
      if (queueName !== "") {
        number = numbers.get(queueName) ?? String(keys.push(queueName));
        numbers.set(queueName, number);
      }
      args.push(entry, number, String(deadline), problem);
    }
    const [moved, dead] = (await redis.run(MOVE, keys, args)) as [number, number];
    for (const queueName of numbers.keys()) queueNames.add(queueName);
    buried += dead;
    // None moved: another mover was faster, or the server takes nothing.
    if (entries.length < STEP || moved === 0) return { queueNames, buried, next };
  }
}

function destination(entry: Buffer): { queueName: string; deadline: number; problem: string } {
  try {
    const { routing, request } = parseEnvelope(entry.toString());
    const problem = routing.requestQueueName === "" ? "it names no queue to return to" : "";
    return { queueName: routing.requestQueueName, deadline: request.deadline, problem };
  } catch (error) {
    if (!(error instanceof UnreadableMessage)) throw error;
    return { queueName: "", deadline: 0, problem: error.message };
  }
}

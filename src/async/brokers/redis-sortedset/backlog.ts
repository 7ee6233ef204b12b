import type { Backlog } from "../broker.ts";
import type { Redis } from "../redis/connection.ts";
import { BACKLOG } from "./inspect-scripts.ts";
import { claimsKey, deadKey } from "./keys.ts";

/** What is in a queue; retries are those of all queues that share their set. @throws SluiceError of the connection */
export async function readBacklog(redis: Redis, queueName: string, retryQueueName: string): Promise<Backlog> {
  const keys = [queueName, claimsKey(queueName), retryQueueName, deadKey(queueName)];
  const answer = (await redis.run(BACKLOG, keys, [])) as readonly (number | string | null)[];
  const [waiting, claimed, retries, dead, nextDeadline, nextCreated] = answer.map((each) =>
    each === null ? Number.NaN : Number(each),
  );
  return {
    waiting: waiting!,
    claimed: claimed!,
    retries: retries!,
    dead: dead!,
    nextDeadline: nextDeadline!,
    ...(Number.isNaN(nextCreated!) ? {} : { nextCreated: nextCreated! }),
  };
}

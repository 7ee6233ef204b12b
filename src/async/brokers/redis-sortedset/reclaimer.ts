import { givenUp, unreadableResult } from "../intake.ts";
import { encodeEnvelope, parseEnvelope } from "../messages/envelope.ts";
import type { Message } from "../messages/message.ts";
import { UnreadableMessage } from "../messages/request.ts";
import type { Redis } from "../redis/connection.ts";
import type { QueueSettings, RedisSortedSetSettings } from "../settings.ts";
import { jumpOf, type StoreClock } from "../store-clock.ts";
import { claimsKey, leasesKey, ownersKey } from "./keys.ts";
import { RUN_OUT } from "./lease-scripts.ts";
import { SettleBatch } from "./settle-batch.ts";
import { SETTLE, SETTLED } from "./settle-script.ts";

/** Claims per step. */
const STEP = 250;

/** What a round has done in one queue. */
export interface Reclaimed {
  readonly requeued: number;
  /** Reasons of those that became dead letters. */
  readonly buried: readonly string[];
  /** The server's clock when it was asked first, Unix milliseconds. */
  readonly time: number;
  /** By how much that clock was set, milliseconds; 0 = it was not. */
  readonly jump: number;
}

/**
 * Takes the claims of a queue whose lease ran out from whoever held them: back to their old places, one lost lease more, or
 * given up after `maxAttempts` (async-processor 5.2.8). Two that do this at once share the work. When the server's clock was
 * set, nothing is taken.
 * @throws SluiceError of the connection
 */
export async function reclaimRunOut(
  redis: Redis,
  queue: QueueSettings,
  settings: RedisSortedSetSettings,
  clock: StoreClock,
): Promise<Reclaimed> {
  let requeued = 0;
  let begin: number | undefined;
  let jump = 0;
  const buried: string[] = [];
  for (;;) {
    const { expected } = clock;
    const answer = await redis.run(
      RUN_OUT,
      [claimsKey(queue.name), leasesKey(queue.name), ownersKey(queue.name)],
      [STEP, settings.leases.claimTtl, expected.earliest, expected.latest].map(String),
    );
    const [time, ...found] = answer as readonly [number, ...string[]];
    begin ??= time;
    jump ||= jumpOf(time, expected);
    if (found.length === 0) break;
    const batch = new SettleBatch(settings);
    const reasons: (string | undefined)[] = [];
    for (let i = 0; i < found.length; i += 2) reasons.push(judge(batch, queue, settings, found[i]!, found[i + 1]!));
    const outcomes = (await redis.run(SETTLE, batch.keys, batch.args)) as readonly (number | string)[];
    let done = 0;
    for (const [i, outcome] of outcomes.entries()) {
      if (outcome !== SETTLED) continue;
      done++;
      const reason = reasons[i];
      if (reason === undefined) requeued++;
      else buried.push(reason);
    }
    // Nothing done: others were faster, or the server takes nothing.
    if (done === 0 || found.length < 2 * STEP) break;
  }
  return { requeued, buried, time: begin, jump };
}

/** @returns why it becomes a dead letter; undefined = it is queued again */
function judge(
  batch: SettleBatch,
  queue: QueueSettings,
  settings: RedisSortedSetSettings,
  claimId: string,
  kept: string,
): string | undefined {
  let message: Message;
  try {
    message = parseEnvelope(kept.slice(kept.indexOf("\n") + 1));
  } catch (error) {
    if (!(error instanceof UnreadableMessage)) throw error;
    const result = unreadableResult(error);
    const named = error.resultQueueName;
    batch.bury(queue, claimId, error.message, { named, runOut: true, ...(result === undefined ? {} : { result }) });
    return error.message;
  }
  const { routing, request } = message;
  const lostLeases = routing.lostLeases + 1;
  const { maxAttempts } = settings.leases;
  if (maxAttempts > 0 && lostLeases >= maxAttempts) {
    const { reason, result } = givenUp(request.id, lostLeases);
    const named = routing.resultQueueName;
    batch.bury(queue, claimId, reason, { named, result, token: routing.requestToken, runOut: true });
    return reason;
  }
  batch.requeue(queue, claimId, encodeEnvelope({ ...message, routing: { ...routing, lostLeases } }));
  return undefined;
}

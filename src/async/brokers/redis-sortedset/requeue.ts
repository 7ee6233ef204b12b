import type { Redis } from "../../../base/redis/connection.ts";
import { givenUp, unreadableResult } from "../intake.ts";
import { encodeEnvelope, parseEnvelope } from "../messages/envelope.ts";
import type { Message } from "../messages/message.ts";
import { UnreadableMessage } from "../messages/request.ts";
import type { QueueSettings, RedisSortedSetSettings } from "../settings.ts";
import { jumpOf, type StoreClock } from "../store-clock.ts";
import { claimsKey, deadKey, keyNumbers, leasesKey, llmdKeys, ownersKey } from "./keys.ts";
import { ADOPT, DUE, MOVE, RUN_OUT, SETTLE, SETTLED } from "./scripts.ts";
import { MOST_BYTES, SettleBatch } from "./settle-batch.ts";

/** Claims per step. */
const CLAIMS_PER_STEP = 250;

/** The work of one round in one queue. */
interface Reclaimed {
  readonly requeued: number;
  /** Reasons of the messages that became dead letters. */
  readonly buried: readonly string[];
  /** The server's clock at the first question, Unix milliseconds. */
  readonly time: number;
  /** Milliseconds by which that clock was set; 0 = it was not. */
  readonly jump: number;
}

/**
 * Takes claims with a lease that ran out from any holder: back to their old places with one lost lease more, or given up after
 * `maxAttempts` (async-processor 5.2.8). Two processes that do this at once share the work. When the server's clock was set,
 * nothing is taken.
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
      [CLAIMS_PER_STEP, settings.leases.claimTtl, expected.earliest, expected.latest].map(String),
    );
    const [time, ...found] = answer as readonly [number, ...string[]];
    begin ??= time;
    jump ||= jumpOf(time, expected);
    if (found.length === 0) break;
    const batch = new SettleBatch(settings);
    const reasons: (string | undefined)[] = [];
    for (let i = 0; i < found.length; i += 2)
      reasons.push(requeueOrBury(batch, queue, settings, found[i]!, found[i + 1]!));
    const outcomes = (await redis.run(SETTLE, batch.keys, batch.args)) as readonly (number | string)[];
    let done = 0;
    for (const [i, outcome] of outcomes.entries()) {
      if (outcome !== SETTLED) continue;
      done++;
      const reason = reasons[i];
      if (reason === undefined) requeued++;
      else buried.push(reason);
    }
    // Nothing was done: other processes were faster, or the server takes nothing.
    if (done === 0 || found.length < 2 * CLAIMS_PER_STEP) break;
  }
  return { requeued, buried, time: begin, jump };
}

/** @returns the reason when it becomes a dead letter; undefined = it is queued again */
function requeueOrBury(
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

/**
 * Takes over requests that llm-d-async claimed and no longer renews: it was stopped, and only another llm-d-async would look for
 * its claims. Two processes that do this at once share the work (async-processor 5.2.8).
 * @returns requests that are back in the queue
 * @throws SluiceError of the connection
 */
export async function adoptAbandoned(redis: Redis, queueName: string): Promise<number> {
  const keys = [queueName, ...llmdKeys(queueName)];
  const most = [String(CLAIMS_PER_STEP), String(MOST_BYTES)];
  let adopted = 0;
  for (;;) {
    const [back, left] = (await redis.run(ADOPT, keys, most)) as [number, number];
    adopted += back;
    if (left === 0 || back === 0) return adopted;
  }
}

/** Entries per step: few enough not to hold up the server, and enough to move thousands in a second. */
const RETRIES_PER_STEP = 250;

/** The moves of one round. */
interface Moved {
  /** Queues that got messages. */
  readonly queueNames: ReadonlySet<string>;
  readonly buried: number;
  /** Milliseconds until the next retry is due; infinite when there is none. */
  readonly next: number;
}

/**
 * Queues the retries that are due, with their deadline as the score. Their origin makes no difference: deployments may share
 * the set. An entry that cannot be read, or whose queue is no queue, becomes a dead letter of the set. Source:
 * async-processor 5.2.7.
 * @throws SluiceError of the connection
 */
export async function moveDue(redis: Redis, retryQueueName: string): Promise<Moved> {
  const queueNames = new Set<string>();
  let buried = 0;
  for (;;) {
    // As bytes: only its exact bytes move an entry that is not a text.
    const [wait, ...entries] = (await redis.run(DUE, [retryQueueName], [String(RETRIES_PER_STEP)], true)) as [
      number,
      ...Buffer[],
    ];
    const next = wait < 0 ? Number.POSITIVE_INFINITY : wait;
    if (entries.length === 0) return { queueNames, buried, next };
    const keys = [retryQueueName, deadKey(retryQueueName)];
    const number = keyNumbers(keys, (name) => [name]);
    const args: (string | Buffer)[] = [];
    for (const entry of entries) {
      const { queueName, deadline, problem } = destination(entry);
      args.push(entry, queueName === "" ? "0" : number(queueName), String(deadline), problem);
    }
    const [moved, dead] = (await redis.run(MOVE, keys, args)) as [number, number];
    for (const queueName of keys.slice(2)) queueNames.add(queueName);
    buried += dead;
    // None moved: another mover was faster, or the server takes nothing.
    if (entries.length < RETRIES_PER_STEP || moved === 0) return { queueNames, buried, next };
  }
}

/** Where a parked entry goes when it is due, and the problem of one that goes nowhere. */
export function destination(entry: Buffer): { queueName: string; deadline: number; problem: string } {
  try {
    const { routing, request } = parseEnvelope(entry.toString());
    const problem = routing.requestQueueName === "" ? "the entry names no queue to return to" : "";
    return { queueName: routing.requestQueueName, deadline: request.deadline, problem };
  } catch (error) {
    if (!(error instanceof UnreadableMessage)) throw error;
    return { queueName: "", deadline: 0, problem: error.message };
  }
}

import type { Claim } from "../broker.ts";
import { readEntry, unreadableResult } from "../intake.ts";
import type { Message } from "../messages/message.ts";
import { UnreadableMessage } from "../messages/request.ts";
import type { QueueSettings, RedisSortedSetSettings } from "../settings.ts";
import { markedId } from "./claim-script.ts";
import { ANSWERED_PREFIX } from "./keys.ts";
import { SettleBatch } from "./settle-batch.ts";

/** What a claim asked for. */
export interface Asked {
  readonly queue: QueueSettings;
  readonly settings: RedisSortedSetSettings;
  /** What claim ids begin with. */
  readonly owner: string;
  /** Number of the first claim. */
  readonly first: number;
  /** Messages wanted whose deadline lies ahead. */
  readonly live: number;
}

export interface Taken {
  readonly claims: readonly Claim[];
  /** Claims among them whose cancel mark the script has not looked at. */
  readonly unasked: readonly Claim[];
  /** What goes back, or to the dead letters. */
  readonly aside: SettleBatch;
  /** Why entries are dead letters. */
  readonly reasons: readonly string[];
  /** Claims in `aside` whose message has its result. */
  answered: number;
}

/** Makes claims of what the claim script answered, and sorts out what is none. */
export function takeIn(
  { queue, settings, owner, first, live }: Asked,
  answer: readonly (string | number | null)[],
): Taken {
  const time = answer[0] as number;
  const claims: Claim[] = [];
  const unasked: Claim[] = [];
  const aside = new SettleBatch(settings);
  const reasons: string[] = [];
  let answered = 0;
  let room = live;
  for (let i = 1; i < answer.length; i += 2) {
    const text = answer[i] as string;
    const id = owner + (first + (i - 1) / 2);
    let message: Message;
    try {
      message = readEntry(text, queue);
    } catch (error) {
      if (!(error instanceof UnreadableMessage)) throw error;
      const result = unreadableResult(error);
      const named = error.resultQueueName;
      aside.bury(queue, id, error.message, { named, runOut: false, ...(result === undefined ? {} : { result }) });
      reasons.push(error.message);
      continue;
    }
    const { routing, request } = message;
    // The script may be wrong about a deadline; what would be too much goes back.
    if (request.deadline * 1000 >= time && room-- <= 0) {
      aside.giveBack(queue, id);
      continue;
    }
    const asked = routing.requestToken === "" || markedId(text) === request.id;
    const mark = asked && routing.requestToken !== "" ? answer[i + 1] : undefined;
    if (mark === ANSWERED_PREFIX + routing.requestToken) {
      aside.drop(queue, id);
      answered++;
      continue;
    }
    const cancelled = mark === routing.requestToken;
    const claim: Claim = { id, queue, message, cancelled, publishedAt: Number.NaN, entry: text, lost: false };
    claims.push(claim);
    if (!asked) unasked.push(claim);
  }
  return { claims, unasked, aside, reasons, answered };
}

import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import type { Redis } from "../../../base/redis/connection.ts";
import { AnswerLost } from "../../../base/redis/reply-error.ts";
import type { Claim, Settlement, SettleOutcome } from "../broker.ts";
import { encodeEnvelope } from "../messages/envelope.ts";
import type { QueueSettings, RedisSortedSetSettings } from "../settings.ts";
import { CANCEL_PREFIX, claimsKey, keyNumbers, leasesKey, ownersKey } from "./keys.ts";
import type { LostAnswers } from "./lost-answers.ts";
import {
  ANSWERED,
  DEAD_LETTERED,
  FENCED,
  FORGOTTEN,
  HAS_ANSWER,
  REINSTATE,
  REINSTATED,
  RENEW,
  SETTLED,
  TAKEN,
} from "./scripts.ts";
import type { QueueServer } from "./server.ts";
import { MOST_BYTES, SettleBatch } from "./settle-batch.ts";

/** The outcome of a claim that the store had lost. */
type Reinstated = "reinstated" | "taken" | "answered" | NotReinstated;

interface NotReinstated {
  readonly failed: string;
  /** Whether the store may have put the claim back: the answer of the call was lost. */
  readonly unknown: boolean;
}

/** Renews and settles the claims of this process, and first puts back the claims that the store has lost. */
export class HeldClaims {
  readonly #server: QueueServer;
  readonly #settings: RedisSortedSetSettings;
  readonly #lost: LostAnswers;
  /** Claims whose loss was reported when the answer of the call that puts them back was lost. */
  readonly #reported = new WeakSet<Claim>();

  constructor(server: QueueServer, settings: RedisSortedSetSettings, lost: LostAnswers) {
    this.#server = server;
    this.#settings = settings;
    this.#lost = lost;
  }

  async settle(settlements: readonly Settlement[]): Promise<readonly SettleOutcome[]> {
    const redis = this.#server.usable();
    const outcomes: SettleOutcome[] = [];
    while (outcomes.length < settlements.length) {
      const from = outcomes.length;
      const batch = new SettleBatch(this.#settings);
      for (let i = from; i < settlements.length && batch.volume < MOST_BYTES; i++) batch.add(settlements[i]!);
      const part = settlements.slice(from, from + batch.size);
      let answer: readonly (number | string)[];
      try {
        answer = await this.#server.settle(redis, batch, refusedQueues(part));
        if (answer.includes(FORGOTTEN)) answer = await this.#settleForgotten(redis, part, answer);
      } catch (error) {
        if (error instanceof AnswerLost) this.#lost.settled(part.map(({ claim }) => claim.id));
        if (from === 0) throw error;
        const failed = messageOf(error);
        return [...outcomes, ...settlements.slice(from).map(() => ({ failed }))];
      }
      for (const [i, { claim }] of part.entries()) outcomes.push(this.#outcome(claim, answer[i]!));
    }
    return outcomes;
  }

  /** @returns the claims that other processes have, with `lost` set */
  async renew(claims: readonly Claim[]): Promise<readonly Claim[]> {
    const redis = this.#server.usable();
    if (claims.length === 0) return [];
    const keys: string[] = [];
    const args = [String(this.#settings.leases.claimTtl)];
    const first = keyNumbers(keys, (name) => [claimsKey(name), leasesKey(name), ownersKey(name)]);
    for (const { id, queue } of claims) args.push(first(queue.name), id);
    const [taken, ...missing] = (await redis.run(RENEW, keys, args)) as [number, ...number[]];
    const lost = missing.slice(0, taken).map((at) => claims[at]!);
    const forgotten = missing.slice(taken).map((at) => claims[at]!);
    if (forgotten.length > 0) {
      const outcomes = await this.#reinstate(redis, forgotten);
      lost.push(...forgotten.filter((_, i) => outcomes[i] === "taken" || outcomes[i] === "answered"));
      const failed = outcomes.find((outcome) => typeof outcome === "object");
      if (failed !== undefined)
        throw new SluiceError("BROKER_UNAVAILABLE", `leases that the store lost cannot be restored: ${failed.failed}`);
    }
    for (const claim of lost) claim.lost = true;
    return lost;
  }

  /** Puts lost claims back, and then settles them. @returns the answers, with theirs in their places */
  async #settleForgotten(
    redis: Redis,
    part: readonly Settlement[],
    before: readonly (number | string)[],
  ): Promise<readonly (number | string)[]> {
    this.#server.doubtLeases();
    const answers = [...before];
    const places = [...before.keys()].filter((i) => before[i] === FORGOTTEN);
    const outcomes = await this.#reinstate(
      redis,
      places.map((i) => part[i]!.claim),
    );
    const batch = new SettleBatch(this.#settings);
    const again: number[] = [];
    for (const [n, i] of places.entries()) {
      const outcome = outcomes[n]!;
      if (outcome === "reinstated") {
        again.push(i);
        batch.add(part[i]!);
      } else answers[i] = typeof outcome === "object" ? outcome.failed : outcome === "taken" ? FENCED : ANSWERED;
    }
    if (again.length === 0) return answers;
    const settled = await this.#server.settle(redis, batch, refusedQueues(again.map((i) => part[i]!)));
    // Lost once more meanwhile: the writer tries again.
    for (const [n, i] of again.entries()) answers[i] = settled[n] === FORGOTTEN ? "the store loses data" : settled[n]!;
    return answers;
  }

  #outcome({ id, lost, recovered }: Claim, answer: number | string): SettleOutcome {
    switch (answer) {
      case SETTLED:
        this.#lost.takeSettled(id);
        return recovered === true ? "recovered" : "settled";
      case DEAD_LETTERED:
        this.#lost.takeSettled(id);
        return "dead-lettered";
      case ANSWERED:
        this.#lost.takeSettled(id);
        return "answered";
      case FENCED:
        // The claim is gone because the first attempt did it: only its answer was lost.
        if (!this.#lost.takeSettled(id) || lost) return "fenced";
        return recovered === true ? "recovered" : "settled";
      default:
        return { failed: String(answer) };
    }
  }

  /** @throws the error of the first call */
  async #reinstate(redis: Redis, claims: readonly Claim[]): Promise<readonly Reinstated[]> {
    const { outcomes, error } = await reinstate(redis, claims, this.#settings);
    const forgotten: Claim[] = [];
    for (const [i, claim] of claims.entries()) {
      const outcome = outcomes[i]!;
      const unknown = typeof outcome === "object" && outcome.unknown;
      if ((unknown || outcome === "reinstated") && !this.#reported.has(claim)) forgotten.push(claim);
      if (unknown) this.#reported.add(claim);
      else this.#reported.delete(claim);
    }
    this.#report(forgotten);
    if (error !== undefined) throw error;
    return outcomes;
  }

  #report(forgotten: readonly Claim[]): void {
    const counts = new Map<QueueSettings, number>();
    for (const { queue } of forgotten) counts.set(queue, (counts.get(queue) ?? 0) + 1);
    for (const [queue, count] of counts) this.#server.events?.forgotten(queue, count);
  }
}

/**
 * Puts back claims that the store has lost, and marks them as recovered (store-state.lua). Repeating it is safe.
 * @returns one outcome per claim, in order; after a call that failed, all are failures. `error`: when it was the first call
 */
async function reinstate(
  redis: Redis,
  claims: readonly Claim[],
  { retryQueueName, leases }: RedisSortedSetSettings,
): Promise<{ readonly outcomes: readonly Reinstated[]; readonly error?: unknown }> {
  const outcomes: Reinstated[] = [];
  while (outcomes.length < claims.length) {
    const from = outcomes.length;
    const keys = [retryQueueName];
    const args = [String(leases.claimTtl), CANCEL_PREFIX];
    const first = keyNumbers(keys, (name) => [name, claimsKey(name), leasesKey(name), ownersKey(name)]);
    let end = from;
    for (let volume = 0; end < claims.length && volume < MOST_BYTES; end++) {
      const { id, queue, message, entry = encodeEnvelope(message) } = claims[end]!;
      const { request, routing } = message;
      args.push(first(queue.name), id, entry, String(request.deadline), request.id, routing.requestToken);
      volume += entry.length;
    }
    // Also when the answer of this call is lost: the store does not know these claims, so one that is there later was put back.
    for (const claim of claims.slice(from, end)) claim.recovered = true;
    let answers: readonly (number | string)[];
    try {
      answers = (await redis.run(REINSTATE, keys, args)) as typeof answers;
    } catch (error) {
      const failed = String(error);
      for (let i = from; i < claims.length; i++) outcomes.push({ failed, unknown: i < end });
      return from === 0 ? { outcomes, error } : { outcomes };
    }
    for (let i = from; i < end; i++) outcomes.push(outcomeOf(answers[i - from]!));
  }
  return { outcomes };
}

function outcomeOf(answer: number | string): Reinstated {
  switch (answer) {
    case REINSTATED:
      return "reinstated";
    case TAKEN:
      return "taken";
    case HAS_ANSWER:
      return "answered";
    default:
      return { failed: String(answer), unknown: false };
  }
}

function refusedQueues(settlements: readonly Settlement[]): Set<QueueSettings> {
  const queues = new Set<QueueSettings>();
  for (const { kind, claim } of settlements) if (kind === "refuse") queues.add(claim.queue);
  return queues;
}

import type { Claim } from "../broker.ts";
import { encodeEnvelope } from "../messages/envelope.ts";
import type { Redis } from "../redis/connection.ts";
import type { QueueSettings, RedisSortedSetSettings } from "../settings.ts";
import { CANCEL_PREFIX, claimsKey, leasesKey, ownersKey } from "./keys.ts";
import { HAS_ANSWER, REINSTATE, REINSTATED, TAKEN } from "./lease-scripts.ts";

/** What became of a claim that the store had lost. `{ failed }`: nothing, with the server's reason. */
export type Reinstated = "reinstated" | "taken" | "answered" | { readonly failed: string };

/** Characters of entries per call: the server is held up no longer than that takes. */
const MOST_VOLUME = 4 * 1024 * 1024;

/**
 * Puts claims back that the store has lost, and marks them as recovered (store-state.ts). Repeating it is safe.
 * @returns one outcome per claim, in order; those of later calls are failures when a call fails
 * @throws SluiceError of the connection when the first call fails
 */
export async function reinstate(
  redis: Redis,
  claims: readonly Claim[],
  { retryQueueName, leases }: RedisSortedSetSettings,
): Promise<readonly Reinstated[]> {
  const outcomes: Reinstated[] = [];
  while (outcomes.length < claims.length) {
    const from = outcomes.length;
    const keys = [retryQueueName];
    const args = [String(leases.claimTtl), CANCEL_PREFIX];
    const groups = new Map<string, string>();
    let end = from;
    for (let volume = 0; end < claims.length && volume < MOST_VOLUME; end++) {
      const { id, queue, message, entry = encodeEnvelope(message) } = claims[end]!;
      const { request, routing } = message;
      args.push(group(keys, groups, queue), id, entry, String(request.deadline), request.id, routing.requestToken);
      volume += entry.length;
    }
    let answers: readonly (number | string)[];
    try {
      answers = (await redis.run(REINSTATE, keys, args)) as typeof answers;
    } catch (error) {
      if (from === 0) throw error;
      return [...outcomes, ...claims.slice(from).map(() => ({ failed: String(error) }))];
    }
    for (let i = from; i < end; i++) {
      const outcome = outcomeOf(answers[i - from]!);
      if (outcome === "reinstated") claims[i]!.recovered = true;
      outcomes.push(outcome);
    }
  }
  return outcomes;
}

/** The number of the first key of a queue. */
function group(keys: string[], groups: Map<string, string>, { name }: QueueSettings): string {
  let first = groups.get(name);
  if (first === undefined) {
    first = String(keys.push(name));
    keys.push(claimsKey(name), leasesKey(name), ownersKey(name));
    groups.set(name, first);
  }
  return first;
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
      return { failed: String(answer) };
  }
}

import type { InFlightLoad } from "../../base/inference/endpoint.ts";

/** The most looks at an address for one plan, up to 30 us: in a large pool, replicas seldom meet at an endpoint. */
const MOST_LOOKS = 4096;
/** Tokens that count as much as the difference between no request and the most at any address: as in the default profile. */
const REQUEST_TOKENS = 3 * 16_384;

/** What a plan depends on. */
export interface PlanParts {
  /** The known load at each address of the pool, in the order in which homes are dealt out. */
  readonly loads: readonly InFlightLoad[];
  /** The number of replicas with traffic, and the place of this one among them, from 0. */
  readonly replicas: number;
  readonly self: number;
  /** Requests that each peer has probably sent, beside its part of those that are sent with the present one. */
  readonly each: number;
  /** How probable it is that a peer sends one together with the present one, 0 to 1. */
  readonly together: number;
  /** Tokens of such a request, and those by which a replica leans to its home. */
  readonly tokens: number;
  readonly lean: number;
}

/** Whether the address at a place of the pool is the home of a replica. Where there are more replicas than addresses, several share it. */
export function isHome(at: number, replica: number, replicas: number, addresses: number): boolean {
  return at % replicas === replica || replica % addresses === at;
}

/** The number of requests that a peer has probably sent: the replicas before this one count as earlier where all send at once. */
function due({ self, each, together }: PlanParts, replica: number): number {
  return replica === self ? 0 : Math.round(each + (replica < self ? together : 0));
}

/**
 * Guesses where peers have sent the requests that this process does not know of yet. Each in turn takes the address that is least
 * busy for it, as this process would in its place. So the replicas of a pool agree, without a word, on who takes which endpoint.
 * @param out gets the number of requests at each address
 * @returns whether there are any
 */
export function planUnseen(parts: PlanParts, out: Float64Array): boolean {
  const { loads, replicas, tokens, lean } = parts;
  out.fill(0, 0, loads.length);
  // Those before this one may have one more.
  const rounds = Math.max(due(parts, 0), due(parts, replicas - 1));
  if (rounds === 0 || replicas < 2 || loads.length < 2) return false;
  let most = 1;
  for (const { requests } of loads) most = Math.max(most, requests);
  const request = REQUEST_TOKENS / most;
  const costs = new Float64Array(loads.length);
  for (let at = 0; at < loads.length; at++) costs[at] = loads[at]!.tokens + request * loads[at]!.requests;
  let left = Math.floor(MOST_LOOKS / loads.length);
  for (let round = 0; round < rounds; round++)
    for (let replica = 0; replica < replicas; replica++) {
      if (due(parts, replica) <= round) continue;
      if (left-- <= 0) return true;
      const best = choice(costs, replica, replicas, lean);
      out[best]!++;
      costs[best]! += tokens + request;
    }
  return true;
}

/** The address that costs a replica least, its home first. */
function choice(costs: Float64Array, replica: number, replicas: number, lean: number): number {
  // Only the homes are looked at twice: to ask for each address whose home it is takes longer than the rest.
  const home = least(costs, replica % costs.length, replicas);
  const any = least(costs, 0, 1);
  return costs[home]! <= costs[any]! + lean ? home : any;
}

/** The least of each `step`-th number. */
function least(costs: Float64Array, first: number, step: number): number {
  let best = first;
  for (let at = first + step; at < costs.length; at += step) if (costs[at]! < costs[best]!) best = at;
  return best;
}

import type { Random } from "../../../base/clock/random.ts";
import type { Claim } from "../../brokers/broker.ts";
import type { QueueSettings } from "../../brokers/settings.ts";
import type { FairnessStamp, MergePolicy, StampedHeader } from "./merge-policy.ts";

/** The held claims of one queue, in the order of the claims. */
interface Held {
  readonly claims: Claim[];
  /** How many claims the policy had got when this queue added its last one. */
  lastAdd: number;
}

/** A queue counts as empty when it added none of the last claims of the policy: this many per worker. */
const MEMORY = 4;

/**
 * Every queue with a held message is equally likely to be next, at any length (async-processor 6.2). The policy takes only as
 * many messages as idle workers, or workers about to be idle, can begin. A claimed message is kept from other processes and may
 * delay earlier deadlines.
 */
export class RandomRobin implements MergePolicy {
  readonly #queues: ReadonlyMap<QueueSettings, Held>;
  /** The queues with held claims, in no order. */
  readonly #ready: Held[] = [];
  readonly #memory: number;
  readonly #random: Random;
  readonly #fairness: FairnessStamp;
  #size = 0;
  #added = 0;

  /** @param queues those of the pool; claims must carry these same objects @param workers of the pool, at least 1 */
  constructor(queues: readonly QueueSettings[], workers: number, random: Random, fairness: FairnessStamp) {
    this.#queues = new Map(queues.map((queue) => [queue, { claims: [], lastAdd: 0 }]));
    this.#memory = MEMORY * workers;
    this.#random = random;
    this.#fairness = fairness;
  }

  get size(): number {
    return this.#size;
  }

  /** An equal share of the free workers for each queue that seems to have messages, this one included. */
  room(queue: QueueSettings, free: number): number {
    const left = free - this.#size;
    if (left <= 0) return 0;
    const own = this.#queues.get(queue)!;
    let busy = 0;
    for (const held of this.#queues.values()) if (held === own || this.#added - held.lastAdd < this.#memory) busy++;
    return Math.min(left, Math.max(0, Math.ceil(free / busy) - own.claims.length));
  }

  add(claim: Claim): void {
    const held = this.#queues.get(claim.queue)!;
    if (held.claims.push(claim) === 1) this.#ready.push(held);
    held.lastAdd = ++this.#added;
    this.#size++;
  }

  next(): Claim | undefined {
    if (this.#size === 0) return undefined;
    const at = this.#random.below(this.#ready.length);
    const held = this.#ready[at]!;
    const claim = held.claims.shift()!;
    if (held.claims.length === 0) {
      const last = this.#ready.pop()!;
      if (last !== held) this.#ready[at] = last;
    }
    this.#size--;
    return claim;
  }

  drain(): Claim[] {
    const all = this.#ready.flatMap((held) => held.claims.splice(0));
    this.#ready.length = 0;
    this.#size = 0;
    return all;
  }

  stamp(claim: Claim): readonly StampedHeader[] {
    return this.#fairness.stamp(claim);
  }
}

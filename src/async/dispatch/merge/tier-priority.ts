import type { Claim } from "../../brokers/broker.ts";
import type { QueueSettings } from "../../brokers/settings.ts";
import type { FairnessStamp, MergePolicy, StampedHeader } from "./merge-policy.ts";

/** Reserved interactive, async, batch; then overflow interactive, async, batch. */
const LANES = 6;
/** Messages that may be held for each worker, so that a worker that becomes free has a choice. */
const PER_WORKER = 2;

type Labels = Readonly<Record<string, string>>;

/** The messages of one lane: queues take turns, and within a queue the first claimed goes first. */
class Lane {
  readonly #claims: readonly Claim[][];
  /** Indices of the queues that hold messages, the next one first. */
  readonly #turns: number[] = [];

  constructor(queues: number) {
    this.#claims = Array.from({ length: queues }, () => []);
  }

  add(claim: Claim, queue: number): void {
    if (this.#claims[queue]!.push(claim) === 1) this.#turns.push(queue);
  }

  next(): Claim | undefined {
    const queue = this.#turns.shift();
    if (queue === undefined) return undefined;
    const claims = this.#claims[queue]!;
    const claim = claims.shift();
    if (claims.length > 0) this.#turns.push(queue);
    return claim;
  }

  drain(): Claim[] {
    return this.#turns.splice(0).flatMap((queue) => this.#claims[queue]!.splice(0));
  }
}

/** The settings of a `TierPriority`. */
export interface TierPriorityOptions {
  /** Carries the number of the lane. */
  readonly priorityHeader: string;
  /** The label with the value `interactive`, `async` or `batch`. */
  readonly tierLabel: string;
  readonly fairness: FairnessStamp;
}

/**
 * Six lanes, of which the first with a message always goes first; a message's labels give its lane (async-processor 6.3). Every
 * queue may hold an equal share of two messages per worker, so that a full queue cannot hide the messages of another. There is
 * no ageing: a later lane waits for as long as the lanes before it have work.
 */
export class TierPriority implements MergePolicy {
  readonly #lanes: readonly Lane[];
  readonly #indices: ReadonlyMap<QueueSettings, number>;
  /** Messages held of each queue. */
  readonly #held: Uint32Array;
  /** Lane of the latest message of each queue; before the first message, the lane of the queue's own labels. */
  readonly #latest: Uint8Array;
  readonly #share: number;
  readonly #tierLabel: string;
  readonly #fairness: FairnessStamp;
  /** The header of each lane. */
  readonly #priorities: readonly (readonly StampedHeader[])[];
  #size = 0;

  /** @param queues those of the pool; claims must carry these same objects @param workers of the pool, at least 1 */
  constructor(queues: readonly QueueSettings[], workers: number, options: TierPriorityOptions) {
    this.#lanes = Array.from({ length: LANES }, () => new Lane(queues.length));
    this.#indices = new Map(queues.map((queue, index) => [queue, index]));
    this.#held = new Uint32Array(queues.length);
    this.#share = Math.max(1, Math.floor((PER_WORKER * workers) / Math.max(1, queues.length)));
    this.#tierLabel = options.tierLabel;
    this.#fairness = options.fairness;
    this.#latest = Uint8Array.from(queues, ({ labels }) => this.#laneOf(labels));
    this.#priorities = this.#lanes.map((_, lane) => [{ name: options.priorityHeader, value: String(lane) }]);
  }

  get size(): number {
    return this.#size;
  }

  /** Idle workers make no difference: a busy worker must also find the most urgent message as soon as it ends. */
  room(queue: QueueSettings): number {
    return Math.max(0, this.#share - this.#held[this.#indices.get(queue)!]!);
  }

  urgency(queue: QueueSettings): number {
    return this.#latest[this.#indices.get(queue)!]!;
  }

  add(claim: Claim, labels: Labels): void {
    const queue = this.#indices.get(claim.queue)!;
    const lane = this.#laneOf(labels);
    this.#lanes[lane]!.add(claim, queue);
    this.#latest[queue] = lane;
    this.#held[queue]!++;
    this.#size++;
  }

  next(): Claim | undefined {
    for (const lane of this.#lanes) {
      const claim = lane.next();
      if (claim === undefined) continue;
      this.#held[this.#indices.get(claim.queue)!]!--;
      this.#size--;
      return claim;
    }
    return undefined;
  }

  drain(): Claim[] {
    this.#held.fill(0);
    this.#size = 0;
    return this.#lanes.flatMap((lane) => lane.drain());
  }

  stamp(claim: Claim, labels: Labels): readonly StampedHeader[] {
    const priority = this.#priorities[this.#laneOf(labels)]!;
    const fairness = this.#fairness.stamp(claim);
    return fairness.length === 0 ? priority : [...fairness, ...priority];
  }

  #laneOf(labels: Labels): number {
    const overflow = labels["classification"] === "reserved" ? 0 : 3;
    const tier = labels[this.#tierLabel];
    return overflow + (tier === "interactive" ? 0 : tier === "async" ? 1 : 2);
  }
}

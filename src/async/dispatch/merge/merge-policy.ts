import type { Claim } from "../../brokers/broker.ts";
import type { QueueSettings } from "../../brokers/settings.ts";

/** A header that a policy sets on the outgoing request, over every other of that name. */
export interface StampedHeader {
  readonly name: string;
  readonly value: string;
}

/**
 * Orders the claimed messages of the queues that feed one pool (async-processor 6). It holds only what was claimed for
 * workers that are free or soon will be, so its size is bounded by `room`.
 */
export interface MergePolicy {
  /** Claims held. */
  readonly size: number;
  /** How many more messages of `queue` it would take now. @param free workers that have nothing to do */
  room(queue: QueueSettings, free: number): number;
  /**
   * Whose messages are likely to be wanted first, smaller is sooner; without it all queues are equal. Where a gate's N is
   * what is short, and not the workers, a message that has room there has gone by before another can be preferred to it.
   */
  urgency?(queue: QueueSettings): number;
  add(claim: Claim, labels: Readonly<Record<string, string>>): void;
  /** Takes out the next one; undefined when there is none. */
  next(): Claim | undefined;
  /** Takes out all; added again in the order they come, those of each queue and lane keep theirs. */
  drain(): Claim[];
  /** Headers to set on this message's request. */
  stamp(claim: Claim, labels: Readonly<Record<string, string>>): readonly StampedHeader[];
}

/** Made once per pool, so that no pool waits for another. */
export type MakeMergePolicy = (queues: readonly QueueSettings[], workers: number) => MergePolicy;

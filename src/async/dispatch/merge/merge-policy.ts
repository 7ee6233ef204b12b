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

/** Longest fairness ID that is sent on, in bytes of UTF-8. */
const LONGEST = 256;
/** No header at all. */
const NO_HEADERS: readonly StampedHeader[] = [];
/** A field value of RFC 9110 5.5: no control characters but tabs inside, no blanks around it. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it refuses
const VALUE = /^(?![\t ])[^\u0000-\u0008\u000a-\u001f\u007f]+(?<![\t ])$/u;

/**
 * Makes the header that says on whose behalf a request is sent, from the same metadata that quotas are charged to: the
 * gateway then arbitrates between those who pay (async-processor 6.4).
 */
export class FairnessStamp {
  readonly #header: string;
  readonly #attribute: string;

  /**
   * @param header name of the header; empty = never stamp
   * @param attribute key in the message's metadata
   */
  constructor(header: string, attribute: string) {
    this.#header = header;
    this.#attribute = attribute;
  }

  /** Nothing when the message names nobody, or somebody who fits no header: the caller's own headers stay then. */
  stamp(claim: Claim): readonly StampedHeader[] {
    const { metadata } = claim.message.request;
    if (this.#header === "" || !Object.hasOwn(metadata, this.#attribute)) return NO_HEADERS;
    const value = metadata[this.#attribute]!;
    if (value.length > LONGEST || Buffer.byteLength(value) > LONGEST || !value.isWellFormed() || !VALUE.test(value))
      return NO_HEADERS;
    return [{ name: this.#header, value }];
  }
}

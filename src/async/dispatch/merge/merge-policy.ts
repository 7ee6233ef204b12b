import type { Claim } from "../../brokers/broker.ts";
import type { QueueSettings } from "../../brokers/settings.ts";

/** A header that a policy sets on the outgoing request; it replaces every other of that name. */
export interface StampedHeader {
  readonly name: string;
  readonly value: string;
}

/**
 * Orders the claimed messages of the queues that feed one pool (async-processor 6). It holds only messages that were claimed
 * for workers that are free or soon will be, so `room` bounds its size.
 */
export interface MergePolicy {
  /** Claims held. */
  readonly size: number;
  /** How many more messages of `queue` it takes now. @param free idle workers */
  room(queue: QueueSettings, free: number): number;
  /**
   * How soon workers will want the messages of a queue; smaller is sooner. Without this method all queues are equal. It serves
   * capacities, not workers: where a gate's N is short, a message with room would pass before the policy could prefer another.
   */
  urgency?(queue: QueueSettings): number;
  add(claim: Claim, labels: Readonly<Record<string, string>>): void;
  /** Takes out the next claim; undefined when there is none. */
  next(): Claim | undefined;
  /** Takes out all claims. Added again in this order, the claims of each queue and lane keep their order. */
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
 * Makes the header that names the owner of a request. The name comes from the metadata that quotas charge, so the gateway
 * arbitrates between the same owners (async-processor 6.4).
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

  /** No header when the message names no owner, or a name that fits no header; the message's own header then stays. */
  stamp(claim: Claim): readonly StampedHeader[] {
    const { metadata } = claim.message.request;
    if (this.#header === "" || !Object.hasOwn(metadata, this.#attribute)) return NO_HEADERS;
    const value = metadata[this.#attribute]!;
    if (value.length > LONGEST || Buffer.byteLength(value) > LONGEST || !value.isWellFormed() || !VALUE.test(value))
      return NO_HEADERS;
    return [{ name: this.#header, value }];
  }
}

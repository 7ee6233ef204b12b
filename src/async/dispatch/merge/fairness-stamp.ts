import type { Claim } from "../../brokers/broker.ts";
import type { StampedHeader } from "./merge-policy.ts";

/** Longest fairness ID that is sent on, in bytes of UTF-8. */
const LONGEST = 256;
/** No header at all. */
export const NO_HEADERS: readonly StampedHeader[] = [];
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

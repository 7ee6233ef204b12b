import type { Endpoint } from "../inference/endpoint.ts";

/** Blocks of prompts that an endpoint will soon hold, as the halves of their hashes in the order of the prompt. */
export interface SharedBlocks {
  readonly low: Int32Array;
  readonly high: Int32Array;
  /** The part of the arrays that counts. */
  readonly from: number;
  readonly count: number;
  /** Tokens of one block, above 0. */
  readonly blockTokens: number;
}

/** The way of one producer to its namesakes in the other replicas of this picker. No call waits or throws. */
export interface PrefixChannel {
  /** A decision newly placed these blocks at the endpoint. They are copied. */
  placed(endpoint: Endpoint, blocks: SharedBlocks): void;
  /** Nothing is received any more. */
  close(): void;
}

/** Shares with the other replicas which blocks of prompts were placed where. For the plugins of Sluice itself. */
export interface SharedPrefixes {
  /** Two times 32 secret bits, equal in all replicas: only hashes with equal keys can be compared. */
  readonly hashKeys: readonly [number, number];
  /**
   * @param space what the hashes of the producer depend on besides the keys, such as its name: only equal spaces hear each other
   * @param receive gets what peers placed; the arrays are valid during the call
   */
  open(space: string, receive: (endpoint: Endpoint, blocks: SharedBlocks) => void): PrefixChannel;
}

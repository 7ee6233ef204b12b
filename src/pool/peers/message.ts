/** The version of the messages that this release writes, and the only one that it reads. */
export const PROTOCOL_VERSION = 1;
/** The most endpoints of one load message: as many as a pool has. */
export const MAX_ENDPOINTS = 4096;
/** The most models with their bytes per token in one message. */
export const MAX_MODELS = 256;
/** The most bytes of a load message: all endpoints with the longest names fit, loads and facts. */
export const MAX_LOAD_BYTES = 1 << 22;
/** The most bytes of a message of the log. */
export const MAX_PLACED_BYTES = 1 << 17;
/** The most new blocks of one decision; a prompt with more is announced by its beginning. */
export const MAX_BLOCKS = 4096;
/** The most bytes of an endpoint's `address:port`: a host name of 253 characters, brackets and a port. */
export const MAX_KEY_BYTES = 262;
/** The most bytes of a model's name. */
export const MAX_MODEL_BYTES = 1024;
/** The most requests and tokens in flight at one endpoint that are believed. */
export const MOST_REQUESTS = 1e7;
export const MOST_TOKENS = 1e12;
/** Milliseconds of silence after which a replica counts as gone, and its load with it. */
export const SILENCE = 3000;
/** The least milliseconds between two messages of one replica, for loads and for the log alike. */
export const LEAST_INTERVAL = 20;
/** Milliseconds after which an unchanged load is sent again. */
export const HEARTBEAT = 1000;

/** Who sent a message, and when in its own order. */
export interface Sender {
  /** 16 hexadecimal digits, random for each process. */
  readonly id: string;
  /** Rises with each start: wall-clock milliseconds x 1,024 and some chance. */
  readonly epoch: number;
  /** Rises with each message of the sender, from 1 up; loads and the log have numbers of their own. */
  readonly sequence: number;
}

/** What one replica has in flight at one endpoint. */
export interface EndpointLoad {
  /** `address:port`. */
  readonly key: string;
  readonly requests: number;
  /** Prompt tokens that the endpoint still has to compute. */
  readonly tokens: number;
}

/** What one replica has learnt about servers and models. */
export interface PeerFacts {
  /** Endpoints that the replica cannot reach, and for how many milliseconds. */
  readonly down: readonly { readonly key: string; readonly forMs: number }[];
  /** Bytes of text per token, 1 to 16, learnt from answers. */
  readonly bytesPerToken: readonly { readonly model: string; readonly bytesPerToken: number }[];
  /** The most requests that a server ran at a time. */
  readonly capacities: readonly { readonly key: string; readonly requests: number }[];
}

/** The whole load of one replica: absolute figures, so that a lost message heals with the next one. */
export interface LoadMessage extends Sender {
  /** Endpoints that are not named have no load. */
  readonly loads: readonly EndpointLoad[];
  /** Undefined = as in the last message that had some. */
  readonly facts: PeerFacts | undefined;
}

/** What one decision newly placed: an endpoint will soon hold these blocks. */
export interface Placement {
  /** `address:port`. */
  readonly key: string;
  /** Says which blocks may be equal: those of one producer. */
  readonly space: number;
  /** Tokens of a block, above 0. */
  readonly blockTokens: number;
  /** The halves of the block hashes, `count` of each beginning at `from`, in the order of the prompt. */
  readonly from: number;
  readonly count: number;
  readonly low: Int32Array;
  readonly high: Int32Array;
}

export interface PlacedMessage extends Sender {
  readonly placements: readonly Placement[];
}

/**
 * Why a message is not used. `garbage`: not of this format. `version`: of another release. `cluster`: of a picker for another
 * pool. `own`: sent by this replica itself. `old`: an older epoch or sequence. `crowded`: there are too many replicas. `excess`: peers
 * place more blocks than a replica takes in.
 */
export const REFUSALS = ["garbage", "version", "cluster", "own", "old", "crowded", "excess"] as const;
export type PeerRefusal = (typeof REFUSALS)[number];

import { DEFAULT_LATENCY } from "../simulator/latency.ts";

/**
 * One server of the demo. 768 blocks of 16 tokens hold six of the twelve prefixes: three servers hold all of them, one
 * does not. Prefill is slow enough to be felt: 0.4 s for a prefix that is not in the cache, 10 ms for one that is.
 */
export const MODEL_SERVER = {
  kvCacheSize: 768,
  blockSize: 16,
  maxNumSeqs: 16,
  latency: { ...DEFAULT_LATENCY, prefillTimePerToken: 0.2, prefillOverhead: 8, interTokenLatency: 12 },
};

/** What a server of a demo is set to. */
export type ModelServer = typeof MODEL_SERVER;

/**
 * One server of the demo with a backlog, where slots are what is scarce: no prompt is long, and a token takes long enough that a
 * small machine can serve all slots of three servers at once.
 */
export const SLOT_SERVER: ModelServer = {
  kvCacheSize: 2048,
  blockSize: 16,
  maxNumSeqs: 16,
  latency: { ...DEFAULT_LATENCY, prefillTimePerToken: 0.05, prefillOverhead: 20, interTokenLatency: 25 },
};

/** The same as arguments of `sluice sim`. */
export function modelServerArgs({ kvCacheSize, blockSize, maxNumSeqs, latency }: ModelServer): readonly string[] {
  return [
    ...["--kv-cache-size", String(kvCacheSize), "--block-size", String(blockSize)],
    ...["--max-num-seqs", String(maxNumSeqs)],
    ...["--prefill-time-per-token", `${latency.prefillTimePerToken}ms`],
    ...["--prefill-overhead", `${latency.prefillOverhead}ms`],
    ...["--inter-token-latency", `${latency.interTokenLatency}ms`],
  ];
}

import { DEFAULT_LATENCY } from "../../simulator/latency.ts";

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

/** The same as arguments of `sluice sim`. */
export const MODEL_SERVER_ARGS: readonly string[] = [
  ...["--kv-cache-size", String(MODEL_SERVER.kvCacheSize), "--block-size", String(MODEL_SERVER.blockSize)],
  ...["--max-num-seqs", String(MODEL_SERVER.maxNumSeqs)],
  ...["--prefill-time-per-token", `${MODEL_SERVER.latency.prefillTimePerToken}ms`],
  ...["--prefill-overhead", `${MODEL_SERVER.latency.prefillOverhead}ms`],
  ...["--inter-token-latency", `${MODEL_SERVER.latency.interTokenLatency}ms`],
];

/**
 * Upper bounds of the histograms (scheduling 8.2). Recording rules and dashboards match on these numbers. Hence also the 32778,
 * a typing error for 32768 in every version of the reference.
 */
export const LATENCY = [
  0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60, 120, 180, 240,
  300, 360, 480, 600, 900, 1200, 1800, 2700, 3600,
] as const;
/** 64 B to 1 GiB, doubling. */
export const REQUEST_SIZE: readonly number[] = Array.from({ length: 25 }, (_, i) => 64 * 2 ** i);
export const RESPONSE_SIZE = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32778, 65536] as const;
export const INPUT_TOKENS = [...RESPONSE_SIZE, 131072, 262144, 524288, 1048576] as const;
export const OUTPUT_TOKENS = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192] as const;
/** Normalised time per output token. */
export const NTPOT = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10] as const;
/** Steps within one process: a scheduler run, a plugin. */
export const FAST = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1] as const;
/** Time in a queue of flow control. */
export const QUEUE = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60] as const;
export const RATIO = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1] as const;
/** Bytes of a prefix that were found in the index. */
export const HIT_BYTES = [0, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] as const;
/** Time to first token: the latency bounds up to 120 s. */
export const TTFT: readonly number[] = LATENCY.filter((bound) => bound <= 120);
/** Time per output token of a stream. */
export const TPOT = [
  0.0005, 0.00205, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 2,
] as const;
/** Time between two chunks of a stream. */
export const INTER_TOKEN = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2] as const;
export const REQUEST_PROCESSING = [
  0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.025, 0.04, 0.06, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
] as const;
export const RESPONSE_PROCESSING = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
] as const;
/** The default bounds of Prometheus clients: the wait for the end of a revoked request. */
export const REVOCATION = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;
/** How long an ext_proc stream is open. */
export const STREAM = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600] as const;

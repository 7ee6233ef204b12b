import { B2B_WARM_UP, b2bTraffic } from "./b2b-saas.ts";
import type { WorkloadDefinition } from "./workload.ts";

/** Seconds by which what is known of the servers is behind. */
const LAGS = [0, 0.2, 1, 2, 5];

/**
 * The traffic of `b2b-saas` at four fifths of what the servers can do once each has its share of the prefixes (51 requests/s
 * under the default profile), where a wrong decision costs most. Servers are read every 50 ms in all of them; the readings
 * arrive so much later.
 */
export const STALENESS: readonly WorkloadDefinition[] = LAGS.map((seconds) => ({
  name: `staleness-${seconds}s`,
  about: `the traffic of b2b-saas with metrics that are ${seconds} s old: shows who needs fresh metrics`,
  rates: [40],
  rateUnit: "requests/s",
  servers: 8,
  preset: "qwen3-32b-2xh100",
  metricsLagMs: seconds * 1000,
  durationMs: 45_000,
  warmUp: B2B_WARM_UP,
  make: b2bTraffic,
}));

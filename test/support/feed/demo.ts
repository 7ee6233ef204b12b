/** The made-up state of a demo, in the shape of src/wires/admin/feed/demo.ts. */
import type { DemoState } from "../../../src/wires/admin/feed/demo.ts";

export function demoStateOf(): DemoState {
  return {
    ...{ at: Date.now(), ready: true, because: "" },
    servers: [1, 2, 3].map((at) => ({
      name: `server-${at}`,
      endpoint: `default/server-${at}`,
      state: at === 3 ? "away" : "running",
      pid: at === 3 ? null : 4000 + at,
    })),
    traffic: { requestsPerSecond: 8, least: 1, most: 20 },
    policy: "sluice",
    policies: [
      {
        policy: "round-robin",
        seconds: 30,
        requests: 240,
        failed: 0,
        ttftMs: { p50: 410, p90: 1900 },
        outputTokensPerSecond: 910,
        cacheHitRate: 0.31,
      },
      {
        policy: "sluice",
        seconds: 24,
        requests: 190,
        failed: 0,
        ttftMs: { p50: 140, p90: 420 },
        outputTokensPerSecond: 1240,
        cacheHitRate: 0.79,
      },
    ],
    wave: {
      waiting: 80,
      inFlight: 12,
      done: 28,
      state: "running",
      gate: "open",
      because: "D 0.52 is above B 0.35",
      etaSeconds: 21,
    },
  };
}

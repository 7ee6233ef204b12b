/** Made-up endpoints, in the shapes of src/wires/admin/feed/. The same place always gives the same endpoint, but for its times. */
import type { EndpointColumns, EndpointDetail, EndpointStatics } from "../../../src/wires/admin/feed/endpoints.ts";
import { wave } from "./wave.ts";

export function endpointOf(at: number): EndpointStatics {
  const state = at % 4 === 2 ? "down" : at % 29 === 28 ? "blind" : "up";
  return {
    ...{ id: `default/server-${at + 1}`, hostPort: `10.0.${at >> 8}.${at & 255}:8000`, scheme: "http", rank: 0, state },
    labels: { tier: at % 3 === 0 ? "gold" : "silver", zone: `zone-${at % 5}` },
    since: Date.now() - 60_000 * (at + 3),
    cause:
      state === "down"
        ? "connect ECONNREFUSED: nothing listens there"
        : state === "blind"
          ? "GET /metrics answered 404"
          : "it answers",
    models: at % 7 === 6 ? null : { source: "server", names: ["llama-3.1-8b", "support-adapter"], count: 2 },
    adapters: { running: at % 2 === 0 ? ["support-adapter"] : [], waiting: [], most: 4 },
    ...{ blocks: 8000, blockSize: 16, capacity: 64, scrapeIntervalMs: 50 },
  };
}

export function columnsOf(count: number, second: number, first = 0): EndpointColumns {
  const each = <T>(of: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => of(at + first));
  const up = (at: number): boolean => at % 4 !== 2;
  return {
    waiting: each((at) => (up(at) ? Math.max(0, Math.round(3 * wave(second, 9, at))) : null)),
    running: each((at) => (up(at) ? Math.round(14 + 8 * wave(second, 12, at * 3)) : null)),
    kvUsage: each((at) => (up(at) ? 0.5 + 0.35 * wave(second, 30, at * 7) : null)),
    ageMs: each((at) => (up(at) ? 18 + (at % 30) : 63_000)),
    fresh: each((at) => (up(at) ? 1 : 0)),
    inFlight: each((at) => (up(at) ? Math.round(14 + 8 * wave(second, 12, at * 3)) : 0)),
    inFlightTokens: each(() => 3100),
    requests: each((at) => 12_000 + at),
    share: each((at) => (up(at) ? 1 / Math.max(3, count) : 0)),
    failures: each((at) => (up(at) ? 0 : 14)),
    tokensPerSecond: each((at) => (up(at) ? 900 + 100 * wave(second, 20, at) : null)),
    tpotMs: each((at) => (up(at) ? 21 + (at % 5) : null)),
    ttftMs: each((at) => (up(at) ? 140 + 20 * wave(second, 20, at) : null)),
    nextScrapeMs: each(() => 31),
  };
}

export function endpointDetailOf(at: number): EndpointDetail {
  const values = (of: (step: number) => number): number[] => Array.from({ length: 60 }, (_, step) => of(step));
  return {
    ...{
      at: Date.now(),
      endpoint: endpointOf(at),
      columns: columnsOf(1, Math.floor(Date.now() / 1000), at),
      earlier: 0,
    },
    timeline: [
      { at: Date.now() - 900_000, state: "up", cause: "it answers" },
      { at: Date.now() - 400_000, state: "down", cause: "connect ECONNREFUSED" },
      { at: Date.now() - 340_000, state: "up", cause: "it answers again" },
    ],
    spark: {
      ...{ from: Math.floor(Date.now() / 1000) - 900, step: 15 },
      inFlight: values((step) => 14 + 6 * wave(step, 6)),
      kvUsage: values((step) => 0.5 + 0.2 * wave(step, 9)),
      requestsPerSecond: values((step) => 11 + 3 * wave(step, 7)),
      tokensPerSecond: values((step) => 900 + 200 * wave(step, 8)),
    },
    ttftMs: { p50: 120, p90: 310, p99: 690 },
    leftOut: {
      seconds: 60,
      decisions: 2470,
      reasons: [
        {
          reason: "down",
          times: 2470,
          decisions: 2470,
          named: true,
          endpoints: [{ id: "default/server-3", times: 2470 }],
        },
        {
          reason: "label-selector-filter",
          times: 320,
          decisions: 160,
          named: false,
          endpoints: [{ id: "default/server-2", times: 160 }],
        },
      ],
    },
  };
}

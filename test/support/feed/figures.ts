/** Made-up figures in the shapes of src/wires/admin/feed/. The same second and place always give the same figures. */
import type { ConfigFeed } from "../../../src/wires/admin/feed/config.ts";
import type { DecisionDetail, DecisionRow } from "../../../src/wires/admin/feed/decisions.ts";
import type { DemoState } from "../../../src/wires/admin/feed/demo.ts";
import type { EndpointColumns, EndpointDetail, EndpointStatics } from "../../../src/wires/admin/feed/endpoints.ts";
import type { FeedKind } from "../../../src/wires/admin/feed/feed.ts";
import type { EventEntry, FigureName, Overview, Totals } from "../../../src/wires/admin/feed/overview.ts";
import type { DispatchFeed, FlowControlFeed } from "../../../src/wires/admin/feed/queues.ts";

/** From -1 to 1, smooth in `at`. */
const wave = (at: number, length: number, shift = 0): number => Math.sin((at + shift) / length);
const now = (): number => Date.now();

const ROUTING: Readonly<Record<string, (second: number) => number | null>> = {
  "requests.answered": (s) => Math.round(40 + 12 * wave(s, 40) + 3 * wave(s, 3)),
  "requests.server-error": (s) => (s % 97 === 0 ? 2 : 0),
  "requests.refused": (s) => (s % 61 < 3 ? 3 : 0),
  "requests.cancelled": () => 0,
  "requests.interrupted": () => 0,
  "requests.unfollowed": () => 0,
  "requests.failed": () => 0,
  started: (s) => Math.round(40 + 12 * wave(s, 40)),
  decisions: (s) => Math.round(40 + 12 * wave(s, 40)),
  "ttft.p50": (s) => 120 + 20 * wave(s, 30),
  "ttft.p90": (s) => 320 + 90 * wave(s, 25) + 30 * wave(s, 4),
  "ttft.p99": (s) => 700 + 250 * wave(s, 20) + 80 * wave(s, 5),
  "duration.p50": (s) => 1900 + 200 * wave(s, 30),
  "duration.p90": (s) => 3800 + 400 * wave(s, 25),
  "duration.p99": (s) => 6800 + 900 * wave(s, 20),
  "queued.p50": (s) => (s % 200 < 40 ? 40 : null),
  "queued.p90": (s) => (s % 200 < 40 ? 180 : null),
  "queued.p99": (s) => (s % 200 < 40 ? 400 : null),
  "tokens.prompt": (s) => 42_000 + 9000 * wave(s, 35),
  "tokens.output": (s) => 6200 + 1500 * wave(s, 35),
  "tokens.cached": (s) => 26_000 + 7000 * wave(s, 35),
  "prefix.predicted": (s) => 0.66 + 0.08 * wave(s, 50),
  "prefix.reported": (s) => 0.61 + 0.08 * wave(s, 50, 4),
  saturation: (s) => 0.55 + 0.3 * wave(s, 60),
  inFlight: (s) => Math.round(75 + 30 * wave(s, 40)),
  waiting: (s) => Math.max(0, Math.round(9 * wave(s, 60))),
  retries: () => 0,
  "endpoints.up": () => 3,
  "endpoints.blind": () => 0,
  "endpoints.down": () => 1,
  cpu: (s) => 0.21 + 0.06 * wave(s, 40),
  lag: (s) => 3 + 2 * wave(s, 7),
};
const DISPATCH: Readonly<Record<string, (second: number) => number | null>> = {
  "messages.success": (s) => Math.round(8 + 4 * wave(s, 30)),
  "messages.failed": () => 0,
  "messages.expired": () => 0,
  "messages.shed": () => 0,
  "messages.retried": (s) => (s % 40 === 0 ? 1 : 0),
  "latency.p50": (s) => 900 + 90 * wave(s, 30),
  "latency.p90": (s) => 1900 + 190 * wave(s, 30),
  "latency.p99": (s) => 2900 + 290 * wave(s, 30),
  inFlight: (s) => Math.round(14 + 6 * wave(s, 50)),
  backlog: (s) => Math.round(400 + 90 * wave(s, 120)),
  oldest: (s) => 90 + 40 * wave(s, 90),
  eta: (s) => 50 + 10 * wave(s, 90),
  "budget.D": (s) => 0.45 + 0.25 * wave(s, 50),
  "budget.B": () => 0.35,
  "budget.N": (s) => Math.max(0, 64 * (0.1 + 0.25 * wave(s, 50))),
  gate: (s) => (wave(s, 50) > -0.4 ? 1 : 0),
  cpu: () => 0.05,
  lag: () => 2,
};

export function figuresOf(kind: FeedKind, second: number): Partial<Record<FigureName, number | null>> {
  return Object.fromEntries(
    Object.entries(kind === "dispatch" ? DISPATCH : ROUTING).map(([name, of]) => [name, of(second)]),
  );
}

export function totalsOf(): Totals {
  return {
    requests: { answered: 148_221, refused: 312, "server-error": 41 },
    tokens: { prompt: 151_000_123, output: 22_000_456, cached: 93_000_789 },
    routed: 148_262,
  };
}

const EVENTS: readonly Pick<EventEntry, "kind" | "subject" | "text">[] = [
  { kind: "process-started", subject: "", text: "The process started." },
  { kind: "endpoint-up", subject: "default/server-1", text: "default/server-1 is up." },
  { kind: "config-changed", subject: "config.yaml", text: "config.yaml changed: queue-scorer weight 2 → 3." },
  {
    kind: "endpoint-down",
    subject: "default/server-3",
    text: "default/server-3 is down: connect ECONNREFUSED 127.0.0.1:8003.",
  },
  { kind: "endpoint-up", subject: "default/server-3", text: "default/server-3 is up again after 42 s." },
  { kind: "gate-closed", subject: "batch", text: "The gate of batch closed: D 0.31 is not above B 0.35." },
];

export function overviewOf(kind: FeedKind, seconds: number): Overview {
  const end = Math.floor(now() / 1000) - 1;
  const from = end - seconds + 1;
  const names = Object.keys(kind === "dispatch" ? DISPATCH : ROUTING);
  const each = Array.from({ length: seconds }, (_, at) => figuresOf(kind, from + at) as Record<string, number | null>);
  const window = {
    seconds,
    requestsPerSecond: { answered: 41.2, refused: 0.4, "server-error": 0.1 },
    ttftMs: { p50: 121, p90: 330, p99: 702 },
    durationMs: { p50: 1920, p90: 3820, p99: 6790 },
    queuedMs: { p50: null, p90: null, p99: null },
    promptTokensPerSecond: 42_100,
    outputTokensPerSecond: 6210,
    predictedHitRate: 0.66,
    reportedHitRate: 0.612,
    errors: [
      { outcome: "refused", cause: "saturated", count: 21 },
      { outcome: "server-error", cause: "status 500", count: 6 },
      { outcome: "refused", cause: "limit-reached", count: 3 },
    ],
  } as const;
  return {
    ...{ from, step: 1, count: seconds, lastEventId: "1" },
    figures: Object.fromEntries(names.map((name) => [name, each.map((of) => of[name] ?? null)])),
    windows: { minute: { ...window, seconds: 60 }, all: window },
    totals: totalsOf(),
    events: EVENTS.map((event, at) => ({ ...event, number: at + 1, at: (end - 280 + at * 50) * 1000, times: 1 })),
  };
}

export function endpointOf(at: number): EndpointStatics {
  const state = at % 4 === 2 ? "down" : at % 29 === 28 ? "blind" : "up";
  return {
    ...{ id: `default/server-${at + 1}`, hostPort: `10.0.${at >> 8}.${at & 255}:8000`, scheme: "http", rank: 0, state },
    labels: { tier: at % 3 === 0 ? "gold" : "silver", zone: `zone-${at % 5}` },
    since: now() - 60_000 * (at + 3),
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
    ...{ at: now(), endpoint: endpointOf(at), columns: columnsOf(1, Math.floor(now() / 1000), at), earlier: 0 },
    timeline: [
      { at: now() - 900_000, state: "up", cause: "it answers" },
      { at: now() - 400_000, state: "down", cause: "connect ECONNREFUSED" },
      { at: now() - 340_000, state: "up", cause: "it answers again" },
    ],
    spark: {
      ...{ from: Math.floor(now() / 1000) - 900, step: 15 },
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

export function decisionRowOf(sequence: number): DecisionRow {
  const isRefused = sequence % 17 === 0;
  const isRunning = sequence % 11 === 0;
  return {
    ...{
      sequence,
      requestId: `req-${sequence}-7f3a9c1e`,
      at: now() - (100 - Math.min(100, sequence)) * 300,
      model: "llama-3.1-8b",
    },
    ...{ targetModel: "llama-3.1-8b", priority: 0, key: sequence % 3 === 0 ? "team-a" : null },
    ...{
      endpoint: isRefused ? null : `default/server-${(sequence % 2) + 1}`,
      served: null,
      refused: isRefused ? "saturated" : null,
    },
    why: isRefused
      ? "The pool is full and the priority is sheddable."
      : "It has the longest cached prefix (1,024 of 1,310 tokens), and its queue is short.",
    ...{
      total: isRefused ? null : 6.42,
      runnerUp: isRefused ? null : { id: "default/server-4", total: 5.9 },
      candidates: 3,
    },
    ...{ waitedMs: sequence % 5 === 0 ? 84 : 0, full: true },
    journey: {
      outcome: isRefused ? "refused" : isRunning ? "running" : "answered",
      status: isRefused ? 429 : isRunning ? null : 200,
      ...{ ttftMs: isRefused ? null : 118, durationMs: isRefused || isRunning ? null : 1900 },
      ...{ promptTokens: 1310, cachedTokens: 1024, outputTokens: 180, attempts: 1 },
    },
  };
}

const SCORERS = [
  { name: "queue-scorer", weight: 2 },
  { name: "kv-cache-utilization-scorer", weight: 2 },
  { name: "prefix-cache-scorer", weight: 3 },
  { name: "active-request-scorer", weight: 2 },
];
const SCORES = [
  [0.9, 0.42, 0.78, 0.7],
  [1, 0.61, 0.1, 0.8],
  [0.4, 0.3, 0.05, 0.5],
];

export function decisionDetailOf(sequence: number): DecisionDetail {
  const row = decisionRowOf(sequence);
  const candidates = SCORES.map((scores, at) => ({
    ...{ place: at + 1, id: `default/server-${[1, 2, 4][at]}`, hostPort: `10.0.0.${at}:8000`, state: "up" },
    total: scores.reduce((sum, score, of) => sum + score * SCORERS[of]!.weight, 0),
    scores: scores.map((score, of) => ({
      scorer: SCORERS[of]!.name,
      weight: SCORERS[of]!.weight,
      score,
      points: score * SCORERS[of]!.weight,
      text: "",
    })),
    ...{
      waiting: at,
      running: 12 + at,
      kvUsage: 0.58 - at / 10,
      inFlight: 11 + at,
      ageMs: 22,
      stale: false,
      age: "metrics 22 ms old",
    },
  }));
  return {
    row: { ...row, full: false },
    explanation: {
      ...{
        sequence,
        requestId: row.requestId,
        at: new Date(row.at).toISOString(),
        model: row.model,
        targetModel: row.model,
      },
      ...{ priority: 0, promptBytes: 5240, configHash: "3f9ac2b1d004", profile: "default", picker: "max-score-picker" },
      ...{ sentence: row.why, reason: row.why, queued: null, candidateCount: 6, tied: 1, others: [], full: false },
      refusal: row.refused === null ? null : { reason: "saturated", status: 429, detail: "the pool is full" },
      filters: [
        {
          name: "label-selector-filter",
          dropped: 3,
          ids: ["default/server-3", "default/server-5", "default/server-6"],
          text: "",
        },
      ],
      notes: ["Before the filters, Sluice left out 1 more endpoint that is down."],
      candidates: row.refused === null ? candidates : [],
    } as DecisionDetail["explanation"],
    record: {},
    journey: {
      ...row.journey,
      ...{ requestId: row.requestId, receivedAt: row.at - 90, streaming: true },
      steps: [
        { kind: "received", ms: 0, endpoint: null, text: "headers of a streaming request" },
        { kind: "queued", ms: 1.2, endpoint: null, text: "flow team-a of band 0, behind 4 requests" },
        { kind: "left-queue", ms: 85, endpoint: null, text: "saturation 0.94 was below the ceiling 1" },
        { kind: "decided", ms: 85.4, endpoint: "default/server-1", text: "of 3 candidates" },
        { kind: "attempt", ms: 86, endpoint: "default/server-1", text: "connected" },
        { kind: "first-token", ms: 203, endpoint: "default/server-1", text: "" },
        { kind: "end", ms: 1985, endpoint: null, text: "answered with 200, 180 output tokens" },
      ],
    },
    configInForce: true,
  };
}

export function flowQueuesOf(): FlowControlFeed {
  return {
    ...{
      kind: "flow-control",
      at: now(),
      requests: 12,
      bytes: 71_000,
      maxRequests: null,
      maxBytes: 1 << 30,
      saturation: 0.97,
    },
    ...{ expected: 1.02, stages: {}, problem: null, leftPerSecond: 38.2, refusedPerSecond: 0.4 },
    bands: [
      {
        ...{
          priority: 10,
          requests: 2,
          bytes: 9000,
          maxRequests: null,
          maxBytes: 1 << 28,
          ceiling: 1.2,
          open: true,
          heldBy: null,
          flowCount: 1,
        },
        flows: [{ fairnessId: "team-a", requests: 2, headWaitMs: 12 }],
      },
      {
        ...{
          priority: 0,
          requests: 10,
          bytes: 62_000,
          maxRequests: null,
          maxBytes: 1 << 28,
          ceiling: 1,
          open: false,
          flowCount: 2,
        },
        heldBy: "The expected saturation of 1.02 is not below its ceiling of 1.",
        flows: [
          { fairnessId: "team-b", requests: 7, headWaitMs: 410 },
          { fairnessId: "team-c", requests: 3, headWaitMs: 90 },
        ],
      },
    ],
  };
}

export function dispatchQueuesOf(): DispatchFeed {
  return {
    ...{ kind: "dispatch", at: now(), claims: 18, unwritten: 0 },
    capacities: [
      {
        ...{
          capacity: "saturation of http://prometheus:9090",
          state: "closed",
          because: "D 0.292 is not above B 0.35, with 17 of our own running",
        },
        ...{ D: 0.292, B: 0.35, maxSys: 64, unit: "requests", N: 0, own: 17, moreMayStart: 0, sampleAgeSeconds: 1.2 },
        timeline: [
          { at: now() - 600_000, state: "open", because: "D 0.6 is above B 0.35" },
          { at: now() - 120_000, state: "closed", because: "D 0.292 is not above B 0.35" },
        ],
      },
    ],
    queues: [
      {
        ...{
          queue: "batch",
          pool: "default",
          gate: "saturation",
          state: "held",
          because: "the gate is closed",
          heldByGate: 3,
          capacities: ["c"],
        },
        ...{
          waiting: 412,
          claimed: 18,
          retries: 2,
          dead: 0,
          oldestAgeSeconds: 310,
          endedPerSecond: 8.2,
          etaSeconds: 52,
          ended: 1205,
        },
        ...{ nextDeadline: Math.floor(now() / 1000) + 900, makesIt: true },
      },
    ],
    pools: [{ pool: "default", gate: "none", workers: 32, running: 17 }],
  };
}

export function configOf(kind: FeedKind): ConfigFeed {
  return {
    ...{
      kind,
      version: "0.1.0",
      node: "26.10.0",
      startedAt: now() - 3_700_000,
      pid: 4242,
      args: ["gateway", "--config", "gateway.yaml"],
    },
    settings: [
      { name: "admin", value: '"127.0.0.1:9090"', source: "default", place: null, change: null },
      { name: "listen", value: '"0.0.0.0:8080"', source: "file", place: "gateway.yaml:3:9", change: "restart" },
      { name: "limits", value: '"limits.yaml"', source: "flag", place: "--limits", change: null },
    ],
    picker: {
      ...{
        hash: "3f9ac2b1d004",
        origin: "config.yaml",
        text: "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n",
        since: now() - 600_000,
      },
      plugins: SCORERS.map(({ name }) => ({ name, type: name, parameters: "{}" })),
      profiles: [{ name: "default", filters: ["label-selector-filter"], scorers: SCORERS, picker: "max-score-picker" }],
      flowControl: true,
    },
    warnings: ["queue-scorer: the parameter threshold is deprecated."],
    reloads: [
      {
        at: now() - 600_000,
        what: "config.yaml",
        result: "applied",
        problems: "",
        difference: ["- queue-scorer weight: 2", "+ queue-scorer weight: 3"],
      },
    ],
    links: [
      { text: "metrics", href: "metrics" },
      { text: "docs", href: "https://example.com/" },
    ],
  };
}

export function demoStateOf(): DemoState {
  return {
    ...{ at: now(), ready: true, because: "" },
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

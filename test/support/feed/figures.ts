/** Made-up figures of the overview, in the shapes of src/wires/admin/feed/. The same second always gives the same figures. */
import type { FeedKind } from "../../../src/wires/admin/feed/feed.ts";
import type { EventEntry, FigureName, Overview, Totals } from "../../../src/wires/admin/feed/overview.ts";
import { wave } from "./wave.ts";

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
  broker: () => 1,
  gate: (s) => (wave(s, 50) > -0.4 ? 1 : 0),
  cpu: () => 0.05,
  lag: () => 2,
};

export function figuresOf(kind: FeedKind, second: number): Partial<Record<FigureName, number | null>> {
  return Object.fromEntries(
    Object.entries(kind === "gateway" || kind === "epp" ? ROUTING : DISPATCH).map(([name, of]) => [name, of(second)]),
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
  const end = Math.floor(Date.now() / 1000) - 1;
  const from = end - seconds + 1;
  const names = Object.keys(kind === "gateway" || kind === "epp" ? ROUTING : DISPATCH);
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

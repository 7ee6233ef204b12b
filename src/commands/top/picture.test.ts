import { expect, it } from "vitest";
import { dispatchQueuesOf } from "../../../test/support/feed/queues.ts";
import type { EndpointsFeed } from "../../wires/admin/feed/endpoints.ts";
import type { Overview, WindowFigures } from "../../wires/admin/feed/overview.ts";
import type { Look } from "./look.ts";
import { pictureOf, summaryOf } from "./picture.ts";

const MINUTE: WindowFigures = {
  seconds: 60,
  requestsPerSecond: { answered: 123.4, refused: 0.5, cancelled: 0 },
  ttftMs: { p50: 22.4, p90: 80, p99: 12_000 },
  durationMs: { p50: 200, p90: 400, p99: 900 },
  queuedMs: { p50: null, p90: null, p99: null },
  ...{ promptTokensPerSecond: 4000, outputTokensPerSecond: 12.34, predictedHitRate: 0.714, reportedHitRate: null },
  errors: [{ outcome: "refused", cause: "bad_request", count: 30 }],
};

const OVERVIEW: Overview = {
  ...{ from: 1, step: 1, count: 2, lastEventId: "" },
  figures: { inFlight: [3, 7], saturation: [0.1, 0.256], waiting: [null, null], cpu: [0.1, 0.052] },
  windows: { minute: MINUTE, all: MINUTE },
  totals: { requests: {}, tokens: { prompt: 0, output: 0, cached: 0 }, routed: 0 },
  events: [{ number: 1, at: 60_000, kind: "endpoint-down", subject: "n/a", text: "n/a is down", times: 3 }],
};

/** A pool of `count` endpoints, the last one the busiest. */
function pool(count: number): EndpointsFeed {
  const all = Array.from({ length: count }, (_, n) => n);
  const column = (of: (n: number) => number) => all.map(of);
  return {
    ...{ at: 0, total: count, matched: count, labels: {}, states: { up: count, blind: 0, down: 0 } },
    leftOut: { seconds: 0, decisions: 0, reasons: [] },
    endpoints: all.map((n) => ({ id: `n/e${n}`, state: "up" })) as never,
    columns: {
      waiting: column(() => 0),
      running: all.map(() => null),
      kvUsage: column(() => 0.5),
      ageMs: column(() => 12),
      fresh: all.map(() => 1),
      inFlight: column((n) => n),
      inFlightTokens: column(() => 0),
      requests: column(() => 0),
      share: column(() => 1 / count),
      failures: column(() => 0),
      tokensPerSecond: column(() => 10),
      tpotMs: column(() => 10),
      ttftMs: column(() => 30),
      nextScrapeMs: column(() => 1),
    },
  };
}

function lookWith(endpoints: EndpointsFeed): Look {
  return {
    hello: {
      ...{ feed: 1, kind: "gateway", name: "gateway", version: "1.2.3", startedAt: 0, at: 90_000, instance: "1-1" },
      ...{
        phase: "serving",
        unready: null,
        topics: [],
        history: false,
        demo: false,
        replicas: false,
        limits: false,
        batches: false,
      },
      ...{ rings: { seconds: 900, events: 512, decisions: 4096, bytes: 0 }, readers: { open: 0, most: 32 } },
    },
    overview: OVERVIEW,
    endpoints,
    queues: { kind: "off", at: 0, text: "" },
  };
}

it("shows the figures with their units, and unknown ones as -", () => {
  const text = pictureOf(lookWith(pool(2)), 40).join("\n");
  expect(text).toContain("sluice gateway 1.2.3, serving, up 90 s, at 00:01:30 UTC");
  expect(text).toContain("requests/s   answered 123, refused 0.5\n");
  expect(text).toContain("in flight 7, waiting -, saturation 0.26, process 5 % of a core");
  expect(text).toContain("prefix hits  predicted 71 %, reported -");
  expect(text).toContain("errors       bad_request 30");
  expect(text).toMatch(/TTFT +22 ms +80 ms +12 s/);
  expect(text).toMatch(/n\/e1 +up +- +0 +50 % +1 +50 % +10 +30 ms +12 ms/);
  expect(text).toContain("00:01:00  n/a is down (and 2 more)");
});

it("fits the terminal: the busiest endpoints, and how many more there are", () => {
  const lines = pictureOf(lookWith(pool(1000)), 30);
  expect(lines.length).toBeLessThanOrEqual(30);
  const names = lines.filter((line) => line.startsWith("n/e")).map((line) => line.split(" ")[0]);
  expect(names[0]).toBe("n/e999");
  expect(lines).toContain(`and ${1000 - names.length} more`);
});

it("has one line for output that cannot be redrawn", () => {
  expect(summaryOf(lookWith(pool(3)))).toBe(
    "00:01:30 124 requests/s, TTFT p50 22 ms p90 80 ms, in flight 7, saturation 0.26, endpoints 3 up 0 blind 0 down",
  );
});

it("says in that line that the broker of a dispatcher is away", () => {
  const queues = { ...dispatchQueuesOf(), brokerProblem: "connect ECONNREFUSED" };
  expect(summaryOf({ ...lookWith(pool(0)), queues })).toMatch(
    /, the store of the queues does not answer: connect ECONNREFUSED$/,
  );
  expect(summaryOf({ ...lookWith(pool(0)), queues: dispatchQueuesOf() })).not.toContain("away");
});

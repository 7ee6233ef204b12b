import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { UNKNOWN_METRICS } from "../../base/inference/endpoint.ts";
import { EndpointRegistry } from "./registry.ts";
import { statedModels } from "./served-models.ts";
import { EndpointsView } from "./view.ts";

function setUp() {
  const clock = new VirtualClock(Date.UTC(2026, 0, 1));
  const registry = new EndpointRegistry({ clock, random: new SeededRandom(1), maxEndpoints: 16 });
  for (const name of ["c", "a", "b"])
    registry.upsert({ namespace: "default", name, address: `h-${name}`, port: 80, rank: 0, labels: { zone: name } });
  return { clock, registry, view: new EndpointsView(registry, clock) };
}

describe("EndpointsView", () => {
  it("shows endpoints by id with totals, capped where asked", () => {
    const { view } = setUp();
    expect(view.pool().endpoints.map((row) => row.id)).toEqual(["default/a", "default/b", "default/c"]);
    const capped = view.pool(2);
    expect(capped.endpoints).toHaveLength(2);
    expect(capped).toMatchObject({ totalEndpoints: 3, maxEndpoints: 16 });
  });

  it("shows what is known of an endpoint and survives JSON", () => {
    const { clock, registry, view } = setUp();
    const a = registry.get("default/a")!;
    clock.advance(1000);
    a.metrics = { ...UNKNOWN_METRICS, waiting: 3, kvUsage: 0.25, loraRunning: new Set(["sql"]), scrapedAt: 900 };
    a.nextScrapeAt = 1040;
    registry.inFlight.open(a, 12);
    const row = JSON.parse(JSON.stringify(view.pool())).endpoints[0];
    expect(row).toEqual({
      id: "default/a",
      hostPort: "h-a:80",
      scheme: "http",
      rank: 0,
      labels: { zone: "a" },
      state: "up",
      since: "2026-01-01T00:00:00.000Z",
      sinceMs: 1000,
      cause: "not scraped yet",
      metrics: {
        waiting: 3,
        running: null,
        kvUsage: 0.25,
        capacity: null,
        maxLora: null,
        loraRunning: ["sql"],
        loraWaiting: [],
        blockSize: null,
        blocks: null,
        ageMs: 100,
        fresh: true,
      },
      models: null,
      inFlight: { requests: 1, tokens: 12 },
      scrapeIntervalMs: 50,
      nextScrapeInMs: 40,
    });
  });

  it("shows where models come from, how many they are, and 32 of them", () => {
    const { registry, view } = setUp();
    const names = Array.from({ length: 40 }, (_, i) => `m${i}`);
    const shownFor = (models: readonly string[]) => {
      registry.upsert({ ...registry.get("default/a")!, models: statedModels(models) });
      return view.pool().endpoints[0]!.models;
    };
    expect(shownFor(names)).toEqual({ source: "file", names: names.slice(0, 32), count: 40 });
    expect(shownFor(["*"])).toEqual({ source: "file", names: ["*"], count: 1 });
  });

  it("aggregates over endpoints whose scrapes succeed: sample deviation, two decimals, unknown values left out", () => {
    const { clock, registry, view } = setUp();
    const none = view.aggregates();
    expect(none).toMatchObject({ ready: 0, stdDevWaiting: 0, states: { up: 3, blind: 0, down: 0 } });
    expect(none.meanWaiting).toBeNaN();
    const [c, a, b] = registry.list();
    clock.advance(5000);
    c!.metrics = { ...UNKNOWN_METRICS, waiting: 1, running: 10, kvUsage: 0.333333, scrapedAt: 4900 };
    a!.metrics = { ...UNKNOWN_METRICS, waiting: 2, running: 14, scrapedAt: 4900 };
    b!.metrics = { ...UNKNOWN_METRICS, waiting: 100, scrapedAt: 1000 };
    expect(view.aggregates()).toEqual({
      ready: 2,
      meanWaiting: 1.5,
      stdDevWaiting: 0.71,
      meanRunning: 12,
      stdDevRunning: 2.83,
      meanKvUsage: 0.33,
      stdDevKvUsage: 0,
      states: { up: 3, blind: 0, down: 0 },
    });
    registry.attemptFailed(a!, "connect", "refused");
    expect(view.aggregates()).toMatchObject({ ready: 1, meanWaiting: 1, states: { up: 2, blind: 0, down: 1 } });
  });

  it("leaves an endpoint out of means and ready count once its metrics are older than 2 s, or 2.5 intervals (S-95)", () => {
    const { clock, registry, view } = setUp();
    clock.advance(10_000);
    const [busy, idle] = registry.list();
    for (const [endpoint, waiting, interval] of [
      [busy!, 1, 50],
      [idle!, 3, 1000],
    ] as const) {
      endpoint.metrics = { ...UNKNOWN_METRICS, waiting, scrapedAt: clock.now() };
      endpoint.scrapeInterval = interval;
    }
    const shown = () => {
      const { ready, meanWaiting, stdDevWaiting } = view.aggregates();
      return [ready, meanWaiting, stdDevWaiting];
    };
    clock.advance(2000);
    expect(shown()).toEqual([2, 2, 1.41]);
    clock.advance(1);
    expect(shown()).toEqual([1, 3, 0]);
    clock.advance(499);
    expect(shown()[0]).toBe(1);
    clock.advance(1);
    expect(shown()[0]).toBe(0);
  });
});

import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { type EndpointMetrics, isFresh, UNKNOWN_METRICS } from "../../base/inference/endpoint.ts";
import { Collector, type CollectorOptions } from "./collector.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";
import { EndpointRegistry } from "./registry.ts";
import type { RunningScrape, ScrapeResult, Scraper } from "./scraper.ts";
import { EndpointsView } from "./view.ts";

/** How a fake server behaves: an answer after `ms`, or none. */
type Behaviour = { readonly ms: number; readonly result: (now: number) => ScrapeResult } | "silent";

function page(values: Partial<EndpointMetrics> = {}): (now: number) => ScrapeResult {
  return (now) => ({
    kind: "read",
    partial: false,
    metrics: { ...UNKNOWN_METRICS, waiting: 1, running: 2, kvUsage: 0.5, ...values, scrapedAt: now },
  });
}

const GOOD: Behaviour = { ms: 5, result: page() };
const REFUSED: Behaviour = {
  ms: 1,
  result: () => ({ kind: "unreachable", failure: "connect", detail: "ECONNREFUSED" }),
};
const ERROR_500: Behaviour = { ms: 2, result: () => ({ kind: "unreadable", detail: "HTTP 500", polled: false }) };
const GARBAGE: Behaviour = { ms: 2, result: () => ({ kind: "unreadable", detail: "no value", polled: true }) };

class FakeScraper implements Scraper {
  readonly clock: VirtualClock;
  readonly behaviour = new Map<string, Behaviour>();
  readonly starts = new Map<string, number[]>();
  readonly forgotten: string[] = [];
  active = 0;
  peak = 0;
  overlapped = false;
  readonly #running = new Set<string>();

  constructor(clock: VirtualClock) {
    this.clock = clock;
  }

  scrape(endpoint: PoolEndpoint, done: (result: ScrapeResult) => void): RunningScrape {
    const { id } = endpoint;
    if (this.#running.has(id)) this.overlapped = true;
    this.#running.add(id);
    this.peak = Math.max(this.peak, ++this.active);
    this.startsOf(endpoint).push(this.clock.now());
    const behaviour = this.behaviour.get(id) ?? GOOD;
    const over = (): void => {
      this.#running.delete(id);
      this.active--;
    };
    const expire = (detail: string): ScrapeResult => {
      over();
      return { kind: "unreachable", failure: "timeout", detail };
    };
    if (behaviour === "silent") return { cancel: over, expire };
    const timer = this.clock.after(behaviour.ms, () => {
      over();
      done(behaviour.result(this.clock.now()));
    });
    return {
      cancel: () => {
        timer.cancel();
        over();
      },
      expire(detail) {
        timer.cancel();
        return expire(detail);
      },
    };
  }

  startsOf(endpoint: PoolEndpoint): number[] {
    const starts = this.starts.get(endpoint.id) ?? [];
    this.starts.set(endpoint.id, starts);
    return starts;
  }

  forget(endpoint: PoolEndpoint): void {
    this.forgotten.push(endpoint.id);
  }

  async close(): Promise<void> {}
}

function setUp(count: number, options: Partial<CollectorOptions> = {}) {
  const clock = new VirtualClock();
  const registry = new EndpointRegistry({ clock, random: new SeededRandom(7) });
  const scraper = new FakeScraper(clock);
  const counted = { poll: 0, extract: 0 };
  const metrics = { pollFailed: () => void counted.poll++, extractFailed: () => void counted.extract++ };
  const random = new SeededRandom(8);
  const collector = new Collector({ clock, random, registry, scraper, metrics, ...options });
  const endpoints = Array.from({ length: count }, (_, i) => {
    const spec = { namespace: "default", name: `e${i}`, address: `10.0.0.${i}`, port: 8000, rank: 0, labels: {} };
    return registry.upsert(spec)!;
  });
  collector.start();
  return { clock, registry, scraper, collector, endpoints, counted, first: endpoints[0]! };
}

function since(starts: readonly number[], from: number): number {
  return starts.filter((at) => at >= from).length;
}

describe("Collector cadence", () => {
  it("scrapes a busy endpoint every 50 ms: at least 90 times in 5 s (S-5)", () => {
    const { clock, registry, scraper, first } = setUp(1);
    registry.inFlight.open(first, 0);
    clock.advance(5000);
    expect(scraper.startsOf(first).length).toBeGreaterThanOrEqual(90);
    expect(scraper.startsOf(first).length).toBeLessThanOrEqual(101);
    expect(first.scrapeInterval).toBe(50);
  });

  it("raises an interval below 50 ms to 50 ms (S-5)", () => {
    const { clock, scraper, first } = setUp(1, { interval: 10, fixed: true });
    clock.advance(5000);
    expect(scraper.startsOf(first).length).toBeGreaterThanOrEqual(90);
    expect(scraper.startsOf(first).length).toBeLessThanOrEqual(101);
  });

  it("slows down to one scrape a second while idle, and never looks stale in between", () => {
    const { clock, scraper, first } = setUp(1);
    clock.advance(100);
    for (let i = 0; i < 20_000; i += 50) {
      clock.advance(50);
      expect(isFresh(first, clock.now(), 200)).toBe(true);
    }
    const lastTen = since(scraper.startsOf(first), 10_000);
    expect(lastTen).toBeGreaterThanOrEqual(9);
    expect(lastTen).toBeLessThanOrEqual(12);
    expect(first.scrapeInterval).toBeLessThanOrEqual(1000);
  });

  it("scrapes at once when an idle endpoint gets its first request, and stays fresh through the change", () => {
    const { clock, registry, scraper, first } = setUp(1);
    clock.advance(10_250);
    const { length } = scraper.startsOf(first);
    const ticket = registry.inFlight.open(first, 0);
    expect(isFresh(first, clock.now(), 200)).toBe(true);
    clock.advance(1);
    expect(scraper.startsOf(first).length).toBe(length + 1);
    clock.advance(999);
    expect(scraper.startsOf(first).length).toBeGreaterThanOrEqual(length + 19);
    ticket.release();
    const released = clock.now();
    clock.advance(1000);
    expect(since(scraper.startsOf(first), released)).toBeGreaterThanOrEqual(19);
    clock.advance(10_000);
    expect(since(scraper.startsOf(first), clock.now() - 5000)).toBeLessThanOrEqual(6);
  });

  it("keeps a fixed cadence, busy or not", () => {
    const { clock, registry, scraper, first } = setUp(1, { interval: 300, fixed: true });
    clock.advance(6000);
    const idle = scraper.startsOf(first).length;
    expect(idle).toBeGreaterThanOrEqual(19);
    registry.inFlight.open(first, 0);
    clock.advance(6000);
    expect(scraper.startsOf(first).length - idle).toBeLessThanOrEqual(21);
    expect(first.scrapeInterval).toBe(300);
  });

  it("never overlaps the scrapes of one endpoint, and a slow page is not stale", () => {
    const { clock, registry, scraper, first } = setUp(1);
    scraper.behaviour.set(first.id, { ms: 320, result: page() });
    registry.inFlight.open(first, 0);
    clock.advance(1000);
    for (let i = 0; i < 100; i++) {
      clock.advance(37);
      expect(isFresh(first, clock.now(), 200)).toBe(true);
    }
    expect(scraper.overlapped).toBe(false);
    expect(first.scrapeInterval).toBe(350);
  });

  it("spreads the starts of endpoints that came together over one interval", () => {
    const { clock, scraper, endpoints } = setUp(50);
    clock.advance(60);
    const starts = new Set(endpoints.map((endpoint) => scraper.startsOf(endpoint)[0]));
    expect(starts.size).toBeGreaterThanOrEqual(5);
  });

  it("bounds the scrapes under way, and reaches everyone all the same", () => {
    const { clock, scraper, collector, endpoints } = setUp(200, { maxConcurrent: 8 });
    for (const endpoint of endpoints) scraper.behaviour.set(endpoint.id, { ms: 20, result: page() });
    clock.advance(200);
    expect(scraper.peak).toBe(8);
    clock.advance(2000);
    expect(endpoints.every((endpoint) => endpoint.metrics.waiting === 1)).toBe(true);
    expect(collector.active).toBeLessThanOrEqual(8);
    // 200 pages of 20 ms by eights take half a second: that is its cadence then, and nothing counts as stale.
    clock.advance(5000);
    expect(endpoints.every((endpoint) => isFresh(endpoint, clock.now(), 200))).toBe(true);
  });

  it("stretches the interval of many busy endpoints so that all together stay within the budget", () => {
    const { clock, registry, scraper, endpoints } = setUp(100, { maxPerSecond: 500 });
    for (const endpoint of endpoints) registry.inFlight.open(endpoint, 0);
    clock.advance(2000);
    const before = [...scraper.starts.values()].reduce((sum, starts) => sum + starts.length, 0);
    clock.advance(2000);
    const after = [...scraper.starts.values()].reduce((sum, starts) => sum + starts.length, 0);
    expect(after - before).toBeLessThanOrEqual(1100);
    expect(after - before).toBeGreaterThanOrEqual(900);
    expect(endpoints.every((endpoint) => isFresh(endpoint, clock.now(), 200))).toBe(true);
  });

  it("uses one timer for any number of waiting endpoints", () => {
    const { clock, endpoints } = setUp(500);
    expect(endpoints).toHaveLength(500);
    expect(clock.pending).toBe(1);
  });
});

describe("Collector results", () => {
  it("keeps values and their time over failures, and counts them (S-7, S-8)", () => {
    const { clock, scraper, first, counted } = setUp(1);
    clock.advance(100);
    scraper.behaviour.set(first.id, ERROR_500);
    // The scrape that was under way, if any.
    clock.advance(10);
    const { metrics } = first;
    expect(metrics.waiting).toBe(1);
    clock.advance(2000);
    expect(first).toMatchObject({ state: "blind", cause: "scrape: HTTP 500" });
    expect(first.metrics).toBe(metrics);
    expect(counted.poll).toBeGreaterThan(0);
    expect(counted.extract).toBe(0);
    scraper.behaviour.set(first.id, GOOD);
    clock.advance(2000);
    expect(first).toMatchObject({ state: "up", cause: "metrics page read" });
  });

  it("lets the values of a blind endpoint grow stale, however rarely it is scraped", () => {
    const { clock, scraper, first } = setUp(1);
    clock.advance(100);
    scraper.behaviour.set(first.id, GARBAGE);
    clock.advance(1000);
    for (let i = 0; i < 100; i++) {
      clock.advance(50);
      expect(isFresh(first, clock.now(), 200)).toBe(false);
    }
  });

  it("counts a page without a wanted value as an extract error, and stays up (S-9)", () => {
    const { clock, scraper, first, counted } = setUp(1);
    scraper.behaviour.set(first.id, {
      ms: 2,
      result: (now) => ({
        kind: "read",
        partial: true,
        metrics: { ...UNKNOWN_METRICS, waiting: 4, scrapedAt: now },
      }),
    });
    clock.advance(100);
    expect(first).toMatchObject({ state: "up" });
    expect(first.metrics.waiting).toBe(4);
    expect(counted.extract).toBeGreaterThan(0);
    expect(counted.poll).toBe(0);
  });

  it("gives a scrape one second, then takes what the scraper says of it, and keeps the values (S-7)", () => {
    const { clock, scraper, first, collector, counted } = setUp(1);
    clock.advance(100);
    scraper.behaviour.set(first.id, "silent");
    // The scrape that was under way, if any.
    clock.advance(10);
    const { metrics } = first;
    expect(metrics.waiting).toBe(1);
    for (let waited = 0; collector.active === 0 && waited < 1000; waited++) clock.advance(1);
    expect([collector.active, counted.poll]).toEqual([1, 0]);
    clock.advance(1000);
    expect(counted.poll).toBe(1);
    expect(first.metrics).toBe(metrics);
    expect(first).toMatchObject({
      state: "down",
      cause: "scrape timed out: no complete metrics page within 1000 ms",
    });
    expect([collector.active, scraper.active]).toEqual([0, 0]);
  });

  it("takes a page that lies in the socket when the time is up: this process stood still, not the server", () => {
    const { clock, scraper, first, counted } = setUp(1);
    clock.advance(100);
    // The time is up at the same moment, and its timer was armed first.
    scraper.behaviour.set(first.id, { ms: 1000, result: page({ waiting: 4 }) });
    clock.advance(5000);
    expect(first).toMatchObject({ state: "up", metrics: { waiting: 4 } });
    expect([counted.poll, scraper.overlapped]).toEqual([0, false]);
  });

  it("tries a down endpoint with growing waits and takes it back on the first answer", () => {
    const { clock, scraper, first } = setUp(1);
    scraper.behaviour.set(first.id, REFUSED);
    clock.advance(60_000);
    const starts = [...scraper.startsOf(first)];
    const waits = starts.slice(1).map((at, i) => at - starts[i]!);
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(250);
    expect(Math.max(...waits)).toBeLessThanOrEqual(5020);
    expect(starts.length).toBeLessThanOrEqual(30);
    scraper.behaviour.set(first.id, ERROR_500);
    clock.advance(5100);
    expect(first.state).toBe("blind");
    scraper.behaviour.set(first.id, GOOD);
    clock.advance(1100);
    expect(first.state).toBe("up");
  });

  it("leaves an endpoint alone that a request found dead, until its back-off is over", () => {
    const { clock, registry, scraper, first } = setUp(1);
    registry.inFlight.open(first, 0);
    clock.advance(520);
    registry.attemptFailed(first, "connect", "ECONNREFUSED");
    const { length } = scraper.startsOf(first);
    // One scrape may have been under way; none begins.
    clock.advance(249);
    if (first.state === "down") expect(scraper.startsOf(first).length).toBe(length);
    clock.advance(300);
    expect(first.state).toBe("up");
  });

  it("scrapes at once when a request was answered by a down endpoint", () => {
    const { clock, registry, scraper, first } = setUp(1);
    scraper.behaviour.set(first.id, REFUSED);
    clock.advance(20_000);
    scraper.behaviour.set(first.id, GOOD);
    const { length } = scraper.startsOf(first);
    registry.attemptSucceeded(first);
    clock.advance(1);
    expect(scraper.startsOf(first).length).toBe(length + 1);
  });

  it("stops scraping what leaves the pool, in whatever phase, and everything on close", async () => {
    const { clock, registry, scraper, collector, endpoints } = setUp(4, { maxConcurrent: 1 });
    for (const endpoint of endpoints) scraper.behaviour.set(endpoint.id, "silent");
    clock.advance(60);
    expect(scraper.active).toBe(1);
    // The one that runs, and one that waits for its place.
    for (const endpoint of endpoints.slice(0, 3)) registry.remove(endpoint.id);
    expect(scraper.forgotten).toHaveLength(3);
    clock.advance(60);
    expect(scraper.active).toBe(1);
    await collector.close();
    expect([scraper.active, collector.active]).toEqual([0, 0]);
    const total = [...scraper.starts.values()].reduce((sum, starts) => sum + starts.length, 0);
    registry.upsert(endpoints[0]!);
    clock.advance(10_000);
    expect([...scraper.starts.values()].reduce((sum, starts) => sum + starts.length, 0)).toBe(total);
  });
});

describe("five live and five dead endpoints", () => {
  it("offers only the live ones after the first scrape, says why, and takes the dead back when they return", () => {
    const { clock, registry, scraper, endpoints } = setUp(10);
    const dead = endpoints.slice(5);
    for (const endpoint of dead) scraper.behaviour.set(endpoint.id, REFUSED);
    // A request finds one of them dead before any scrape did.
    registry.attemptFailed(dead[0]!, "connect", "ECONNREFUSED 10.0.0.5:8000");
    expect(registry.candidates().endpoints).not.toContain(dead[0]);
    clock.advance(100);
    expect(registry.candidates()).toMatchObject({
      endpoints: endpoints.slice(0, 5),
      down: { length: 5 },
      poolSize: 10,
    });
    clock.advance(30_000);
    expect(registry.candidates().endpoints).toEqual(endpoints.slice(0, 5));
    const view = new EndpointsView(registry, clock);
    const shown = view.pool();
    expect(shown.states).toEqual({ up: 5, blind: 0, down: 5 });
    for (const row of shown.endpoints.slice(5)) {
      expect(row.state).toBe("down");
      expect(row.cause).toBe("scrape could not connect: ECONNREFUSED");
      expect(row.sinceMs).toBeGreaterThan(29_000);
      expect(row.nextScrapeInMs).toBeLessThanOrEqual(5000);
      expect(row.metrics).toMatchObject({ waiting: null, ageMs: null, fresh: false });
    }
    expect(view.aggregates()).toMatchObject({ ready: 5, meanWaiting: 1, meanKvUsage: 0.5, stdDevWaiting: 0 });
    for (const endpoint of dead) scraper.behaviour.set(endpoint.id, GOOD);
    clock.advance(5100);
    expect(registry.candidates()).toMatchObject({ down: [], poolSize: 10 });
    expect(registry.candidates().endpoints).toHaveLength(10);
    expect(view.aggregates().ready).toBe(10);
  });
});

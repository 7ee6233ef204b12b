import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { InFlightLoad } from "../../base/inference/endpoint.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import { Cadence, type CadenceOptions } from "./cadence.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";
import type { EndpointRegistry } from "./registry.ts";
import type { RunningScrape, ScrapeResult, Scraper } from "./scraper.ts";
import { NOWHERE, TimerWheel, type WheelEntry } from "./timer-wheel.ts";

/** The counters of failures (scheduling 8.5). */
interface CollectorMetrics {
  /** `datalayer_poll_errors_total`: no page with status 200 within the time. */
  pollFailed(): void;
  /** `datalayer_extract_errors_total`: a page on which a wanted value was missing or of the wrong type. */
  extractFailed(): void;
}

export interface CollectorOptions extends CadenceOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly registry: EndpointRegistry;
  readonly scraper: Scraper;
  readonly metrics?: CollectorMetrics;
  /** Called when metrics of an endpoint were read. */
  readonly onRead?: (endpoint: PoolEndpoint) => void;
  /** Milliseconds for one scrape; default 1,000 (scheduling 1.2). */
  readonly timeout?: number;
  /** Scrapes under way at once; default 64. */
  readonly maxConcurrent?: number;
}

/** One endpoint's place in the collector: waiting in the wheel, in the queue, or running (its timeout is in the wheel). */
class Target implements WheelEntry {
  due = 0;
  bucket = NOWHERE;
  place = 0;
  readonly endpoint: PoolEndpoint;
  readonly done: (result: ScrapeResult) => void;
  running: RunningScrape | undefined;
  /** What was unscraped when the running scrape began. */
  seen: InFlightLoad = { requests: 0, tokens: 0 };
  queued = false;
  /** When the scrape that waits or runs was meant to start, monotonic milliseconds. */
  plannedAt = 0;
  /** Adaptive distance, milliseconds. */
  interval: number;
  busy = false;

  constructor(endpoint: PoolEndpoint, interval: number, finish: (target: Target, result: ScrapeResult) => void) {
    this.endpoint = endpoint;
    this.interval = interval;
    this.done = (result) => finish(this, result);
  }
}

/**
 * Decides when each endpoint is scraped and applies the results. One timer wheel serves all endpoints. An endpoint has at most
 * one scrape under way, and the number of scrapes at once is bounded. A down endpoint is not scraped until its back-off is
 * over. After a failure the old values stay, with the time of their scrape.
 */
export class Collector {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #registry: EndpointRegistry;
  readonly #scraper: Scraper;
  readonly #metrics: CollectorMetrics | undefined;
  readonly #onRead: ((endpoint: PoolEndpoint) => void) | undefined;
  readonly #timeout: number;
  readonly #maxConcurrent: number;
  readonly #cadence: Cadence;
  readonly #wheel: TimerWheel<Target>;
  readonly #targets = new Map<PoolEndpoint, Target>();
  readonly #unsubscribe: (() => void)[] = [];
  #queue: Target[] = [];
  #queueHead = 0;
  #draining = false;
  #active = 0;
  #busy = 0;

  constructor(options: CollectorOptions) {
    this.#clock = options.clock;
    this.#random = options.random;
    this.#registry = options.registry;
    this.#scraper = options.scraper;
    this.#metrics = options.metrics;
    this.#onRead = options.onRead;
    this.#timeout = options.timeout ?? 1000;
    this.#maxConcurrent = options.maxConcurrent ?? 64;
    this.#cadence = new Cadence(options);
    this.#wheel = new TimerWheel(options.clock, (target) => this.#onDue(target));
  }

  /** Scrapes under way. */
  get active(): number {
    return this.#active;
  }

  /** Starts scraping the endpoints of the registry, now and as they come and go. Call once. */
  start(): void {
    const registry = this.#registry;
    for (const endpoint of registry.list()) this.#add(endpoint);
    this.#unsubscribe.push(
      registry.onAdded((endpoint) => this.#add(endpoint)),
      registry.onRemoved((endpoint) => this.#remove(endpoint)),
      registry.onFirstRequest((endpoint) => this.#wake(endpoint)),
      registry.onStateChanged((endpoint) => this.#onStateChanged(endpoint)),
    );
  }

  /** Stops for good: cancels running scrapes and closes the connections. */
  async close(): Promise<void> {
    for (const unsubscribe of this.#unsubscribe.splice(0)) unsubscribe();
    for (const endpoint of [...this.#targets.keys()]) this.#remove(endpoint);
    this.#wheel.clear();
    await this.#scraper.close();
  }

  #add(endpoint: PoolEndpoint): void {
    const target = new Target(endpoint, this.#cadence.base, (of, result) => this.#finish(of, result));
    this.#targets.set(endpoint, target);
    endpoint.scrapeInterval = this.#cadence.base;
    // Spread over one interval, so that endpoints that came together are not scraped in step.
    this.#plan(target, this.#clock.now() + this.#random.next() * this.#cadence.base);
  }

  #remove(endpoint: PoolEndpoint): void {
    const target = this.#targets.get(endpoint);
    if (target === undefined) return;
    this.#targets.delete(endpoint);
    this.#wheel.take(target);
    this.#setBusy(target, false);
    endpoint.nextScrapeAt = Number.NaN;
    if (target.running !== undefined) {
      target.running.cancel();
      target.running = undefined;
      this.#active--;
      this.#drainSoon();
    }
    this.#scraper.forget(endpoint);
  }

  #plan(target: Target, at: number): void {
    target.plannedAt = at;
    target.endpoint.nextScrapeAt = at;
    this.#wheel.put(target, at);
  }

  /** A request went to an endpoint that was idle. Its figures are about to change, and are up to an idle interval old. */
  #wake(endpoint: PoolEndpoint): void {
    const target = this.#targets.get(endpoint);
    if (target === undefined || !this.#cadence.adaptive || endpoint.state === "down") return;
    this.#setBusy(target, true);
    const waits = target.running === undefined && !target.queued;
    if (waits && target.due - this.#clock.now() > this.#cadence.base) this.#scrapeNow(target);
  }

  #onStateChanged(endpoint: PoolEndpoint): void {
    const target = this.#targets.get(endpoint);
    // A scrape that ends here plans the next one itself.
    if (target === undefined || target.running !== undefined || target.queued) return;
    if (endpoint.state === "down") this.#plan(target, endpoint.retryAt);
    else this.#scrapeNow(target);
  }

  /** Runs in the next turn of the event loop, because callers are in the middle of a decision. */
  #scrapeNow(target: Target): void {
    this.#wheel.take(target);
    target.plannedAt = this.#clock.now();
    target.endpoint.nextScrapeAt = target.plannedAt;
    this.#enqueue(target);
    this.#drainSoon();
  }

  #enqueue(target: Target): void {
    target.queued = true;
    this.#queue.push(target);
  }

  #drainSoon(): void {
    if (this.#draining) return;
    this.#draining = true;
    this.#clock.soon(() => {
      this.#draining = false;
      this.#drain();
    });
  }

  #drain(): void {
    while (this.#active < this.#maxConcurrent && this.#queueHead < this.#queue.length) {
      const target = this.#queue[this.#queueHead++]!;
      target.queued = false;
      if (!target.endpoint.removed) this.#launch(target);
    }
    if (this.#queueHead < this.#queue.length) return;
    this.#queue = [];
    this.#queueHead = 0;
  }

  #onDue(target: Target): void {
    const { running } = target;
    if (running !== undefined) {
      // Timers run before sockets are read. When this process paused for the whole time, the page is already in the socket and
      // counts. It is read before the next turn.
      this.#clock.soon(() => {
        if (target.running === running)
          this.#finish(target, running.expire(`no complete metrics page within ${this.#timeout} ms`));
      });
      return;
    }
    this.#enqueue(target);
    this.#drain();
  }

  #launch(target: Target): void {
    const { endpoint } = target;
    const now = this.#clock.now();
    // A request marked it down while this scrape waited for its turn.
    if (endpoint.state === "down" && now < endpoint.retryAt) {
      this.#plan(target, endpoint.retryAt);
      return;
    }
    this.#active++;
    this.#wheel.put(target, now + this.#timeout);
    const { requests, tokens } = endpoint.unscraped;
    target.seen = { requests, tokens };
    target.running = this.#scraper.scrape(endpoint, target.done);
  }

  #finish(target: Target, result: ScrapeResult): void {
    this.#apply(target, result);
    target.running = undefined;
    this.#active--;
    this.#planNext(target, result.kind === "read");
    this.#drain();
  }

  #apply({ endpoint, seen }: Target, result: ScrapeResult): void {
    const { states } = this.#registry;
    switch (result.kind) {
      case "read":
        endpoint.metrics = result.metrics;
        endpoint.unscraped.scraped(seen, result.metrics);
        this.#onRead?.(endpoint);
        if (result.partial) this.#metrics?.extractFailed();
        for (let i = result.pollFailures ?? 0; i > 0; i--) this.#metrics?.pollFailed();
        states.readable(endpoint);
        break;
      case "unreadable":
        if (result.polled) this.#metrics?.extractFailed();
        else this.#metrics?.pollFailed();
        states.unreadable(endpoint, result.detail);
        break;
      case "unreachable":
        this.#metrics?.pollFailed();
        states.unreachable(endpoint, result.failure, result.detail);
        break;
    }
  }

  #planNext(target: Target, succeeded: boolean): void {
    const { endpoint, plannedAt } = target;
    const now = this.#clock.now();
    this.#setBusy(target, this.#cadence.isBusy(endpoint, now));
    if (endpoint.state === "down") {
      target.interval = this.#cadence.base;
      this.#plan(target, endpoint.retryAt);
      return;
    }
    target.interval = this.#cadence.next(target.interval, target.busy, this.#busy, this.#random);
    const missed = Math.floor((now - plannedAt) / target.interval);
    const next = this.#cadence.batched(plannedAt + (missed + 1) * target.interval, target.interval);
    // The interval is measured from plan to plan. So it includes the wait for a free place and for slow pages, and such a delay
    // does not make metrics stale. After a failure the interval must not grow, or old values would become fresh again.
    const distance = next - plannedAt;
    endpoint.scrapeInterval = succeeded ? distance : Math.min(endpoint.scrapeInterval, distance);
    this.#plan(target, next);
  }

  #setBusy(target: Target, busy: boolean): void {
    if (target.busy === busy) return;
    target.busy = busy;
    this.#busy += busy ? 1 : -1;
  }
}

/** Type names of the published plugins that do the same work: label values of both counters (scheduling 8.5, S-8). */
const SOURCE = "metrics-data-source";
const EXTRACTOR = "core-metrics-extractor";

/** The collector's failures in the families of the published names. */
export function collectorMetrics(
  metrics: Pick<Metrics, "datalayerPollErrorsTotal" | "datalayerExtractErrorsTotal">,
): CollectorMetrics {
  const poll = metrics.datalayerPollErrorsTotal.with(SOURCE);
  const extract = metrics.datalayerExtractErrorsTotal.with(SOURCE, EXTRACTOR);
  return { pollFailed: () => poll.inc(), extractFailed: () => extract.inc() };
}

import { isFresh } from "../../../base/inference/endpoint.ts";
import type { InferenceCore } from "../../../picker/core/inference-core.ts";
import { STEP_SECONDS, STEPS, type WatchedStep } from "../../../picker/core/watch/endpoint-watch.ts";
import type { EndpointColumns, EndpointDetail, EndpointStatics, EndpointsFeed, Spark } from "../feed/endpoints.ts";
import { quantilesOf } from "./figures.ts";
import { leftOutOf } from "./left-out.ts";
import { shown } from "./process.ts";
import type { EndpointFilter, EndpointsSource } from "./source.ts";

type PoolEndpoint = ReturnType<InferenceCore["endpoints"]["list"]>[number];

const MAX_LABELS = 32;
const MAX_VALUES = 64;
const MAX_ADAPTERS = 64;

/** The endpoints of a gateway or picker. */
export class CoreEndpoints implements EndpointsSource {
  readonly #core: InferenceCore;
  #generation = 1;
  #order: readonly PoolEndpoint[] = [];
  #orderOf: readonly PoolEndpoint[] | undefined;

  constructor(core: InferenceCore) {
    this.#core = core;
    const changed = (): void => void this.#generation++;
    core.endpoints.onAdded(changed);
    core.endpoints.onRemoved(changed);
    core.endpoints.onStateChanged(changed);
    core.endpoints.onModelsChanged(changed);
  }

  generation(): number {
    // Labels change without an event; the list is then another one.
    if (this.#orderOf !== undefined && this.#orderOf !== this.#core.endpoints.list()) {
      this.#generation++;
      this.#sorted();
    }
    return this.#generation;
  }

  list(filter: EndpointFilter): EndpointsFeed {
    const { endpoints, clock, records } = this.#core;
    const all = this.#sorted();
    const matched = all.filter((endpoint) => matches(endpoint, filter));
    const chosen = matched.slice(0, filter.limit);
    const states = { up: 0, blind: 0, down: 0 };
    for (const { state } of all) states[state]++;
    return {
      at: clock.wall(),
      total: endpoints.size,
      matched: matched.length,
      states,
      endpoints: chosen.map((endpoint) => this.#statics(endpoint)),
      columns: this.#columns(chosen),
      labels: labelsOf(all),
      leftOut: leftOutOf(records, clock.wall()),
    };
  }

  one(id: string): EndpointDetail | undefined {
    const { endpoints, clock, records, watch } = this.#core;
    const endpoint = endpoints.get(id);
    if (endpoint === undefined) return undefined;
    const history = watch.endpoints.of(endpoint);
    return {
      at: clock.wall(),
      endpoint: this.#statics(endpoint),
      columns: this.#columns([endpoint]),
      timeline: history?.changes ?? [],
      earlier: history?.earlier ?? 0,
      spark: sparkOf(history?.steps() ?? [], (history?.lastFull ?? Math.floor(watch.second() / STEP_SECONDS) - 1) + 1),
      ttftMs: quantilesOf(history?.ttfts()),
      leftOut: leftOutOf(records, clock.wall(), id),
    };
  }

  loads(): EndpointColumns {
    return this.#columns(this.#sorted().slice(0, 1000));
  }

  /** The endpoints by id. The list is replaced on each change, so its order is kept until then. */
  #sorted(): readonly PoolEndpoint[] {
    const list = this.#core.endpoints.list();
    if (list !== this.#orderOf) {
      this.#orderOf = list;
      this.#order = [...list].sort((a, b) => (a.id < b.id ? -1 : 1));
    }
    return this.#order;
  }

  #statics(endpoint: PoolEndpoint): EndpointStatics {
    const { metrics, models, since, ...view } = this.#core.endpointsView.one(endpoint);
    return {
      id: view.id,
      hostPort: view.hostPort,
      scheme: view.scheme,
      rank: view.rank,
      labels: view.labels,
      state: view.state,
      since: Date.parse(since),
      cause: view.cause,
      models,
      adapters: {
        running: metrics.loraRunning.slice(0, MAX_ADAPTERS),
        waiting: metrics.loraWaiting.slice(0, MAX_ADAPTERS),
        most: metrics.maxLora,
      },
      blocks: metrics.blocks,
      blockSize: metrics.blockSize,
      capacity: metrics.capacity,
      scrapeIntervalMs: view.scrapeIntervalMs,
    };
  }

  #columns(list: readonly PoolEndpoint[]): EndpointColumns {
    const { clock, watch, endpointsView } = this.#core;
    const now = clock.now();
    const second = watch.second();
    const step = Math.floor(second / STEP_SECONDS);
    const recent = list.map((endpoint) => {
      const history = watch.endpoints.of(endpoint);
      history?.advance(step);
      return { history, figures: history?.recent(second) };
    });
    let routed = 0;
    for (const endpoint of this.#sorted()) routed += watch.endpoints.of(endpoint)?.recent(second).routed ?? 0;
    return {
      waiting: list.map(({ metrics }) => shown(metrics.waiting)),
      running: list.map(({ metrics }) => shown(metrics.running)),
      kvUsage: list.map(({ metrics }) => shown(metrics.kvUsage)),
      ageMs: list.map(({ metrics }) => rounded(now - metrics.scrapedAt)),
      fresh: list.map((endpoint) => (isFresh(endpoint, now, endpointsView.staleness) ? 1 : 0)),
      inFlight: list.map(({ inFlight }) => inFlight.requests),
      inFlightTokens: list.map(({ inFlight }) => Math.round(inFlight.tokens)),
      requests: recent.map(({ history }) => history?.requests ?? 0),
      share: recent.map(({ figures }) =>
        figures === undefined || routed === 0 ? null : shown(figures.routed / routed),
      ),
      failures: recent.map(({ history }) => history?.failures ?? 0),
      tokensPerSecond: recent.map(({ figures }) => shown(figures?.tokensPerSecond ?? Number.NaN)),
      tpotMs: recent.map(({ figures }) => shown(figures?.tpotMs ?? Number.NaN)),
      ttftMs: recent.map(({ figures }) => shown(figures?.ttftMs ?? Number.NaN)),
      nextScrapeMs: list.map(({ nextScrapeAt }) => rounded(Math.max(0, nextScrapeAt - now))),
    };
  }
}

function rounded(ms: number): number | null {
  return Number.isFinite(ms) ? Math.round(ms) : null;
}

function matches(endpoint: PoolEndpoint, { states, labels = [], model, q }: EndpointFilter): boolean {
  if (states !== undefined && !states.includes(endpoint.state)) return false;
  if (labels.some(([name, value]) => endpoint.labels[name] !== value)) return false;
  if (q !== undefined && !endpoint.id.includes(q) && !endpoint.hostPort.includes(q)) return false;
  const { models } = endpoint;
  return model === undefined || models === undefined || models.byName === "any" || models.byName.has(model);
}

function labelsOf(all: readonly PoolEndpoint[]): Record<string, string[]> {
  const found = new Map<string, Set<string>>();
  for (const { labels } of all)
    for (const [name, value] of Object.entries(labels)) {
      let values = found.get(name);
      if (values === undefined) {
        if (found.size >= MAX_LABELS) continue;
        values = new Set();
        found.set(name, values);
      }
      if (values.size < MAX_VALUES) values.add(value);
    }
  return Object.fromEntries([...found].map(([name, values]) => [name, [...values].sort()]));
}

/** @param next the number of the step after the last of `steps` */
function sparkOf(steps: readonly WatchedStep[], next: number): Spark {
  const column = (of: (step: WatchedStep) => number): (number | null)[] => steps.map((step) => shown(of(step)));
  return {
    from: (next - (steps.length || STEPS - 1)) * STEP_SECONDS,
    step: STEP_SECONDS,
    inFlight: column(({ inFlight }) => inFlight),
    kvUsage: column(({ kvUsage }) => kvUsage),
    requestsPerSecond: column(({ requestsPerSecond }) => requestsPerSecond),
    tokensPerSecond: column(({ tokensPerSecond }) => tokensPerSecond),
  };
}

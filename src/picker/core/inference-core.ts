import type { Clock } from "../../base/clock/clock.ts";
import type { SeededRandom } from "../../base/clock/random.ts";
import { BytesPerToken } from "../../base/inference/bytes-per-token.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { PluginInstances } from "../../base/plugin/instances.ts";
import type { AppProtocol } from "../../base/plugin/kinds.ts";
import { VERSION } from "../../base/process/version.ts";
import { LabelGuard } from "../../base/telemetry/label-guard.ts";
import { createMetrics, type Metrics } from "../../base/telemetry/names.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { Collector, collectorMetrics } from "../../pool/endpoints/collector.ts";
import { Dialects } from "../../pool/endpoints/dialects/dialects.ts";
import { EndpointLog } from "../../pool/endpoints/endpoint-log.ts";
import { EndpointRegistry } from "../../pool/endpoints/registry.ts";
import { ScrapeClient } from "../../pool/endpoints/scrape-client.ts";
import { EndpointsView } from "../../pool/endpoints/view.ts";
import { Peers } from "../../pool/peers/peers.ts";
import { ModelResolver } from "../../pool/resources/resolve.ts";
import type { EffectiveConfig } from "../config/effective.ts";
import { ByteBudget } from "../exchange/byte-budget.ts";
import { InferenceExchange } from "../exchange/exchange.ts";
import type { PluginCalls } from "../exchange/request-hooks.ts";
import type { RequestLog } from "../exchange/request-log.ts";
import type { Exchange, Wire } from "../exchange/wire.ts";
import type { Backlog } from "../flowcontrol/backlog.ts";
import type { QueuesView } from "../flowcontrol/queues-view.ts";
import type { SpareRoom } from "../flowcontrol/spare-room.ts";
import { refusePromise } from "../scheduling/plugin-calls.ts";
import type { SchedulingPlan } from "../scheduling/profile.ts";
import { DecisionRecords } from "../scheduling/records.ts";
import { Scheduler } from "../scheduling/scheduler.ts";
import { type CoreExchanges, coreExchanges } from "./core-exchanges.ts";
import { modelGuard, type PoolSaturation, pluginCalls, rewriteCounter, schedulerHooks } from "./core-metrics.ts";
import type { CoreOptions } from "./core-options.ts";
import { showBudget, watchBudget } from "./core-reports.ts";
import { spareRoomOf } from "./core-room.ts";
import { type InForce, makeInForce } from "./in-force.ts";
import { ModelQueueing } from "./model-queueing.ts";
import { PluginSeries } from "./plugin-series.ts";
import { type PluginState, stateOf } from "./plugin-state.ts";
import { Queues } from "./queues.ts";
import { watchPool } from "./watch/pool-watch.ts";
import { TrafficWatch } from "./watch/traffic-watch.ts";

const FULL_RECORDS_EVERY = 256;
/** The most distinct fairness IDs in labels, for the life of the process (scheduling 8.1). */
const MAX_FAIRNESS_IDS = 1000;

const NO_ENDPOINTS: readonly Endpoint[] = [];

/** All parts between a wire and the model servers, connected. `sluice epp` and `sluice gateway` both use it. */
export class InferenceCore {
  readonly clock: Clock;
  readonly random: SeededRandom;
  readonly registry = new MetricsRegistry({ onRenderError: (error) => this.onError(error) });
  readonly metrics: Metrics;
  readonly endpoints: EndpointRegistry;
  readonly endpointsView: EndpointsView;
  readonly records = new DecisionRecords();
  /** What the page shows of the traffic. */
  readonly watch: TrafficWatch;
  readonly budget: ByteBudget;
  readonly models: ModelResolver;
  /** The bytes per token of each model, learned from answers; undefined where 4 bytes count as one token. */
  readonly bytesPerToken: BytesPerToken | undefined;
  /** What the other replicas of this picker know; undefined where none share it. */
  readonly peers: Peers | undefined;
  readonly #options: CoreOptions;
  readonly #log: RateLimitedLog;
  readonly #scheduler: Scheduler;
  readonly #calls: PluginCalls;
  #inForce: InForce;
  #configured: { readonly config: EffectiveConfig; readonly since: number };
  readonly #queueing: ModelQueueing;
  #closed = false;
  #tells = false;
  #spareRoom: SpareRoom | undefined;
  readonly #series: PluginSeries;
  readonly #collector: Collector;
  readonly #endpointLog: EndpointLog;
  readonly #queues: Queues;
  readonly #exchanges: CoreExchanges;

  constructor(options: CoreOptions) {
    const { clock, random, log, config } = options;
    this.#options = options;
    this.clock = clock;
    this.random = random;
    this.watch = new TrafficWatch(clock, this.records.capacity);
    this.bytesPerToken = options.learnsBytesPerToken === false ? undefined : new BytesPerToken();
    this.#log = new RateLimitedLog(log, clock, { intervalMs: 10_000, maxKeys: 256 });
    this.budget = new ByteBudget(options.bodies);
    watchBudget(this.budget, clock, log, this.#log);
    const { inferenceModelMetrics: oldestNames, parity } = options;
    this.metrics = createMetrics(this.registry, { oldestNames, stageInTwins: parity !== "v1.5" });
    this.#calls = pluginCalls(this.metrics, clock);
    const names = modelGuard(options.models.resources);
    // One guard, so that a tenant has the same label in all metrics.
    const fairness = new LabelGuard(MAX_FAIRNESS_IDS);
    const onRewrite = rewriteCounter(this.metrics, names);
    this.models = new ModelResolver({ ...options.models, random, onRewrite, parity });
    this.endpoints = new EndpointRegistry({
      clock,
      random,
      onRefused: (id, maxEndpoints) =>
        this.#log.log(
          "error",
          "endpoint-refused",
          { endpoint: id, maxEndpoints },
          "too many endpoints: Sluice skips this endpoint",
        ),
    });
    this.peers =
      options.peers &&
      new Peers({
        ...{ clock, random, log, registry: this.endpoints, bytesPerToken: this.bytesPerToken },
        ...options.peers,
        onLoad: () => this.#queues.changed(),
      });
    watchPool(this.endpoints, this.watch.endpoints, this.watch.events, clock);
    this.endpointsView = new EndpointsView(this.endpoints, clock, options.staleness, options.serverTls);
    this.#queueing = new ModelQueueing(this.models, log);
    this.#inForce = this.#make(config, undefined);
    this.#configured = { config, since: clock.wall() };
    this.#scheduler = new Scheduler({
      plan: this.#inForce.plan,
      clock,
      random,
      records: this.records,
      retries: options.retries ?? false,
      emitScores: options.emitScores ?? false,
      maxEndpoints: options.maxEndpoints,
      hooks: schedulerHooks(this.metrics, this.#log, names, (share) => this.watch.prefixMatched(share)),
      fullEvery: options.fullRecordsEvery ?? FULL_RECORDS_EVERY,
    });
    this.#series = new PluginSeries({ clock, registry: this.registry, metrics: this.metrics, fairness });
    this.#series.watch(this.#inForce.plan);
    this.endpoints.onRemoved((endpoint) => this.#scheduler.endpointRemoved(endpoint));
    this.#endpointLog = new EndpointLog(clock, this.endpoints, log);
    this.#collector = new Collector({
      clock,
      random,
      registry: this.endpoints,
      scraper: new ScrapeClient(
        clock,
        options.dialects ?? new Dialects(),
        options.metricsPage,
        undefined,
        options.serverTls,
      ),
      metrics: collectorMetrics(this.metrics),
      onRead: (endpoint) => {
        this.#spareRoom?.scraped(endpoint);
        this.#queues.changed();
      },
      ...options.cadence,
    });
    this.endpoints.onAdded(() => this.#queues.changed());
    this.endpoints.onRemoved(() => this.#queues.changed());
    this.endpoints.onStateChanged(() => this.#queues.changed());
    this.endpoints.onModelsChanged(() => this.#queues.changed());
    options.models.resources?.onChange(() => this.#resourcesChanged());
    this.#queues = new Queues({
      ...{ metrics: this.metrics, clock, log, failures: this.#log, models: names, fairness },
      poolName: options.poolName ?? "",
      pool: () => this.#pool(),
      priorities: () => this.models.priorities(),
    });
    this.#useFlowControl();
    this.metrics.info.with("", VERSION).set(1);
    const refreshBudget = showBudget(this.metrics, this.budget);
    this.registry.onRender(() => {
      this.#queues.show();
      refreshBudget();
      this.#series.show(this.#inForce.instances.list(), this.#scheduler.plan);
    });
    this.#exchanges = coreExchanges(options, {
      ...{ endpoints: this.endpoints, models: this.models, scheduler: this.#scheduler, metrics: this.metrics },
      ...{ names, fairness, log: this.#log, calls: this.#calls, budget: this.budget },
      ...{ bytesPerToken: this.bytesPerToken, observer: this.watch },
      inForce: () => this.#inForce,
      flowControl: () => this.#queues.current,
      spareRoom: () => this.#spareRoom,
      onError: (error) => this.onError(error),
    });
  }

  /** Begins to scrape, and to share with peers. */
  start(): void {
    this.#collector.start();
    this.peers?.start();
  }

  /** Tells plugins of endpoints from now on: only then may they connect to them. Call it once. */
  tellPlugins(): void {
    this.#tells = true;
    this.endpoints.onAdded((endpoint) => this.#scheduler.endpointAdded(endpoint));
    this.#tellEndpoints();
  }

  #tellEndpoints(): void {
    for (const endpoint of this.endpoints.list()) this.#scheduler.endpointAdded(endpoint);
  }

  /** Ends the scraping and the sharing, and closes the plugins. Call it when no request runs any more. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#endpointLog.close();
    this.refuseQueued();
    await Promise.all([this.#collector.close(), this.peers?.close()]);
    this.#inForce.instances.close();
  }

  /** Refuses the requests that wait in queues, and those that would from now on. */
  refuseQueued(): void {
    this.#queues.close();
  }

  /** The configuration in force, since when in wall-clock milliseconds, and its plan. */
  get configured(): { readonly config: EffectiveConfig; readonly since: number; readonly plan: SchedulingPlan } {
    return { ...this.#configured, plan: this.#inForce.plan };
  }

  /** Returns the plugins in force, with their state where they can report it (scheduling 9.2). */
  pluginStates(): readonly PluginState[] {
    return [...this.#inForce.instances.list()].map(stateOf);
  }

  /** Returns the saturation of the pool by the detector in force (scheduling 5.3). Throws the detector's error. */
  saturation(): PoolSaturation {
    const { name, plugin } = this.#inForce.detector;
    const { current } = this.#queues;
    if (current !== undefined) {
      const { effective: value, ...stages } = current.saturation();
      return { detector: name, value, stages, staleEndpoints: plugin.staleEndpoints };
    }
    const value = plugin.saturation(this.endpoints.list(), this.clock.now());
    refusePromise(value);
    return { detector: name, value, staleEndpoints: plugin.staleEndpoints };
  }

  /** Returns the state of the queues; undefined where the configuration in force has no flow control. */
  queues(): QueuesView | undefined {
    return this.#queues.view();
  }

  /** The requests that wait in flow control; undefined where the configuration in force has none. */
  get backlog(): Backlog | undefined {
    return this.#queues.backlog;
  }

  /** Requests of this process that have left flow control and have not ended, on endpoints that the pool still has. */
  get inFlight(): number {
    let sum = this.#queues.undecided;
    for (const endpoint of this.endpoints.list()) sum += endpoint.own.requests;
    return sum;
  }

  /**
   * Returns the name of a parser in force that no server of this protocol works with; undefined = each parser works
   * (api-resources 3.6).
   */
  parserAgainst(protocol: AppProtocol): string | undefined {
    return this.#inForce.named.find(({ plugin }) => plugin.protocols?.includes(protocol) === false)?.name;
  }

  /** The reason why some plugins in force cannot work yet; undefined = all can (api-resources 3.6). */
  get unready(): string | undefined {
    const found = this.#inForce.instances.unready();
    return found && `the plugin ${found.name} is not ready yet${found.failure === "" ? "" : `: ${found.failure}`}`;
  }

  /** Whether a parser in force, apart from the fallback, reads the bodies of a path. @param path without query */
  claimsPath(path: string): boolean {
    return this.#inForce.parsers.claims(path);
  }

  openExchange(wire: Wire): Exchange {
    return new InferenceExchange(this.#exchanges, wire);
  }

  /**
   * Puts another configuration in force. Throws the error of a plugin's creation; then the whole old configuration stays.
   * @param keep plugins whose description is unchanged keep their state; else all state is lost
   */
  useConfig(config: EffectiveConfig, keep: boolean): void {
    // Nothing would close its plugins.
    if (this.#closed) return;
    const { instances } = this.#inForce;
    const next = this.#make(config, keep ? instances : undefined);
    this.#inForce = next;
    this.#configured = { config, since: this.clock.wall() };
    this.#scheduler.usePlan(next.plan);
    this.#series.watch(next.plan);
    this.#useFlowControl();
    if (keep) next.instances.settle();
    else instances.close();
    if (this.#tells) this.#tellEndpoints();
  }

  /** Objectives have other priorities from now on. */
  objectivesChanged(): void {
    this.#queues.namePriorities();
  }

  /** Logs requests that begin from now on; undefined = logs none. */
  useRequestLog(log: RequestLog | undefined): void {
    this.#exchanges.log = log;
  }

  /** The priorities of keys have changed. */
  keysChanged(): void {
    this.#queues.namePriorities();
  }

  #resourcesChanged(): void {
    this.#queueing.look();
    try {
      const next = this.#queueing.apply(this.#inForce);
      if (next !== this.#inForce) {
        this.#inForce = next;
        this.#useFlowControl();
      }
    } catch (error) {
      this.onError(error);
    }
    this.#queues.namePriorities();
  }

  /** Puts the flow control of the configuration in force. */
  #useFlowControl(): void {
    this.#queueing.tell(this.#inForce);
    this.#queues.use(this.#inForce.flowControl);
  }

  /** The room that background requests use; undefined where there are none. */
  get spareRoom(): SpareRoom | undefined {
    return this.#spareRoom;
  }

  /** From now on there are background requests. Only the first call counts. @param baseline the share that they leave free, 0 to below 1 */
  makeSpareRoom(baseline: number): void {
    this.#spareRoom ??= spareRoomOf(this.endpoints, {
      ...{ clock: this.clock, baseline, pool: () => this.#pool() },
      detector: () => this.#inForce.detector.plugin,
    });
  }

  /** Returns the endpoints that may serve a request without a hint. */
  #pool(): readonly Endpoint[] {
    return this.models.poolKnown ? this.endpoints.candidates().endpoints : NO_ENDPOINTS;
  }

  /** Logs a failure of Sluice itself; the client has already got a 500. */
  onError(error: unknown): void {
    this.#log.log("error", "internal", { err: error }, "internal error");
  }

  /** @param previous plugins that may keep their state */
  #make(config: EffectiveConfig, previous: PluginInstances | undefined): InForce {
    const { clock, random, log, indexBytes, hooks: ownHooks = [] } = this.#options;
    const sharedPrefixes = this.peers?.prefixes;
    const parts = {
      ...{ clock, random, log, indexBytes, previous, ownHooks, failures: this.#log, calls: this.#calls },
      sharedPrefixes,
    };
    // The warm-up prepares nothing, so it starts no threads.
    const made = makeInForce(
      config,
      this.#options.prepares === false ? { ...parts, startTokenizers: undefined } : parts,
    );
    try {
      return this.#queueing.apply(made);
    } catch (error) {
      made.instances.close();
      throw error;
    }
  }
}

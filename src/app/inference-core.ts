import type { Clock } from "../clock/clock.ts";
import type { Random } from "../clock/random.ts";
import type { ConfiguredPlugin, EffectiveConfig } from "../config/effective.ts";
import type { CadenceOptions } from "../endpoints/cadence.ts";
import { Collector } from "../endpoints/collector.ts";
import { collectorMetrics } from "../endpoints/collector-metrics.ts";
import { Dialects } from "../endpoints/dialects/dialects.ts";
import { EndpointRegistry } from "../endpoints/registry.ts";
import { type MetricsPage, ScrapeClient } from "../endpoints/scrape-client.ts";
import { EndpointsView } from "../endpoints/view.ts";
import { ByteBudget } from "../exchange/byte-budget.ts";
import { Decider } from "../exchange/decide.ts";
import { type ExchangeServices, InferenceExchange } from "../exchange/exchange.ts";
import { ExchangeMetrics } from "../exchange/exchange-metrics.ts";
import { ParserTable } from "../exchange/parsers/parser-table.ts";
import { RequestHooks } from "../exchange/request-hooks.ts";
import type { Exchange, Wire } from "../exchange/wire.ts";
import { LegacyAdmission } from "../flowcontrol/legacy-admission.ts";
import type { PluginKind, PluginKinds, SaturationDetector } from "../plugin/kinds.ts";
import { ModelResolver, type ResolverOptions } from "../resources/resolve.ts";
import { buildProfile } from "../scheduling/build.ts";
import { prefixIndexSizes } from "../scheduling/plugins/producers/approx-prefix-cache-producer.ts";
import type { Profile } from "../scheduling/profile.ts";
import { DecisionRecords } from "../scheduling/records.ts";
import { Scheduler } from "../scheduling/scheduler.ts";
import type { Logger } from "../telemetry/logger.ts";
import { createMetrics, type Metrics } from "../telemetry/names.ts";
import { RateLimitedLog } from "../telemetry/rate-limited-log.ts";
import { MetricsRegistry } from "../telemetry/registry.ts";
import { PLUGIN_REGISTRY } from "./plugins.ts";
import { rewriteCounter } from "./rewrite-counter.ts";
import { schedulerHooks } from "./scheduler-hooks.ts";
import { VERSION } from "./version.ts";

/** All buffered and replayed bodies of the process together, and by default one request body (spec/decisions.md). */
const BODY_BUDGET = 256 * 1024 * 1024;
const MAX_REQUEST_BYTES = 32 * 1024 * 1024;

export interface CoreOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly config: EffectiveConfig;
  /** Objectives and API objects, and how they count. */
  readonly models: Omit<ResolverOptions, "random" | "onRewrite">;
  /** How often endpoints are scraped; absent = adaptive from 50 ms to 1 s. */
  readonly cadence?: CadenceOptions;
  /** How metrics pages are read; the built-in engines' by default. */
  readonly dialects?: Dialects;
  /** Where they are. */
  readonly metricsPage?: MetricsPage;
  /** Milliseconds after which metrics no longer count an endpoint as ready. */
  readonly staleness: number;
  readonly ignoreSubset: boolean;
  /** The wire walks down the list of endpoints by itself. */
  readonly retries?: boolean;
  /** `--emit-endpoint-scores`. */
  readonly emitScores?: boolean;
  /** How many endpoints a proxy is offered, 1 to 8; absent = as the picker says. */
  readonly maxEndpoints?: number | undefined;
  /** Bytes of one request body; default 32 MiB. */
  readonly maxRequestBytes?: number;
  readonly log: Logger;
}

/** Everything between a wire and the model servers, put together: what both `sluice epp` and `sluice gateway` are made of. */
export class InferenceCore {
  readonly clock: Clock;
  readonly random: Random;
  readonly registry = new MetricsRegistry();
  readonly metrics: Metrics;
  readonly endpoints: EndpointRegistry;
  readonly endpointsView: EndpointsView;
  readonly records = new DecisionRecords();
  readonly budget = new ByteBudget(BODY_BUDGET);
  readonly models: ModelResolver;
  readonly #options: CoreOptions;
  readonly #log: RateLimitedLog;
  readonly #scheduler: Scheduler;
  #admission: LegacyAdmission;
  #parsers: ParserTable;
  #hooks: RequestHooks;
  readonly #collector: Collector;
  readonly #services: ExchangeServices;

  constructor(options: CoreOptions) {
    const { clock, random, log, config } = options;
    this.#options = options;
    this.clock = clock;
    this.random = random;
    this.#log = new RateLimitedLog(log, clock, { intervalMs: 10_000, maxKeys: 256 });
    this.metrics = createMetrics(this.registry);
    this.models = new ModelResolver({ ...options.models, random, onRewrite: rewriteCounter(this.metrics) });
    this.endpoints = new EndpointRegistry({
      clock,
      random,
      onRefused: (id, maxEndpoints) =>
        this.#log.log(
          "error",
          "endpoint-refused",
          { endpoint: id, maxEndpoints },
          "too many endpoints: this one is left out",
        ),
    });
    this.endpointsView = new EndpointsView(this.endpoints, clock, options.staleness);
    this.#scheduler = new Scheduler({
      profile: this.#profileOf(config),
      clock,
      random,
      records: this.records,
      retries: options.retries ?? false,
      emitScores: options.emitScores ?? false,
      maxEndpoints: options.maxEndpoints,
      hooks: schedulerHooks(this.metrics, this.#log),
    });
    this.endpoints.onRemoved((endpoint) => this.#scheduler.endpointRemoved(endpoint));
    this.endpoints.onStateChanged((endpoint, from) =>
      this.#log.log(
        "info",
        `${endpoint.state} ${endpoint.id}`,
        { endpoint: endpoint.id, from, to: endpoint.state, cause: endpoint.cause },
        "endpoint changed state",
      ),
    );
    this.#admission = new LegacyAdmission(this.#detectorOf(config));
    this.#parsers = this.#parsersOf(config);
    this.#hooks = this.#hooksOf(config);
    this.#collector = new Collector({
      clock,
      random,
      registry: this.endpoints,
      scraper: new ScrapeClient(clock, options.dialects ?? new Dialects(), options.metricsPage),
      metrics: collectorMetrics(this.metrics),
      ...options.cadence,
    });
    this.metrics.info.with("", VERSION).set(1);
    const buffered = this.metrics.bufferedBytes.with();
    this.registry.onRender(() => {
      buffered.set(this.budget.used);
      this.metrics.prefixIndexerSize.clear();
      for (const { name, type, size } of prefixIndexSizes(this.#scheduler.profile))
        this.metrics.prefixIndexerSize.with(name, type).set(size);
    });
    this.#services = {
      clock,
      random,
      endpoints: this.endpoints,
      decider: new Decider({
        clock,
        random,
        endpoints: this.endpoints,
        parsers: () => this.#parsers,
        models: this.models,
        admission: { admit: (request, candidates, now) => this.#admission.admit(request, candidates, now) },
        scheduler: this.#scheduler,
        ignoreSubset: options.ignoreSubset,
      }),
      hooks: () => this.#hooks,
      metrics: new ExchangeMetrics(this.metrics),
      budget: this.budget,
      maxRequestBytes: options.maxRequestBytes ?? MAX_REQUEST_BYTES,
      onError: (error) => this.onError(error),
      onStrangerServed: (reported) =>
        this.#log.log(
          "info",
          "stranger-served",
          { reported },
          "the proxy reports that somebody served who is no endpoint of the pool; the picked one stays in the books",
        ),
    };
  }

  /** Begins to scrape. */
  start(): void {
    this.#collector.start();
  }

  async close(): Promise<void> {
    await this.#collector.close();
  }

  openExchange(wire: Wire): Exchange {
    return new InferenceExchange(this.#services, wire);
  }

  /**
   * Puts another configuration in force; what the old one's plugins had learnt is forgotten. Throws what the making of a
   * plugin throws; then the old one stays, as a whole.
   */
  useConfig(config: EffectiveConfig): void {
    const profile = this.#profileOf(config);
    const admission = new LegacyAdmission(this.#detectorOf(config));
    const parsers = this.#parsersOf(config);
    this.#hooks = this.#hooksOf(config);
    this.#parsers = parsers;
    this.#admission = admission;
    this.#scheduler.useProfile(profile);
  }

  /** Tells people of a failure of our own; clients have their 500 already. */
  onError(error: unknown): void {
    this.#log.log("error", "internal", { err: error }, "internal error");
  }

  #parsersOf({ parsers }: EffectiveConfig): ParserTable {
    return parsers.length === 0 ? new ParserTable() : new ParserTable(parsers.map((plugin) => this.#make(plugin)));
  }

  #hooksOf({ hooks }: EffectiveConfig): RequestHooks {
    const made = hooks.map((plugin) => ({ name: plugin.name, plugin: this.#make(plugin) }));
    return new RequestHooks(made, (hook, error) =>
      this.#log.log("error", `hook ${hook}`, { err: error, plugin: hook }, "a request hook failed and was left out"),
    );
  }

  #profileOf(config: EffectiveConfig): Profile {
    const { clock, random } = this.#options;
    return buildProfile({
      name: config.profile.name,
      plugins: [...config.profile.plugins, ...config.producers],
      registry: PLUGIN_REGISTRY,
      clock,
      random,
    });
  }

  #detectorOf({ detector }: EffectiveConfig): SaturationDetector {
    return this.#make(detector);
  }

  #make<K extends PluginKind>({ definition, name, parameters }: ConfiguredPlugin<K>): PluginKinds[K] {
    const { clock, random } = this.#options;
    return definition.create(parameters, { name, clock, random });
  }
}

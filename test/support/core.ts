import { SeededRandom } from "../../src/base/clock/random.ts";
import { VirtualClock } from "../../src/base/clock/virtual.ts";
import { parseDocument } from "../../src/base/document/parse.ts";
import { BytesPerToken } from "../../src/base/inference/bytes-per-token.ts";
import { type EndpointMetrics, UNKNOWN_METRICS } from "../../src/base/inference/endpoint.ts";
import type { PluginDescription } from "../../src/base/plugin/instances.ts";
import type { PluginDefinition, PluginKind, RequestParser, SaturationDetector } from "../../src/base/plugin/kinds.ts";
import { render } from "../../src/base/telemetry/exposition.ts";
import { silentLogger } from "../../src/base/telemetry/logger.ts";
import { createMetrics } from "../../src/base/telemetry/names.ts";
import { RateLimitedLog } from "../../src/base/telemetry/rate-limited-log.ts";
import { MetricsRegistry } from "../../src/base/telemetry/registry.ts";
import type { Tracing } from "../../src/base/telemetry/tracing.ts";
import { ParserTable } from "../../src/picker/apis/parser-table.ts";
import type { EffectiveConfig, EffectiveProfile, ProfilePlugin } from "../../src/picker/config/effective.ts";
import { loadConfig } from "../../src/picker/config/load.ts";
import { isMember } from "../../src/picker/config/profiles.ts";
import { schedulerHooks } from "../../src/picker/core/core-metrics.ts";
import { instancesOf, planOf } from "../../src/picker/core/plan.ts";
import { PLUGIN_REGISTRY } from "../../src/picker/core/plugins/plugins.ts";
import { type BudgetSettings, ByteBudget } from "../../src/picker/exchange/byte-budget.ts";
import { CacheReports } from "../../src/picker/exchange/cache-reports.ts";
import { type DecisionParts, RequestDecider } from "../../src/picker/exchange/decide.ts";
import { InferenceExchange } from "../../src/picker/exchange/exchange.ts";
import { ExchangeMetrics } from "../../src/picker/exchange/exchange-metrics.ts";
import { Preparation } from "../../src/picker/exchange/prepare.ts";
import { type NamedHook, RequestHooks } from "../../src/picker/exchange/request-hooks.ts";
import type { RequestLog } from "../../src/picker/exchange/request-log.ts";
import type { Wire } from "../../src/picker/exchange/wire.ts";
import { FlowControl } from "../../src/picker/flowcontrol/flow-control.ts";
import { LegacyAdmission } from "../../src/picker/flowcontrol/legacy-admission.ts";
import type { FlowControlSettings } from "../../src/picker/flowcontrol/settings.ts";
import { SpareRoom } from "../../src/picker/flowcontrol/spare-room.ts";
import type { Quotas } from "../../src/picker/limits/quotas.ts";
import { described, type MemberDescription } from "../../src/picker/scheduling/build.ts";
import { Scheduler } from "../../src/picker/scheduling/scheduler.ts";
import type { PoolEndpoint } from "../../src/pool/endpoints/pool-endpoint.ts";
import { EndpointRegistry } from "../../src/pool/endpoints/registry.ts";
import { objectivesFromFlags } from "../../src/pool/resources/objectives.ts";
import { ModelResolver, type ResolverOptions } from "../../src/pool/resources/resolve.ts";
import { silentEvents } from "./flow-control.ts";
import { slowRead } from "./slow-exposition.ts";

/** One endpoint of a test pool; the rest is filled in. */
export interface TestEndpoint {
  readonly address?: string;
  readonly port?: number;
  /** As scraped just now; without it, as never scraped. */
  readonly metrics?: Partial<EndpointMetrics>;
}

export interface TestCoreOptions {
  /** How many endpoints, or which; `10.0.0.N:8000` unless they say otherwise; default 3. */
  readonly endpoints?: number | readonly TestEndpoint[];
  /** Text of an EndpointPickerConfig; the built-in one by default. */
  readonly config?: string;
  /** Put into the first profile besides, or among the producers, screeners and admitters. */
  readonly plugins?: readonly PluginDefinition[];
  /** `NAME=PRIORITY` each. */
  readonly objectives?: readonly string[];
  /** API objects and how they count. */
  readonly models?: Omit<ResolverOptions, "random" | "objectives">;
  readonly ignoreSubset?: boolean;
  /** Bytes of all bodies together, small ones included; or the settings. */
  readonly budget?: number | Partial<BudgetSettings>;
  readonly maxRequestBytes?: number;
  readonly seed?: number;
  readonly hooks?: readonly NamedHook[];
  /** In place of the configured ones. */
  readonly parsers?: readonly RequestParser[];
  /** In place of the configured detector. */
  readonly saturation?: SaturationDetector["saturation"];
  /** Requests queue. The detector of the settings counts; by default they do not queue. */
  readonly flowControl?: FlowControlSettings;
  /** The share of each endpoint that background requests leave free; absent = there are none. */
  readonly baseline?: number;
  /** The wire walks down the list by itself. */
  readonly retries?: boolean;
  readonly emitScores?: boolean;
  /** Answers to requests that ask for it carry the decision. */
  readonly decisionHeader?: boolean;
}

/** What one rendered page says: values by `name{label="value",...}` with labels in the order of the page. */
export type Samples = ReadonlyMap<string, number>;

/** Everything behind a wire, real, in virtual time: registry, admission, scheduler, exchanges and their metrics. */
export class TestCore {
  readonly clock = new VirtualClock();
  readonly random: SeededRandom;
  readonly registry = new MetricsRegistry();
  readonly metrics = createMetrics(this.registry);
  readonly endpoints: EndpointRegistry;
  readonly budget: ByteBudget;
  readonly scheduler: Scheduler;
  readonly bytesPerToken = new BytesPerToken();
  readonly decider: RequestDecider;
  readonly exchangeMetrics = new ExchangeMetrics(this.metrics);
  readonly cacheReports = new CacheReports(this.metrics);
  /** Failures of our own. */
  readonly errors: unknown[] = [];
  /** Reported to have served, and no endpoints. */
  readonly strangers: string[] = [];
  readonly hooks: RequestHooks;
  readonly flowControl: FlowControl | undefined;
  readonly spareRoom: SpareRoom | undefined;
  /** For exchanges opened from now on. */
  tracing: Tracing | undefined;
  requestLog: RequestLog | undefined;
  quotas: Quotas | undefined;
  readonly #maxRequestBytes: number;
  readonly #decisionHeader: boolean;

  constructor(options: TestCoreOptions = {}) {
    const { clock } = this;
    const random = new SeededRandom(options.seed ?? 1);
    this.random = random;
    this.endpoints = new EndpointRegistry({ clock, random });
    const { budget } = options;
    this.budget = new ByteBudget(typeof budget === "number" ? { limit: budget, small: 0, reserve: 0 } : budget);
    this.#maxRequestBytes = options.maxRequestBytes ?? 32 * 1024 * 1024;
    this.#decisionHeader = options.decisionHeader ?? false;
    const document = options.config === undefined ? undefined : parseDocument(options.config, { file: "config.yaml" });
    const config = loadConfig(document, PLUGIN_REGISTRY);
    const instances = instancesOf(config, { clock, random, log: silentLogger });
    const parsers = config.parsers.map((plugin) => instances.make(plugin));
    const hooks = config.hooks.map((hook) => ({ name: hook.name, plugin: instances.make(hook) }));
    this.hooks = new RequestHooks([...hooks, ...(options.hooks ?? [])], (_hook, error) => this.errors.push(error));
    const more = (options.plugins ?? []).map((definition) => described(definition));
    this.scheduler = new Scheduler({
      plan: planOf(withPlugins(config, more), instances),
      clock,
      random,
      retries: options.retries ?? false,
      emitScores: options.emitScores ?? false,
      hooks: schedulerHooks(this.metrics, new RateLimitedLog(silentLogger, clock, { intervalMs: 1000, maxKeys: 8 })),
    });
    this.endpoints.onRemoved((endpoint) => this.scheduler.endpointRemoved(endpoint));
    const inForce: DecisionParts = {
      parsers: new ParserTable(options.parsers ?? (parsers.length === 0 ? undefined : parsers)),
      headerProcessors: config.headerProcessors.map((plugin) => ({
        ...{ name: plugin.name, type: plugin.definition.type },
        plugin: instances.make(plugin),
      })),
      admission:
        options.flowControl === undefined
          ? new LegacyAdmission(
              options.saturation === undefined ? instances.make(config.detector) : { saturation: options.saturation },
            )
          : { admit: () => undefined },
    };
    this.decider = new RequestDecider({
      clock,
      random,
      endpoints: this.endpoints,
      inForce: () => inForce,
      models: new ModelResolver({
        random,
        objectives: objectivesFromFlags(options.objectives ?? []),
        ...options.models,
      }),
      scheduler: this.scheduler,
      bytesPerToken: this.bytesPerToken,
      preparation: new Preparation({
        clock,
        preparers: () => this.scheduler.preparers,
        onFailed: (_producer, error) => this.errors.push(error),
      }),
      spareRoom: () => this.spareRoom,
      ignoreSubset: options.ignoreSubset ?? false,
      onPluginError: (_plugin, error) => this.errors.push(error),
    });
    if (options.flowControl !== undefined)
      this.flowControl = new FlowControl({
        clock,
        settings: options.flowControl,
        pool: () => this.endpoints.candidates().endpoints,
        events: silentEvents((error) => this.errors.push(error)),
      });
    if (options.baseline !== undefined)
      this.spareRoom = new SpareRoom({
        ...{ clock, baseline: options.baseline, pool: () => this.endpoints.list() },
        detector: () => ({ saturation: () => 0 }),
      });
    const { endpoints = 3 } = options;
    const pool = typeof endpoints === "number" ? Array.from({ length: endpoints }, () => ({})) : endpoints;
    for (const endpoint of pool) this.add(endpoint);
  }

  /** Adds an endpoint to the pool. */
  add({ address, port, metrics }: TestEndpoint): PoolEndpoint {
    const n = this.endpoints.size + 1;
    const endpoint = this.endpoints.upsert({
      namespace: "default",
      name: `pod-${n}`,
      address: address ?? `10.0.0.${n}`,
      port: port ?? 8000,
      rank: 0,
      labels: {},
    })!;
    endpoint.scrapeInterval = 1_000_000;
    if (metrics !== undefined)
      endpoint.metrics = {
        ...UNKNOWN_METRICS,
        ...{ waiting: 0, running: 0, kvUsage: 0, scrapedAt: this.clock.now() },
        ...metrics,
      };
    return endpoint;
  }

  openExchange(wire: Wire): InferenceExchange {
    return new InferenceExchange(
      {
        clock: this.clock,
        random: this.random,
        endpoints: this.endpoints,
        decider: this.decider,
        hooks: () => this.hooks,
        flowControl: () => this.flowControl,
        spareRoom: () => this.spareRoom,
        metrics: this.exchangeMetrics,
        tracing: this.tracing,
        log: this.requestLog,
        quotas: this.quotas,
        budget: this.budget,
        bytesPerToken: this.bytesPerToken,
        cacheReports: this.cacheReports,
        maxRequestBytes: this.#maxRequestBytes,
        refusesEmptyBodies: false,
        decisionHeader: this.#decisionHeader,
        onError: (error) => this.errors.push(error),
        onStrangerServed: (reported) => this.strangers.push(reported),
      },
      wire,
    );
  }

  /** The n-th endpoint, from 1 up. */
  endpoint(n: number): PoolEndpoint {
    return this.endpoints.get(`default/pod-${n}`)!;
  }

  /** Requests in flight, all endpoints together. */
  get inFlight(): number {
    return this.endpoints.list().reduce((sum, endpoint) => sum + endpoint.inFlight.requests, 0);
  }

  /** The metrics page as it is now. */
  samples(): Samples {
    return samplesOf(render(this.registry));
  }

  /** Sum over all series of a sample name whose labels include `labels`; 0 when there is none. */
  total(name: string, labels: Readonly<Record<string, string>> = {}): number {
    let sum = 0;
    const lines = render(this.registry)
      .split("\n")
      .filter((text) => text.startsWith(name));
    for (const line of slowRead(Buffer.from(lines.join("\n")))) {
      if (line.sample?.name !== name) continue;
      const { labels: found, value } = line.sample;
      if (Object.entries(labels).every(([key, wanted]) => found[key] === wanted)) sum += value;
    }
    return sum;
  }
}

/** Reads a page with the slow reader; throws for a line that is neither a sample nor a comment. */
export function samplesOf(page: string): Samples {
  const samples = new Map<string, number>();
  const lines = page.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  for (const [i, line] of slowRead(Buffer.from(lines.join("\n"))).entries()) {
    if (line.sample === undefined) throw new Error(`not a sample: ${lines[i]}`);
    const labels = Object.entries(line.sample.labels).map(([key, value]) => `${key}="${value}"`);
    samples.set(`${line.sample.name}${labels.length === 0 ? "" : `{${labels.join()}}`}`, line.sample.value);
  }
  return samples;
}

/** The configuration with more plugins at the places of their kinds. */
function withPlugins(config: EffectiveConfig, more: readonly MemberDescription[]): EffectiveConfig {
  const ofKind = <K extends PluginKind>(kind: K): PluginDescription<K>[] =>
    more.filter(({ definition }) => definition.kind === kind) as unknown as PluginDescription<K>[];
  const [first, ...others] = config.profiles as [EffectiveProfile, ...EffectiveProfile[]];
  const members = more.flatMap((plugin) =>
    isMember(plugin.definition.kind) ? [{ ...plugin, weight: plugin.weight ?? 1 } as ProfilePlugin] : [],
  );
  return {
    ...config,
    profiles: [{ ...first, plugins: [...first.plugins, ...members] }, ...others],
    producers: [...config.producers, ...ofKind("producer")],
    screeners: [...config.screeners, ...ofKind("screener")],
    admitters: [...config.admitters, ...ofKind("admitter")],
  };
}

import type { ServerTls } from "../../base/grpc/server-tls.ts";
import { loadCertificates, loadTlsFiles } from "../../base/grpc/tls.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { type InstanceParts, PluginInstances, sameParameters } from "../../base/plugin/instances.ts";
import type { EngineExtractor, EngineSpecification, PageSource, SideExtractor } from "../../base/plugin/kinds.ts";
import { type CadenceOptions, MIN_INTERVAL } from "../../pool/endpoints/cadence.ts";
import { Dialects, type EngineChoice } from "../../pool/endpoints/dialects/dialects.ts";
import { ENGINES, type EngineMapping, VLLM } from "../../pool/endpoints/dialects/engines.ts";
import { parseSpecification } from "../../pool/endpoints/dialects/specification.ts";
import { GpuReader } from "../../pool/endpoints/gpu-pages.ts";
import { ModelListReader } from "../../pool/endpoints/model-lists.ts";
import { Reconnector } from "../../pool/endpoints/reconnector.ts";
import type { EndpointDialects, FurtherPage, MetricsPage } from "../../pool/endpoints/scraper.ts";
import { type SidePage, SidePages, type SideReader } from "../../pool/endpoints/side-pages.ts";
import type { EffectiveConfig, EffectiveDataSource } from "../config/effective.ts";
import { isOfKind } from "../config/plugins.ts";
import type { InferenceCore } from "./inference-core.ts";

/** Flags that name a metric (epp-protocol 13.3). */
export const METRIC_FLAGS = [
  "total-queued-requests-metric",
  "total-running-requests-metric",
  "kv-cache-usage-percentage-metric",
  "lora-info-metric",
  "cache-info-metric",
] as const;

type MetricFlag = (typeof METRIC_FLAGS)[number];

/** Metric specifications by flag; "" = not collected, absent = the built-in one. */
type MetricNames = Readonly<Partial<Record<MetricFlag, string>>>;

type PageSettings = Pick<MetricsPage, "scheme" | "path" | "port" | "insecureSkipVerify">;

/** Flags for the address of metrics pages. */
export const PAGE_FLAGS = {
  scheme: "model-server-metrics-scheme",
  path: "model-server-metrics-path",
  port: "model-server-metrics-port",
  insecureSkipVerify: "model-server-metrics-https-insecure-skip-verify",
} as const satisfies Readonly<Record<keyof PageSettings, string>>;

/** The settings of the flags for reading model servers; a flag that was not given is absent. */
interface ModelServerSettings {
  /** Replaces the settings of the sources in the configuration. */
  readonly page: PageSettings;
  readonly metrics: MetricNames;
}

/** The flags for scraping metrics. */
export interface MetricsFlags {
  readonly modelServers: ModelServerSettings;
  /** Milliseconds, at least 50. */
  readonly refreshMetricsInterval: number;
  /** The interval was given, so it also holds for idle endpoints. */
  readonly fixedCadence: boolean;
}

/** The values for commands without such flags. */
export const NO_METRICS_FLAGS: MetricsFlags = {
  modelServers: { page: {}, metrics: {} },
  refreshMetricsInterval: MIN_INTERVAL,
  fixedCadence: false,
};

/** The settings for scraping endpoints. */
interface MetricsSettings {
  /** Sluice scrapes nothing, and the other settings have no meaning. */
  readonly none: boolean;
  readonly dialects: EndpointDialects;
  readonly metricsPage: MetricsPage;
  readonly cadence: CadenceOptions;
  /** Pages that are fetched besides. */
  readonly sidePages: readonly SidePage[];
}

/** Makes the reader of each kind of page besides the metrics page. */
const SIDE_READERS: Readonly<Record<SideExtractor["reads"], () => SideReader>> = {
  "gpu-metrics": () => new GpuReader(),
  models: () => new ModelListReader(),
};

const NO_FLAGS: ModelServerSettings = { page: {}, metrics: {} };

/** A scraped source, from the configuration and the flags that replace its values. */
interface Scraped {
  readonly page: FurtherPage;
  /** Milliseconds, at least 50; undefined = the value of the flag. */
  readonly interval: number | undefined;
}

/**
 * Returns the data layer of a configuration (scheduling 1.2, 1.5, 1.8) with the values of the flags of older releases.
 * @param parts for the creation of plugins; their `log` gets a warning for each flag without effect
 * @throws SluiceError FLAG_VALUE, FLAG_CONFLICT for flags; TLS_... for files that a source names
 */
export function metricsSettings(config: EffectiveConfig, flags: MetricsFlags, parts: InstanceParts): MetricsSettings {
  const instances = new PluginInstances(parts);
  const scraped: Scraped[] = [];
  const sidePages: SidePage[] = [];
  for (const { source, extractors } of config.dataSources) {
    const fetched = instances.make(source);
    // Plugins learn of endpoints and pods without it.
    if ("notifies" in fetched) continue;
    const interval = fetched.interval && Math.max(MIN_INTERVAL, fetched.interval);
    // The loader accepts one extractor of each type. It has warned about a source without one.
    for (const extractor of extractors.filter(isOfKind("extractor"))) {
      const made = instances.make(extractor);
      if ("reads" in made) {
        sidePages.push({
          ...pageOf(source.name, fetched, {}),
          sourceType: source.definition.type,
          extractorType: extractor.definition.type,
          reader: SIDE_READERS[made.reads](),
          interval: interval ?? flags.refreshMetricsInterval,
          useNodeAddress: fetched.useNodeAddress === true,
        });
        continue;
      }
      // The flags are those of model servers: pages of clusters are none.
      const ofServers = (extractor.definition.payload ?? "metrics") === "metrics" ? flags.modelServers : NO_FLAGS;
      const dialects = dialectsOf(extractor.name, made, config, ofServers);
      scraped.push({ page: { ...pageOf(source.name, fetched, ofServers.page), dialects }, interval });
    }
  }
  for (const warning of deadFlags(scraped, flags.modelServers)) parts.log.warn({}, warning);
  const every = scraped.map(({ interval }) => interval ?? flags.refreshMetricsInterval);
  const base = Math.max(MIN_INTERVAL, Math.min(...every));
  const [first, ...also] = scraped.map(
    ({ page }, at): FurtherPage => ({ ...page, every: Math.max(1, Math.round(every[at]! / base)) }),
  );
  if (first === undefined) return { none: true, dialects: new Dialects(), metricsPage: {}, cadence: {}, sidePages };
  const { dialects, ...page } = first;
  return {
    none: false,
    dialects,
    metricsPage: { ...page, also },
    cadence: {
      interval: base,
      fixed: flags.fixedCadence || scraped.some(({ interval }) => interval !== undefined),
    },
    sidePages,
  };
}

/**
 * Tells plugins of endpoints, and starts scraping. Without a source, only endpoints that are down are tried again.
 * @param tls undefined = no endpoint speaks TLS
 * @returns a function that stops the retries and the fetches of further pages; the core's own end stops the scraping
 */
export function startMetrics(
  core: Pick<InferenceCore, "clock" | "random" | "endpoints" | "metrics" | "start" | "tellPlugins">,
  { none, sidePages }: MetricsSettings,
  tls?: ServerTls | undefined,
): () => void {
  const stops: (() => void)[] = [];
  core.tellPlugins();
  if (sidePages.length > 0) {
    const { clock, random, endpoints: registry, metrics } = core;
    const pages = new SidePages({
      ...{ clock, random, registry, pages: sidePages, tls },
      pollFailed: (source) => metrics.datalayerPollErrorsTotal.with(source).inc(),
      extractFailed: (source, extractor) => metrics.datalayerExtractErrorsTotal.with(source, extractor).inc(),
    });
    stops.push(() => void pages.close());
  }
  if (none) {
    const reconnector = new Reconnector(core.clock, core.endpoints, tls);
    stops.push(() => reconnector.close());
  } else core.start();
  return () => {
    for (const stop of stops) stop();
  };
}

/**
 * Whether both configurations have the same discovery and scrape the same sources in the same way. A difference takes effect
 * only at the next start.
 */
export function sameDataLayer(a: EffectiveConfig, b: EffectiveConfig): boolean {
  return sameParameters(dataLayerOf(a), dataLayerOf(b));
}

function dataLayerOf({ dataSources, discovery }: EffectiveConfig): unknown {
  return [dataSources.map(described), discovery && [discovery.definition.type, discovery.parameters]];
}

function described({ source, extractors }: EffectiveDataSource): unknown {
  return [source, ...extractors].map(({ definition, parameters }) => [definition.type, parameters]);
}

/** @param name of the extractor */
function dialectsOf(
  name: string,
  { engines, engineLabelKey, defaultEngine }: EngineExtractor,
  config: EffectiveConfig,
  { metrics }: ModelServerSettings,
): Dialects {
  const choice = { engineLabelKey, defaultEngine };
  const [flag] = Object.keys(metrics);
  if (flag === undefined) return new Dialects(engines.map(mappingOf), choice);
  if (engines.length > 0)
    throw new SluiceError(
      "FLAG_CONFLICT",
      `--${flag} and the engineConfigs of the plugin ${name} in ${config.source} both name metrics; remove the flag, and write the metric into engineConfigs`,
    );
  return dialectsWith(metrics, choice);
}

function mappingOf(engine: EngineSpecification): EngineMapping {
  return {
    name: engine.name,
    queued: engine.queuedRequestsSpec,
    running: engine.runningRequestsSpec,
    kvUsage: engine.kvUsageSpec,
    lora: engine.loraSpec,
    cacheInfo: engine.cacheInfoSpec,
    blockSizeLabel: engine.cacheBlockSizeLabelName,
    blocksLabel: engine.cacheNumBlocksLabelName,
    blockSize: engine.cacheBlockSizeSpec,
    blocks: engine.cacheNumBlocksSpec,
    attributes: (engine.customMetrics ?? []).map(({ attributeKey, metricSpec }) => ({
      key: attributeKey,
      metric: metricSpec,
    })),
    hasMeans: engine.hasMeans === true,
  };
}

function pageOf(name: string, source: PageSource, flags: ModelServerSettings["page"]): MetricsPage {
  const scheme = flags.scheme ?? source.scheme;
  return {
    scheme,
    path: flags.path ?? source.path,
    port: flags.port ?? source.port ?? 0,
    insecureSkipVerify: flags.insecureSkipVerify ?? source.insecureSkipVerify,
    ...(scheme === "https" ? certificatesOf(name, source) : {}),
  };
}

function certificatesOf(name: string, source: PageSource): Pick<MetricsPage, "ca" | "client"> {
  const { caCertPath, clientCertPath, clientKeyPath } = source;
  try {
    return {
      ...(caCertPath === "" ? {} : { ca: loadCertificates(caCertPath) }),
      ...(clientCertPath === "" ? {} : { client: loadTlsFiles(clientCertPath, clientKeyPath) }),
    };
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    throw new SluiceError(error.code, `plugin ${name}: ${error.message}`, { cause: error });
  }
}

/** Returns a warning for each given flag that changes nothing. */
function deadFlags(scraped: readonly Scraped[], { page, metrics }: ModelServerSettings): readonly string[] {
  if (scraped.length === 0) {
    const given = [...Object.keys(metrics), ...Object.keys(page).map((key) => PAGE_FLAGS[key as keyof typeof page])];
    return given.map((flag) => `--${flag} has no effect: the configuration has no source of metrics`);
  }
  if (page.insecureSkipVerify !== false || scraped.some((source) => source.page.scheme === "https")) return [];
  return [`--${PAGE_FLAGS.insecureSkipVerify} has no effect: metrics pages are read over http`];
}

/** Flags that name a metric, and the field of the default engine's mapping that each replaces (epp-protocol 13.2, 13.3). */
const FIELDS = {
  "total-queued-requests-metric": "queued",
  "total-running-requests-metric": "running",
  "kv-cache-usage-percentage-metric": "kvUsage",
  "lora-info-metric": "lora",
  "cache-info-metric": "cacheInfo",
} as const satisfies Readonly<Record<MetricFlag, keyof EngineMapping>>;

/**
 * Returns the dialects of the process: the built-in ones, with the metrics of the flags in place of those of the default
 * engine. The reference's charts expect this: beside `defaultEngine: sglang` the flags name SGLang's metrics. A metric without
 * a flag stays as the engine has it. A KV metric from a flag has no former name to fall back to (S-13).
 * @param choice how Sluice finds the engine of an endpoint
 * @throws SluiceError FLAG_VALUE for a wrong metric specification, FLAG_CONFLICT when no metric is left, ENGINE_UNKNOWN
 */
export function dialectsWith(names: MetricNames, choice: EngineChoice = {}): Dialects {
  const given = Object.entries(names) as [MetricFlag, string][];
  const base = ENGINES.find(({ name }) => name === (choice.defaultEngine ?? VLLM.name));
  // The constructor of Dialects refuses an unknown engine.
  if (given.length === 0 || base === undefined) return new Dialects([], choice);
  const engine: { -readonly [K in keyof EngineMapping]: EngineMapping[K] } = { ...base };
  for (const [flag, text] of given) {
    checked(flag, text);
    engine[FIELDS[flag]] = text;
    if (FIELDS[flag] === "kvUsage") engine.kvUsageBefore = "";
  }
  if (Object.values(FIELDS).every((field) => (engine[field] ?? "").trim() === ""))
    throw new SluiceError(
      "FLAG_CONFLICT",
      `--${Object.keys(FIELDS).join(", --")} remove all metrics of ${engine.name}; name at least one metric`,
    );
  return new Dialects([engine], choice);
}

function checked(flag: MetricFlag, text: string): void {
  try {
    parseSpecification(text);
  } catch (error) {
    throw new SluiceError("FLAG_VALUE", `--${flag}: ${messageOf(error)}`, { cause: error });
  }
}

import type { LabelGuard } from "../../base/telemetry/label-guard.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import type { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import type { EndpointRegistry } from "../../pool/endpoints/registry.ts";
import type { ModelResolver } from "../../pool/resources/resolve.ts";
import { CacheReports } from "../exchange/cache-reports.ts";
import { RequestDecider } from "../exchange/decide.ts";
import { ExchangeMetrics } from "../exchange/exchange-metrics.ts";
import type { ExchangeServices } from "../exchange/exchange-services.ts";
import { Preparation } from "../exchange/prepare.ts";
import type { PluginCalls } from "../exchange/request-hooks.ts";
import type { RequestLog } from "../exchange/request-log.ts";
import type { Scheduler } from "../scheduling/scheduler.ts";
import type { CoreOptions } from "./core-options.ts";
import { reportUnprepared } from "./core-reports.ts";
import type { InForce } from "./in-force.ts";

/** The default limit of one request body (docs/spec/decisions.md#sizes). */
const MAX_REQUEST_BYTES = 32 * 1024 * 1024;

/** The same array each time, as a scheduler's. */
const NO_PREPARERS: Scheduler["preparers"] = [];

/** What exchanges need of the core. */
interface ExchangeParts
  extends Pick<ExchangeServices, "budget" | "bytesPerToken" | "flowControl" | "observer" | "onError"> {
  readonly endpoints: EndpointRegistry;
  readonly models: ModelResolver;
  readonly scheduler: Scheduler;
  readonly metrics: Metrics;
  /** Bounds the names of models in labels. */
  readonly names: LabelGuard;
  /** Bounds the fairness IDs in labels. */
  readonly fairness: LabelGuard;
  readonly log: RateLimitedLog;
  readonly calls: PluginCalls;
  /** Returns the configuration in force. */
  readonly inForce: () => InForce;
  readonly spareRoom: NonNullable<ExchangeServices["spareRoom"]>;
}

/** The services of exchanges, whose log may change. */
export type CoreExchanges = ExchangeServices & { log?: RequestLog | undefined };

/** Returns the services that all exchanges of a core share. */
export function coreExchanges(options: CoreOptions, parts: ExchangeParts): CoreExchanges {
  const { clock, random } = options;
  const { endpoints, models, scheduler, metrics, names, log, calls, inForce, spareRoom, bytesPerToken } = parts;
  return {
    clock,
    random,
    endpoints,
    decider: new RequestDecider({
      ...{ clock, random, endpoints, inForce, models, scheduler, bytesPerToken, spareRoom, calls },
      preparation: new Preparation({
        clock,
        preparers: options.prepares === false ? () => NO_PREPARERS : () => scheduler.preparers,
        onFailed: reportUnprepared(metrics, log),
      }),
      ignoreSubset: options.ignoreSubset,
      onPluginError: (plugin, error) =>
        log.log("error", `plugin ${plugin}`, { err: error, plugin }, "a plugin failed; Sluice skipped it"),
    }),
    hooks: () => inForce().hooks,
    flowControl: parts.flowControl,
    spareRoom,
    metrics: new ExchangeMetrics(metrics, names, parts.fairness),
    observer: parts.observer,
    tracing: options.tracing?.on ? options.tracing : undefined,
    log: options.requestLog,
    quotas: options.quotas,
    budget: parts.budget,
    bytesPerToken,
    cacheReports: new CacheReports(metrics, names),
    maxRequestBytes: options.maxRequestBytes ?? MAX_REQUEST_BYTES,
    refusesEmptyBodies: options.refusesEmptyBodies ?? false,
    decisionHeader: options.decisionHeader ?? false,
    onError: parts.onError,
    onStrangerServed: (reported) =>
      log.log(
        "info",
        "stranger-served",
        { reported },
        "the proxy reports an answer from an address outside the pool; Sluice counts the request at the picked endpoint",
      ),
  };
}

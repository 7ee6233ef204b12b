import type { Clock } from "../../base/clock/clock.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { LabelGuard } from "../../base/telemetry/label-guard.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import type { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import type { MetricsRegistry } from "../../base/telemetry/registry.ts";
import type { ResourceStore } from "../../pool/resources/resource-store.ts";
import type { PluginCalls } from "../exchange/request-hooks.ts";
import type { SchedulerHooks } from "../scheduling/plugin-calls.ts";

/** The most distinct model names in labels, for the life of the process (scheduling 8.1). */
const MAX_MODELS = 1000;

/**
 * Returns the guard that bounds the model names in labels. All metrics of a process share one guard, so that a name looks the
 * same in each. Names in InferenceModelRewrites keep their own label (S-96).
 * @param resources undefined = there are none
 */
export function modelGuard(resources: Pick<ResourceStore, "rewriteNames"> | undefined): LabelGuard {
  return new LabelGuard(MAX_MODELS, (name) => resources?.rewriteNames(name) ?? false);
}

/** The most label sets of attempts in the cache: one per endpoint and model. */
const MAX_CACHED = 4096;

/**
 * Counts and times the scheduler's work, under the reference's names (scheduling 8.5).
 * @param models bounds the names that clients choose
 * @param prefixMatched receives the share of each prompt that the chosen endpoint probably holds
 */
export function schedulerHooks(
  metrics: Metrics,
  log: RateLimitedLog,
  models = modelGuard(undefined),
  prefixMatched: (share: number) => void = () => {},
): SchedulerHooks {
  const duration = metrics.schedulerDuration.with();
  let attempts = new WeakMap<Endpoint, Map<string, { inc(): void }>>();
  let cached = 0;
  return {
    decided(outcome, request, seconds) {
      duration.observe(seconds);
      const model = models.admit(request.targetModel);
      if (outcome instanceof Rejection) {
        metrics.schedulerAttemptsTotal.with("failure", model, "", "", "").inc();
        return;
      }
      const endpoint = outcome.endpoints[0]!;
      const known = attempts.get(endpoint)?.get(model);
      if (known !== undefined) {
        known.inc();
        return;
      }
      if (++cached > MAX_CACHED) {
        attempts = new WeakMap();
        cached = 1;
      }
      const { name, namespace, port } = endpoint;
      const counter = metrics.schedulerAttemptsTotal.with("success", model, name, namespace, String(port));
      const counters = attempts.get(endpoint) ?? new Map<string, { inc(): void }>();
      counters.set(model, counter);
      attempts.set(endpoint, counters);
      counter.inc();
    },
    pluginCalled(point, plugin, seconds) {
      metrics.pluginDuration.with(point, plugin.type, plugin.name).observe(seconds);
    },
    pluginFailed(point, plugin, error) {
      metrics.pluginFailuresTotal.with(point, plugin.type, plugin.name).inc();
      log.log(
        "error",
        `plugin ${plugin.name}`,
        { err: error, point, plugin: plugin.name },
        "a plugin failed; Sluice skipped it",
      );
    },
    scopeViolated(point, plugin, access) {
      metrics.pluginDataScopeViolationsTotal.with(point, plugin.type, plugin.name, access).inc();
    },
    prefixMatched(producer, bytes, ratio) {
      prefixMatched(ratio ?? 0);
      metrics.prefixIndexerHitBytes.with(producer.name, producer.type).observe(bytes);
      if (ratio !== undefined) metrics.prefixIndexerHitRatio.with(producer.name, producer.type).observe(ratio);
    },
    disaggregated(handler, decisionType, model) {
      const family = handler.type === "pd-profile-handler" ? metrics.pdDecisionTotal : metrics.disaggDecisionTotal;
      family.with(handler.name, handler.type, models.admit(model), decisionType).inc();
    },
  };
}

/** Times the plugins that exchanges call, in the same metric family. */
export function pluginCalls(metrics: Metrics, clock: Clock): PluginCalls {
  return {
    now: () => clock.now(),
    called: (point, { type, name }, ms) => metrics.pluginDuration.with(point, type, name).observe(ms / 1000),
  };
}

/**
 * Counts the decisions of InferenceModelRewrites, under the reference's name (scheduling 8.5).
 * @param models bounds the names that clients choose; rewrite and target are from objects, whose number and size are bounded
 */
export function rewriteCounter(
  metrics: Metrics,
  models = modelGuard(undefined),
): (rewrite: string, model: string, target: string) => void {
  return (rewrite, model, target) =>
    metrics.modelRewriteDecisionsTotal.with(rewrite, models.admit(model), target).inc();
}

/** The detector's measurement of the pool. */
export interface PoolSaturation {
  /** Instance name. */
  readonly detector: string;
  /** 1 and above = saturated. With stages the higher one. */
  readonly value: number;
  /** The stages that have endpoints (scheduling 6.5); absent without flow control. */
  readonly stages?: Readonly<Partial<Record<Stage, number | undefined>>>;
  /** Number of endpoints without fresh metrics, where the detector needs those. */
  readonly staleEndpoints: number | undefined;
}

type Stage = "prefill" | "decode";

/** The parts of the core that `showSaturation` needs. */
interface Saturable {
  readonly registry: MetricsRegistry;
  readonly metrics: Metrics;
  saturation(): PoolSaturation;
}

/**
 * Shows the saturation of the pool, and the number of endpoints without fresh metrics (scheduling 5.3, 8.6). From 1 on, Sluice
 * refuses sheddable requests; with flow control requests wait. The value is computed for each scrape of the page.
 * @returns a function that stops this
 */
export function showSaturation(core: Saturable, poolName: string): () => void {
  const { registry, metrics } = core;
  const saturation = metrics.poolSaturation;
  return registry.onRender(() => {
    // When the detector fails, the values are unknown: the page must not show the previous ones.
    saturation.with(poolName, "effective");
    for (const series of saturation.series()) series.set(Number.NaN);
    metrics.staleEndpoints.clear();
    const { detector, value, stages = {}, staleEndpoints } = core.saturation();
    saturation.with(poolName, "effective").set(value);
    for (const stage of ["prefill", "decode"] as const) {
      const load = stages[stage];
      if (load === undefined) saturation.remove(poolName, stage);
      else saturation.with(poolName, stage).set(load);
    }
    if (staleEndpoints !== undefined) metrics.staleEndpoints.with(detector).set(staleEndpoints);
  });
}

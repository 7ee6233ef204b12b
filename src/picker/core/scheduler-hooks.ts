import type { Clock } from "../../base/clock/clock.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import type { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import type { PluginCalls } from "../exchange/request-hooks.ts";
import type { SchedulerHooks } from "../scheduling/hooks.ts";
import { modelGuard } from "./model-guard.ts";

/** Distinct label sets of attempts that are kept at hand: one per endpoint and model. */
const MAX_CACHED = 4096;

/**
 * Counts and times what the scheduler does, under the reference's names (scheduling 8.5).
 * @param models keeps the names that clients choose in bounds
 */
export function schedulerHooks(metrics: Metrics, log: RateLimitedLog, models = modelGuard(undefined)): SchedulerHooks {
  const duration = metrics.schedulerDuration.with();
  const attempts = new Map<string, { inc(): void }>();
  return {
    decided(outcome, request, seconds) {
      duration.observe(seconds);
      const model = models.admit(request.targetModel);
      if (outcome instanceof Rejection) {
        metrics.schedulerAttemptsTotal.with("failure", model, "", "", "").inc();
        return;
      }
      const { id, name, namespace, port } = outcome.endpoints[0]!;
      const key = `${id}\n${port}\n${model}`;
      let counter = attempts.get(key);
      if (counter === undefined) {
        if (attempts.size >= MAX_CACHED) attempts.clear();
        counter = metrics.schedulerAttemptsTotal.with("success", model, name, namespace, String(port));
        attempts.set(key, counter);
      }
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
        "a plugin failed and was left out",
      );
    },
    scopeViolated(point, plugin, access) {
      metrics.pluginDataScopeViolationsTotal.with(point, plugin.type, plugin.name, access).inc();
    },
    prefixMatched(producer, bytes, ratio) {
      metrics.prefixIndexerHitBytes.with(producer.name, producer.type).observe(bytes);
      if (ratio !== undefined) metrics.prefixIndexerHitRatio.with(producer.name, producer.type).observe(ratio);
    },
    disaggregated(handler, decisionType, model) {
      const family = handler.type === "pd-profile-handler" ? metrics.pdDecisionTotal : metrics.disaggDecisionTotal;
      family.with(handler.name, handler.type, models.admit(model), decisionType).inc();
    },
  };
}

/** Times the plugins that exchanges call themselves, in the same family. */
export function pluginCalls(metrics: Metrics, clock: Clock): PluginCalls {
  return {
    now: () => clock.now(),
    called: (point, { type, name }, ms) => metrics.pluginDuration.with(point, type, name).observe(ms / 1000),
  };
}

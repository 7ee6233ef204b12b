import { Rejection } from "../inference/outcomes.ts";
import type { SchedulerHooks } from "../scheduling/hooks.ts";
import { LabelGuard } from "../telemetry/label-guard.ts";
import type { Metrics } from "../telemetry/names.ts";
import type { RateLimitedLog } from "../telemetry/rate-limited-log.ts";

/** Distinct model names in labels, for the life of the process (scheduling 8.1). */
const MAX_MODELS = 1000;
/** Distinct label sets of attempts that are kept at hand: one per endpoint and model. */
const MAX_CACHED = 4096;

/** Counts and times what the scheduler does, under the reference's names (scheduling 8.5). */
export function schedulerHooks(metrics: Metrics, log: RateLimitedLog): SchedulerHooks {
  const duration = metrics.schedulerDuration.with();
  const models = new LabelGuard(MAX_MODELS);
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
      log.log(
        "error",
        `plugin ${plugin.name}`,
        { err: error, point, plugin: plugin.name },
        "a plugin failed and was left out",
      );
    },
    prefixMatched(producer, bytes, ratio) {
      metrics.prefixIndexerHitBytes.with(producer.name, producer.type).observe(bytes);
      if (ratio !== undefined) metrics.prefixIndexerHitRatio.with(producer.name, producer.type).observe(ratio);
    },
  };
}

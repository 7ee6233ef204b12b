import type { Clock } from "../../base/clock/clock.ts";
import type { LabelGuard } from "../../base/telemetry/label-guard.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import type { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { prefixIndexes } from "../scheduling/plugins/prefix/approx-prefix-cache-producer.ts";
import type { SchedulingPlan } from "../scheduling/profile.ts";
import { KvEventMetrics } from "./kv-event-metrics.ts";
import { countMedia } from "./media-metrics.ts";
import { showPrograms } from "./program-metrics.ts";
import { ShownFigures } from "./shown-figures.ts";

interface PluginSeriesOptions {
  readonly clock: Clock;
  readonly registry: MetricsRegistry;
  readonly metrics: Metrics;
  /** Bounds the fairness IDs that clients choose. */
  readonly fairness: LabelGuard;
}

type Lessons = ReturnType<typeof prefixIndexes>[number]["lessons"];

/** The series that single plugins fill: programs, media, prefix indexes and KV-cache events (scheduling 8). */
export class PluginSeries {
  readonly #options: PluginSeriesOptions;
  readonly #kvEvents: KvEventMetrics;
  readonly #shownLessons = new WeakMap<Lessons, ShownFigures>();

  constructor(options: PluginSeriesOptions) {
    this.#options = options;
    this.#kvEvents = new KvEventMetrics(options.registry);
  }

  /** Begins to measure the plugins of a plan. */
  watch(plan: SchedulingPlan): void {
    this.#kvEvents.watch(plan);
  }

  /** Called before each rendering of the page. @param instances all plugins in force */
  show(
    instances: Iterable<{ readonly name: string; readonly type: string; readonly instance: unknown }>,
    plan: SchedulingPlan,
  ): void {
    const { clock, metrics, fairness } = this.#options;
    const all = [...instances];
    showPrograms(metrics, all, fairness, clock.now());
    countMedia(metrics, all);
    metrics.prefixIndexerSize.clear();
    for (const { name, type, size, lessons } of prefixIndexes(plan)) {
      metrics.prefixIndexerSize.with(name, type).set(size);
      const shown = this.#shownLessons.get(lessons) ?? new ShownFigures();
      this.#shownLessons.set(lessons, shown);
      metrics.prefixCorrectionsTotal.with(name, type).inc(shown.more("corrections", lessons.corrections));
      metrics.prefixCorrectedBlocksTotal.with(name, type).inc(shown.more("dropped", lessons.dropped));
    }
    this.#kvEvents.show(plan);
  }
}

import { KV_METRICS } from "../../base/telemetry/kv-metrics.ts";
import { type FamiliesOf, type MetricsRegistry, registerTable } from "../../base/telemetry/registry.ts";
import { PrecisePrefixCache } from "../scheduling/plugins/prefix/precise-cache.ts";
import type { SchedulingPlan } from "../scheduling/profile.ts";
import { ShownFigures } from "./shown-figures.ts";

type Families = FamiliesOf<typeof KV_METRICS>;

/** What was shown of a plugin. */
interface ShownPlugin {
  readonly all: ShownFigures;
  /** By publisher. */
  readonly pods: Map<string, ShownFigures>;
}

/**
 * Shows the metrics of KV-cache events (scheduling 8.8), of the plugins that have `enableMetrics`. The families are on the page
 * from the first such plugin on.
 */
export class KvEventMetrics {
  readonly #registry: MetricsRegistry;
  readonly #shown = new WeakMap<PrecisePrefixCache, ShownPlugin>();
  #families: Families | undefined;

  constructor(registry: MetricsRegistry) {
    this.#registry = registry;
  }

  /** Begins to measure the plugins of a plan. */
  watch({ producers }: SchedulingPlan): void {
    for (const { plugin } of producers) {
      if (!(plugin instanceof PrecisePrefixCache) || !plugin.settings.hasMetrics) continue;
      this.#families ??= registerTable(this.#registry, KV_METRICS);
      const latency = this.#families.indexLookupLatency.with();
      plugin.onLookup = (seconds) => latency.observe(seconds);
    }
  }

  /** Called before each rendering of the page. */
  show({ producers }: SchedulingPlan): void {
    const families = this.#families;
    if (families === undefined) return;
    let subscribers = 0;
    let held = 0;
    let readers = 0;
    for (const { plugin } of producers) {
      if (!(plugin instanceof PrecisePrefixCache) || !plugin.settings.hasMetrics) continue;
      this.#count(families, plugin);
      const states = plugin.feed.states();
      subscribers += states.length;
      for (const state of states) held += state.held;
      readers++;
    }
    families.activeSubscribers.with().set(subscribers);
    families.poolQueueDepth.with().set(held);
    families.poolCapacity.with().set(readers);
  }

  #count(families: Families, plugin: PrecisePrefixCache): void {
    const { counts, index, feed } = plugin;
    const shown: ShownPlugin = this.#shown.get(plugin) ?? { all: new ShownFigures(), pods: new Map() };
    this.#shown.set(plugin, shown);
    const more = (name: string, value: number): number => shown.all.more(name, value);
    families.indexAdmissionsTotal.with().inc(more("admissions", counts.admissions));
    families.indexEvictionsTotal.with().inc(more("evictions", counts.evictions + index.evictions));
    families.indexLookupRequestsTotal.with().inc(more("lookups", counts.lookups));
    families.indexMaxPodHitCountTotal.with().inc(more("maxHits", counts.maxHits));
    families.indexLookupHitsTotal.with().inc(more("hits", counts.hits));
    families.dedupSuppressedTotal.with().inc(more("suppressed", counts.suppressed));
    families.dedupForwardedTotal.with().inc(more("forwarded", counts.forwarded));
    for (const { what, kind, reason, count } of counts.skips()) {
      const family = what === "stores" ? families.storesSkippedTotal : families.removalsSkippedTotal;
      family.with(kind, reason).inc(more(`${what} ${kind} ${reason}`, count));
    }
    const live = new Set<string>();
    for (const { pod, messages, reconnections, faults } of feed.states()) {
      live.add(pod);
      const own = shown.pods.get(pod) ?? new ShownFigures();
      shown.pods.set(pod, own);
      families.messagesReceivedTotal.with(pod).inc(own.more("messages", messages));
      families.reconnectionsTotal.with(pod).inc(own.more("reconnections", reconnections));
      for (const [fault, count] of faults)
        families.zmqErrorsTotal.with(pod, fault).inc(own.more(`fault ${fault}`, count));
    }
    // Publishers that left count from 0 when they are back.
    for (const pod of shown.pods.keys()) if (!live.has(pod)) shown.pods.delete(pod);
  }
}

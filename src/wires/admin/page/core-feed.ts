import { VERSION } from "../../../base/process/version.ts";
import type { InferenceCore } from "../../../picker/core/inference-core.ts";
import { checkConfig } from "../../../picker/core/watch/config-check.ts";
import { configView } from "../../../picker/core/watch/config-view.ts";
import type { ConfigFeed, SettingEntry } from "../feed/config.ts";
import type { FeedHello } from "../feed/feed.ts";
import { CoreDecisions } from "./core-decisions.ts";
import { CoreEndpoints } from "./core-endpoints.ts";
import { CORE_FIGURES, overviewOf, totalsOf } from "./core-overview.ts";
import { coreQueues } from "./core-queues.ts";
import { PROCESS, shownArgs } from "./process.ts";
import { sampleCore } from "./sampler.ts";
import type { FeedSource, HistorySource } from "./source.ts";

/** What the process around a core knows. */
export interface CoreFeedOptions {
  readonly kind: "gateway" | "epp";
  /** Of the pool or the process. */
  readonly name: string;
  readonly phase: () => FeedHello["phase"];
  readonly unready: () => string | undefined;
  /** Settings of the process with their origin. */
  readonly settings: () => readonly SettingEntry[];
  /** Sentences of the start, beside those of the configuration. */
  readonly warnings?: readonly string[] | undefined;
  readonly history?: HistorySource | undefined;
}

const LINKS: ConfigFeed["links"] = [
  { text: "metrics", href: "/metrics" },
  { text: "endpoints as JSON", href: "/debug/endpoints" },
  { text: "decisions as JSON", href: "/debug/decisions" },
  { text: "state of the plugins", href: "/debug/plugins/state" },
];

const MAX_WARNINGS = 32;

/**
 * What a gateway or picker tells its page. From this call on the process measures once a second what no event tells.
 * @returns the source, and a function that ends the measuring
 */
export function coreFeed(
  core: InferenceCore,
  options: CoreFeedOptions,
): { readonly source: FeedSource; readonly stop: () => void } {
  const { clock, watch } = core;
  const { ring } = watch;
  const startedAt = PROCESS.startedAt(clock.wall());
  const lastSecond = (): number => watch.second() - 1;
  watch.events.add("process-started", "", `sluice ${options.kind} ${VERSION} started`);
  const source: FeedSource = {
    instance: `${PROCESS.pid}-${startedAt}`,
    topics: ["overview", "events", "endpoints", "decisions", "queues"],
    events: watch.events,
    hello: () => ({
      kind: options.kind,
      name: options.name,
      version: VERSION,
      startedAt,
      at: clock.wall(),
      phase: options.phase(),
      unready: options.unready() ?? null,
      rings: {
        seconds: ring.shape.seconds,
        events: watch.events.capacity,
        decisions: core.records.capacity,
        bytes: watch.bytes,
      },
    }),
    lastSecond,
    oldestSecond: () => ring.oldest,
    overview(seconds) {
      ring.advance(watch.second());
      const to = lastSecond();
      const from = Math.max(to - seconds + 1, ring.oldest);
      return { ...overviewOf(watch, from, to), totals: totalsOf(watch) };
    },
    tick(second) {
      ring.advance(watch.second());
      return { second, figures: CORE_FIGURES.at(ring, second), totals: totalsOf(watch) };
    },
    queues: () => coreQueues(core),
    config() {
      const { warnings, ...picker } = configView(core);
      return {
        ...{ kind: options.kind, version: VERSION, node: PROCESS.node, startedAt, pid: PROCESS.pid },
        args: shownArgs(process.argv.slice(2)),
        settings: options.settings(),
        picker,
        warnings: [...(options.warnings ?? []), ...warnings].slice(-MAX_WARNINGS),
        reloads: watch.reloads.list(),
        links: LINKS,
      };
    },
    check: (text) => checkConfig(core, text),
    endpoints: new CoreEndpoints(core),
    decisions: new CoreDecisions(core),
    history: options.history,
    failed: (error) => core.onError(error),
  };
  return { source, stop: sampleCore(core) };
}

import type { BacklogPoller } from "../../async/dispatch/backlog-poller.ts";
import { STATES } from "../../async/dispatch/claim-plan.ts";
import {
  DISPATCH_GAUGE,
  type DispatchWatch,
  MESSAGE_COUNTS,
  type MessageCount,
} from "../../async/dispatch/dispatch-watch.ts";
import type { Dispatcher } from "../../async/dispatch/dispatcher.ts";
import { capacityView } from "../../async/dispatch/views.ts";
import type { Clock } from "../../base/clock/clock.ts";
import { messageOf } from "../../base/inference/errors.ts";
import { VERSION } from "../../base/process/version.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import type { ConfigFeed, SettingEntry } from "../../wires/admin/feed/config.ts";
import type { FeedHello } from "../../wires/admin/feed/feed.ts";
import type { Overview, Totals, WindowFigures } from "../../wires/admin/feed/overview.ts";
import type { CapacityFeed, DispatchFeed, QueueFeed } from "../../wires/admin/feed/queues.ts";
import { FigureTable, gauge, quantiles, quantilesOf, sum } from "../../wires/admin/page/figures.ts";
import { PROCESS, shownArgs } from "../../wires/admin/page/process.ts";
import { everySecond } from "../../wires/admin/page/sampler.ts";
import type { FeedSource, HistorySource } from "../../wires/admin/page/source.ts";

/** The parts of a running dispatcher that its page shows. */
export interface DispatchFeedParts {
  readonly kind: "dispatch" | "batch-server";
  readonly clock: Clock;
  readonly log: Logger;
  readonly dispatcher: Dispatcher;
  readonly backlog: Pick<BacklogPoller, "views">;
  /** Why the page cannot list and cancel messages; undefined = it can. */
  readonly noMessages?: string | undefined;
  readonly watch: DispatchWatch;
  readonly phase: () => FeedHello["phase"];
  /** Settings of the process with their origin. */
  readonly settings: readonly SettingEntry[];
  readonly warnings: readonly string[];
  /** Names of flags that are secrets, whatever their name says. */
  readonly secretFlags?: ReadonlySet<string> | undefined;
  readonly links: ConfigFeed["links"];
  readonly history?: HistorySource | undefined;
}

const FIGURES = new FigureTable([
  ...MESSAGE_COUNTS.map((count, place) => [`messages.${count}`, sum(place)] as const),
  ...quantiles("latency", 0),
  ["inFlight", gauge(DISPATCH_GAUGE.inFlight)],
  ["backlog", gauge(DISPATCH_GAUGE.backlog)],
  ["oldest", gauge(DISPATCH_GAUGE.oldest)],
  ["eta", gauge(DISPATCH_GAUGE.eta)],
  ["budget.D", gauge(DISPATCH_GAUGE.D)],
  ["budget.B", gauge(DISPATCH_GAUGE.B)],
  ["budget.N", gauge(DISPATCH_GAUGE.N)],
  ["gate", gauge(DISPATCH_GAUGE.gate)],
  ["cpu", gauge(DISPATCH_GAUGE.cpu)],
  ["lag", gauge(DISPATCH_GAUGE.lag)],
  ["broker", gauge(DISPATCH_GAUGE.broker)],
]);

/**
 * What a dispatcher tells its page. From this call on the process measures once a second.
 * @returns the source, and a function that ends the measuring
 */
export function dispatchFeed(parts: DispatchFeedParts): { readonly source: FeedSource; readonly stop: () => void } {
  const { kind, clock, dispatcher, backlog, watch } = parts;
  const { ring, events } = watch;
  const startedAt = PROCESS.startedAt(clock.wall());
  events.add("process-started", "", `sluice ${kind} ${VERSION} started`);
  const limited = new RateLimitedLog(parts.log, clock, { intervalMs: 10_000, maxKeys: 16 });
  const failed = (error: unknown): void =>
    void limited.log("error", messageOf(error), { problem: messageOf(error) }, "the data of the page failed");
  const stop = everySecond(
    clock,
    () => watch.wall(),
    (load) => watch.sample(dispatcher, backlog, load),
    failed,
  );
  const lastSecond = (): number => ring.newest - 1;
  const source: FeedSource = {
    topics: ["overview", "events", "queues"],
    instance: `${PROCESS.pid}-${startedAt}`,
    events,
    hello: () => ({
      ...{ kind, name: kind, version: VERSION, startedAt, at: clock.wall() },
      phase: parts.phase(),
      unready: parts.phase() === "serving" ? null : "the process claims no messages",
      rings: { seconds: ring.shape.seconds, events: events.capacity, decisions: 0, bytes: ring.bytes },
    }),
    lastSecond,
    oldestSecond: () => ring.oldest,
    overview(seconds) {
      const to = lastSecond();
      const from = Math.max(to - seconds + 1, ring.oldest);
      return overviewOf(watch, from, to);
    },
    tick: (second) => ({ second, figures: FIGURES.at(ring, second), totals: totalsOf(watch) }),
    queues: () => queuesOf(parts),
    config: () => ({
      ...{ kind, version: VERSION, node: PROCESS.node, startedAt, pid: PROCESS.pid },
      args: shownArgs(process.argv.slice(2), parts.secretFlags),
      settings: parts.settings,
      picker: null,
      warnings: parts.warnings.slice(-32),
      reloads: [],
      links: [{ text: "metrics", href: "/metrics" }, ...parts.links],
    }),
    history: parts.history,
    failed,
  };
  return { source, stop };
}

function overviewOf(watch: DispatchWatch, from: number, to: number): Omit<Overview, "events" | "lastEventId"> {
  return {
    ...FIGURES.between(watch.ring, from, to),
    windows: { minute: windowOf(watch, Math.max(from, to - 59), to), all: windowOf(watch, from, to) },
    totals: totalsOf(watch),
  };
}

function totalsOf(watch: DispatchWatch): Totals {
  const messages = Object.fromEntries(MESSAGE_COUNTS.map((count) => [count, watch.total(count)]));
  return {
    requests: {},
    tokens: { prompt: 0, output: 0, cached: 0 },
    routed: 0,
    messages: messages as Record<MessageCount, number>,
  };
}

/** A dispatcher has no tokens and no first token: `durationMs` is the time of one attempt at a gateway. */
function windowOf({ ring }: DispatchWatch, from: number, to: number): WindowFigures {
  const none = quantilesOf(undefined);
  return {
    seconds: Math.max(1, to - from + 1),
    requestsPerSecond: {},
    ttftMs: none,
    durationMs: quantilesOf(ring.buckets(from, to, 0)),
    queuedMs: none,
    promptTokensPerSecond: 0,
    outputTokensPerSecond: 0,
    predictedHitRate: null,
    reportedHitRate: null,
    errors: [],
  };
}

function queuesOf({ kind, clock, dispatcher, backlog, watch, noMessages }: DispatchFeedParts): DispatchFeed {
  const at = clock.wall();
  // The queues of a batch server are its own affair: the list of batches says how far each one is.
  const consumers = kind === "batch-server" ? [] : dispatcher.consumers;
  const brokerProblem = dispatcher.health.unusable ?? null;
  return {
    kind: "dispatch",
    at,
    claims: dispatcher.claims,
    unwritten: dispatcher.writer.pending,
    brokerProblem,
    capacities: [...dispatcher.capacities.values()].map((capacity): CapacityFeed => {
      const { latched: _latched, kind: _kind, ...view } = capacityView(capacity, dispatcher, at);
      return { ...view, timeline: watch.changes(view.capacity) };
    }),
    queues: consumers.map((consumer): QueueFeed => {
      const { queue, state, keptByGate, admission, outcomes } = consumer;
      const view = backlog.views.get(queue.name);
      // No message is sent while the broker is away, so no time left is known.
      const eta = brokerProblem === null ? (view?.eta ?? Number.NaN) : Number.NaN;
      const deadline = view?.nextDeadline ?? Number.NaN;
      return {
        queue: queue.name,
        pool: queue.workerPoolId,
        gate: queue.gate?.type ?? "none",
        state,
        because: STATES[state].because,
        heldByGate: keptByGate,
        capacities: admission.capacities.map(({ source }) => source.key),
        waiting: known(view?.waiting),
        claimed: known(view?.claimed),
        retries: known(view?.retries),
        dead: known(view?.dead),
        oldestAgeSeconds: known(view?.age),
        endedPerSecond: known(view?.rate),
        etaSeconds: known(eta),
        nextDeadline: known(deadline),
        // At a standstill the time is infinite: then it does not make it.
        makesIt: Number.isNaN(eta) || !Number.isFinite(deadline) ? null : at / 1000 + eta <= deadline,
        ended: outcomes.ended,
      };
    }),
    noMessages: noMessages ?? null,
    pools: dispatcher.pools.map(({ settings, running }) => ({
      pool: settings.id,
      gate: settings.gate?.type ?? "none",
      workers: settings.workers,
      running,
    })),
  };
}

function known(value: number | undefined): number | null {
  return value !== undefined && Number.isFinite(value) ? value : null;
}

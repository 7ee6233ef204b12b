import type { Broker } from "../../async/brokers/broker.ts";
import type { TransportSettings } from "../../async/brokers/settings.ts";
import { BacklogPoller } from "../../async/dispatch/backlog-poller.ts";
import type { DispatchOptions } from "../../async/dispatch/config/options.ts";
import { DispatchWatch } from "../../async/dispatch/dispatch-watch.ts";
import { Dispatcher } from "../../async/dispatch/dispatcher.ts";
import { mergePolicy } from "../../async/dispatch/merge/policy-file.ts";
import { undiciClient } from "../../async/dispatch/send/undici-client.ts";
import { GateSeries } from "../../async/dispatch/series.ts";
import { requestTransforms } from "../../async/dispatch/transforms/transforms-file.ts";
import { gatesView, queuesView } from "../../async/dispatch/views.ts";
import { METRIC_GATES, METRIC_SOURCES, VERDICT_GATES } from "../../async/gates/builtin-gates.ts";
import { GateFactory } from "../../async/gates/factory.ts";
import type { Clock } from "../../base/clock/clock.ts";
import { freshRandom, type Random } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { hostPort } from "../../base/inference/endpoint.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { GateDefinition, MetricSourceDefinition } from "../../base/plugin/gate.ts";
import { collectStart } from "../../base/process/garbage.ts";
import { type Listening, type Running, readyLine, untilSignal } from "../../base/process/lifecycle.ts";
import { createDispatchMetrics } from "../../base/telemetry/dispatch-metrics.ts";
import { render } from "../../base/telemetry/exposition.ts";
import { type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { createLogger } from "../../base/telemetry/logging.ts";
import { startTracing } from "../../base/telemetry/otel-tracing.ts";
import { startProcessMetrics } from "../../base/telemetry/process.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import type { Tracing } from "../../base/telemetry/tracing.ts";
import { importModule, type ModuleExports } from "../../picker/core/plugins/plugin-import.ts";
import { loopbackOnly } from "../../wires/admin/access.ts";
import { startDispatchAdmin } from "../../wires/admin/dispatch-server.ts";
import type { SettingEntry } from "../../wires/admin/feed/config.ts";
import { prometheusHistory } from "../../wires/admin/page/history.ts";
import type { FlagRow } from "../common/go-flags.ts";
import { dispatchFeed } from "./dispatch-feed.ts";
import { dispatchMessages } from "./dispatch-messages.ts";
import { ALL_FLAGS } from "./dispatch-settings.ts";

/** Milliseconds for all work after the end of the requests in flight (async-processor 8.4). */
const LAST_MOMENTS = 4800;
/** Milliseconds between the end of the work and the end of the process, even if timers or sockets remain. */
const LINGER = 100;

const SECRET_FLAGS: ReadonlySet<string> = new Set(
  ALL_FLAGS.filter(({ secret }: FlagRow) => secret).flatMap(({ name, aliases = [] }: FlagRow) => [name, ...aliases]),
);

/** What the page shows of the command line. */
export interface DispatchShown {
  /** Settings with their origins; absent = none. */
  readonly settings?: readonly SettingEntry[] | undefined;
  readonly warnings?: readonly string[] | undefined;
}

/** A running dispatcher. */
export interface RunningDispatcher extends Running {
  /** The probes, then the metrics. */
  readonly listening: readonly Listening[];
  readonly dispatcher: Dispatcher;
}

/**
 * Starts the Async Processor: gates, broker, probes, metrics, workers. A broker that is not available delays the start but does
 * not make it fail.
 * @throws SluiceError for a fault in configuration, plugins or ports
 */
export async function startDispatcher(
  options: DispatchOptions & DispatchShown & { readonly log: Logger },
): Promise<RunningDispatcher> {
  const { log, transport } = options;
  const clock = realClock;
  const random = freshRandom();
  const registry = new MetricsRegistry();
  const metrics = createDispatchMetrics(registry);
  const watch = new DispatchWatch(clock, metrics);
  const plugins = await loadDispatchPlugins(options.plugins, clock);
  const tracing = await startTracing(process.env, { serviceName: "llm-d-async", clock, log });
  const gates = new GateFactory({
    definitions: [...VERDICT_GATES, ...METRIC_GATES, ...plugins.gates],
    sources: [...METRIC_SOURCES, ...plugins.sources],
    ...{ clock, random, log },
    figures: (owner) => new GateSeries(metrics, owner),
    prometheusUrl: options.prometheusUrl,
    cacheTtl: options.prometheusCacheTtl,
    allowUnknown: options.allowUnknownGates,
  });
  const totalWorkers = options.pools.reduce((sum, { workers }) => sum + workers, 0);
  const client = undiciClient({
    totalWorkers,
    maxResponseBytes: options.maxResponseBytes,
    tls: options.clientTls,
    clock,
  });
  const broker = await makeBroker(transport, { clock, random, log, tracing });
  // `close` ends the parts from last to first, so each part ends before the parts that it uses.
  const parts: (() => Promise<void> | void)[] = [
    () => tracing.close(),
    () => gates.close(),
    () => client.close(),
    () => broker.close(),
  ];
  /**
   * Ends all parts. A part that hangs or fails stops neither the other parts nor the end of the process. @param limit
   * milliseconds for all of them
   */
  const close = async (limit = LAST_MOMENTS): Promise<void> => {
    const ended = (async (): Promise<boolean> => {
      for (const end of parts.splice(0).reverse())
        try {
          await end();
        } catch (error) {
          log.warn({ problem: messageOf(error) }, "a part of the dispatcher failed to stop");
        }
      return true;
    })();
    const late = new Promise<boolean>((resolve) => void clock.after(limit, () => resolve(false), true));
    if (!(await Promise.race([ended, late])))
      log.warn({ left: parts.length }, "a part of the dispatcher does not stop in time; the process does not wait");
  };
  try {
    const dispatcher = new Dispatcher({
      ...{ broker, clock, random, log, metrics, tracing, client },
      onLatency: (milliseconds) => watch.latency(milliseconds),
      queues: transport.queues,
      pools: options.pools,
      leases: transport.leases,
      pollInterval: transport.pollInterval,
      batchCap: transport.batchCap,
      replicas: options.replicaCount,
      requestTimeout: options.requestTimeout,
      deadlineHeader: options.deadlineHeader,
      gatewayKey: options.gatewayKey,
      transforms: requestTransforms(options.transforms, random),
      mergePolicy: mergePolicy(options.mergePolicy, random),
      gate: (spec, owner) => gates.make(spec, owner),
    });
    parts.push(startProcessMetrics(registry, clock));
    const backlog = new BacklogPoller({
      ...{ broker, metrics, clock },
      consumers: dispatcher.consumers,
      interval: options.backlogPollInterval,
    });
    let ready = false;
    let draining = false;
    const { settings = [], warnings = [] } = options;
    const { prometheusUrl } = options;
    // The connection of the broker tells the log what is wrong with the store; a second line would say the same.
    const messages = dispatchMessages(transport, { clock, random, log: silentLogger });
    parts.push(messages.close);
    const feed = dispatchFeed({
      history: prometheusUrl === undefined ? undefined : prometheusHistory(prometheusUrl, "--prometheus-url", clock),
      ...{ kind: "dispatch", clock, log, dispatcher, backlog, watch, settings, warnings },
      secretFlags: SECRET_FLAGS,
      noMessages: messages.source.unable,
      links: [
        { text: "gates as JSON", href: "/debug/gates" },
        { text: "queues as JSON", href: "/debug/queues" },
      ],
      phase: () => (draining ? "draining" : ready ? "serving" : "starting"),
    });
    parts.push(feed.stop);
    const admin = await startDispatchAdmin({
      host: options.bindAddress,
      healthPort: options.healthPort,
      metricsPort: options.metricsPort,
      clock,
      feed: feed.source,
      messages: messages.source,
      views: {
        ready: () => ready,
        check: () => dispatcher.health.check(),
        metrics: (format) => render(registry, format),
        gates: () => gatesView(dispatcher, clock.wall()),
        queues: () => queuesView(dispatcher, backlog),
      },
      authorize: loopbackOnly(options.debugOpen),
    });
    parts.push(() => admin.close());
    dispatcher.start();
    backlog.start();
    ready = true;
    return {
      dispatcher,
      listening: [
        { name: "health", address: hostPort(options.bindAddress, admin.healthPort) },
        { name: "metrics", address: hostPort(options.bindAddress, admin.metricsPort) },
      ],
      async drain() {
        ready = false;
        draining = true;
        watch.events.add("drain-began", "", "the process received its signal to end");
        backlog.stop();
        const until = clock.now() + options.drainTimeout + LAST_MOMENTS;
        await dispatcher.stop(options.drainTimeout);
        await close(Math.min(LAST_MOMENTS, until - clock.now()));
      },
      async close() {
        backlog.stop();
        await dispatcher.stop(0);
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Runs the Async Processor until a signal; returns the exit status. Writes only to stderr. Remaining work, such as a timer of a
 * user's gate, does not keep the process alive.
 */
export async function runDispatcher(options: DispatchOptions & DispatchShown): Promise<number> {
  const log = createLogger({ ...options.logging, name: "dispatch" });
  const starting = startDispatcher({ ...options, log });
  const ended = untilSignal(starting, log);
  const running = await starting;
  collectStart();
  for (const listening of running.listening) process.stderr.write(`${readyLine(listening, process.pid)}\n`);
  const status = await ended;
  realClock.after(LINGER, () => process.exit(status), true);
  return status;
}

export interface BrokerDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly tracing: Tracing;
}

/**
 * Creates the broker that a configuration names. Each broker is loaded on use, with the client that it needs.
 * @throws SluiceError PUBSUB_CLIENT_MISSING
 */
export async function makeBroker(settings: TransportSettings, deps: BrokerDeps): Promise<Broker> {
  switch (settings.transport) {
    case "redis-sortedset":
      return (await import("../../async/brokers/redis-sortedset/broker.ts")).redisSortedSetBroker(settings, deps);
    case "redis-pubsub":
      return (await import("../../async/brokers/redis-pubsub/broker.ts")).redisPubSubBroker(settings, deps);
    case "sqlite":
      return (await import("../../async/brokers/sqlite/broker.ts")).sqliteBroker(settings, deps);
    case "gcp-pubsub": {
      const { pubSubBroker } = await import("../../async/brokers/gcp-pubsub/pubsub-broker.ts");
      const { loadPubSub } = await import("../../async/brokers/gcp-pubsub/client.ts");
      // Users install Google's client themselves. A missing client must fail the start, not the first message.
      await loadPubSub();
      return pubSubBroker(settings, deps);
    }
  }
}

/** Gates and metric sources from users' modules. */
export interface DispatchPlugins {
  readonly gates: readonly GateDefinition[];
  readonly sources: readonly MetricSourceDefinition[];
}

/**
 * Loads modules that export gates (`defineGate`) or metric sources (`defineMetricSource`), under any name.
 * @param paths absolute
 * @throws SluiceError PLUGIN_LOAD naming the file
 */
export async function loadDispatchPlugins(paths: readonly string[], clock: Clock): Promise<DispatchPlugins> {
  const gates: GateDefinition[] = [];
  const sources: MetricSourceDefinition[] = [];
  for (const path of paths) {
    let module: ModuleExports;
    try {
      module = await importModule(path, clock);
    } catch (cause) {
      throw new SluiceError("PLUGIN_LOAD", `plugin ${path} cannot be loaded: ${messageOf(cause)}`, { cause });
    }
    // A default export often has a name as well, so the set removes the duplicate.
    const exported = new Set(Object.values(module));
    let found = 0;
    for (const value of exported) {
      const kind = (value as { kind?: unknown } | null | undefined)?.kind;
      if (kind === "gate") gates.push(value as GateDefinition);
      else if (kind === "metric-source") sources.push(value as MetricSourceDefinition);
      else continue;
      found++;
    }
    if (found === 0)
      throw new SluiceError("PLUGIN_LOAD", `plugin ${path} must export a result of defineGate or defineMetricSource`);
  }
  return { gates, sources };
}

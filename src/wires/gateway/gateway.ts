import type { Hono } from "hono";
import { delay } from "../../base/clock/clock.ts";
import { freshRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { refusedClientLog } from "../../base/grpc/refused-client.ts";
import type { ServerTls } from "../../base/grpc/server-tls.ts";
import { type Endpoint, hostPort } from "../../base/inference/endpoint.ts";
import { collectGarbageRarely } from "../../base/process/garbage.ts";
import { type Listening, type Running, readyLine, untilHardStop, untilSignal } from "../../base/process/lifecycle.ts";
import { reportMemory, UNLIMITED } from "../../base/process/memory-plan.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { createLogger } from "../../base/telemetry/logging.ts";
import { startRequestTracing } from "../../base/telemetry/otel-tracing.ts";
import { startProcessMetrics } from "../../base/telemetry/process.ts";
import { checkedConfig, readConfig, reportConfig } from "../../picker/core/config-source.ts";
import { showSaturation } from "../../picker/core/core-metrics.ts";
import { InferenceCore } from "../../picker/core/inference-core.ts";
import { metricsSettings, NO_METRICS_FLAGS, startMetrics } from "../../picker/core/metrics-settings.ts";
import { warmUp } from "../../picker/core/warm-up.ts";
import { Limits } from "../../picker/limits/limits.ts";
import { startEndpointMetrics } from "../../pool/endpoints/endpoint-metrics.ts";
import { firstLookOver, ModelAsker } from "../../pool/endpoints/model-asker.ts";
import { askForModels } from "../../pool/endpoints/model-client.ts";
import { openPeers } from "../../pool/peers/open-peers.ts";
import { showPeers } from "../../pool/peers/peers-metrics.ts";
import { PeersReadiness } from "../../pool/peers/peers-readiness.ts";
import { ModelSource } from "../../pool/resources/model-source.ts";
import { loopbackOnly } from "../admin/access.ts";
import { viewsOf } from "../admin/core-views.ts";
import { coreFeed } from "../admin/page/core-feed.ts";
import { prometheusHistory } from "../admin/page/history.ts";
import { startAdmin } from "../admin/server.ts";
import { allowedPath } from "../proxy/path-pattern.ts";
import { PathTable } from "../proxy/path-table.ts";
import { startProxy } from "../proxy/server.ts";
import { startScaler } from "../scaler/server.ts";
import { AccessSwitch, checkEntry } from "./access-switch.ts";
import { DEFAULT_BASELINE } from "./batch-settings.ts";
import { ChangingParts, signatureOf } from "./changing-parts.ts";
import { fewerRefusals, firstAnswer, outcomeOfUnopened } from "./gateway-access.ts";
import type { GatewayOptions, LogSettings } from "./gateway-options.ts";
import { type FollowedFile, GatewayReload, type ReadSettings } from "./gateway-reload.ts";
import { GatewayTls } from "./gateway-tls.ts";
import { modelList } from "./model-list.ts";
import { pathsOfOtherModels } from "./models-of-key.ts";
import { openBatches } from "./open-batches.ts";
import { RequestLogSwitch } from "./request-log-switch.ts";

/** What a gateway has besides its settings. */
export interface Surroundings {
  readonly log: Logger;
  /** Adds the controls of a demo to the admin port. */
  readonly demo?: ((app: Hono) => void) | undefined;
  /** Followed while the gateway runs. */
  readonly file?: FollowedFile | undefined;
  /** The settings of the start with their origins, for the page. */
  readonly read?: ReadSettings | undefined;
  /** Changes the level of `log`. */
  readonly setLogLevel?: ((level: string) => void) | undefined;
}

/** A gateway that runs. */
export interface Gateway extends Running {
  /** The proxy, then the admin pages, then the external scaler where there is one. */
  readonly listening: readonly Listening[];
  endpoints(): readonly Endpoint[];
  /** Puts the built-in configuration in force, with an empty prefix index. */
  useDefaultConfig(): Promise<void>;
  /** The same for the text of an EndpointPickerConfig. */
  useConfigText(configText: string): Promise<void>;
  /** Tells an event of a demo on the time axis of the page. */
  note(text: string): void;
}

/** What a gateway does. `starting`: its port may not be open yet. */
type Phase = "starting" | "serving" | "draining";
const WHY_UNREADY: Record<Exclude<Phase, "serving">, string> = {
  starting: "the process is starting",
  draining: "the process is about to end",
};

/** Milliseconds without a scrape after which metrics no longer count an endpoint as ready. */
const STALENESS = 2000;
/**
 * Every page shows the pool's averages of the moment, because a dispatcher's gate may read from it how busy the servers are.
 */
const POOL_INTERVAL = 0;
/** Where the batches' own thread sends its requests. */
const INSIDE = { host: "127.0.0.1", port: 0 };
/** Milliseconds that the process may still take after it has drained. */
const LINGER = 1000;

/**
 * Starts the gateway: endpoints, collector, proxy, admin pages. The gateway is ready when the promise resolves.
 * @throws SluiceError for a fault in files, flags or ports
 */
export async function startGateway(options: GatewayOptions & Surroundings): Promise<Gateway> {
  const { log } = options;
  checkEntry(options.listeners, options.keys);
  const allowed = (options.allowPaths ?? []).map(allowedPath);
  const clock = realClock;
  const random = freshRandom();
  const certificates = new GatewayTls(options.listeners, options.serverTls);
  const seen = await signatureOf(options);
  const config = await checkedConfig(options, log);
  const scraping = metricsSettings(config, NO_METRICS_FLAGS, { clock, random, log });
  const tracing = await startRequestTracing(true, options.env ?? {}, clock, log);
  const source = new ModelSource(options.objectives, options.resources, clock, log);
  const limits = options.limits && (await Limits.open(options.limits, { clock, random, log }));
  const peers = options.peers && (await openPeers(options.peers, "", { clock, random, log }));
  const requests = new RequestLogSwitch(clock, log);
  requests.open(options.requestLog).use();
  let access: AccessSwitch | undefined;
  const core: InferenceCore = new InferenceCore({
    clock,
    random,
    config,
    poolName: "gateway",
    models: { ...source.models, keyPriorities: () => access?.priorities() ?? [] },
    cadence: scraping.cadence,
    dialects: scraping.dialects,
    metricsPage: scraping.metricsPage,
    serverTls: certificates.servers,
    staleness: STALENESS,
    ignoreSubset: false,
    refusesEmptyBodies: true,
    retries: true,
    tracing,
    bodies: options.bodies,
    indexBytes: options.memory?.index,
    learnsBytesPerToken: options.learnsBytesPerToken,
    requestLog: requests.current,
    quotas: limits?.quotas,
    peers,
    ...options.explain,
    log,
  });
  const caughtUp = core.peers && new PeersReadiness(core.peers, clock);
  const stops = [startProcessMetrics(core.registry, clock), () => limits?.close()];
  requests.countIn(core.metrics.requestLogDroppedTotal.with());
  const servers: { close(): Promise<void> }[] = [];
  const close = async (): Promise<void> => {
    for (const stop of stops.splice(0)) stop();
    await Promise.all(servers.splice(0).map((server) => server.close()));
    await core.close();
    await requests.close();
    await tracing.close();
  };
  try {
    await limits?.start(core.metrics, core.registry);
    const door = new AccessSwitch(core, options.batch?.baseline ?? DEFAULT_BASELINE, log);
    access = door;
    stops.push(() => door.close());
    const parts = new ChangingParts(
      { core, config, source, requests, access: door, limits, log, setLogLevel: options.setLogLevel },
      options,
    );
    stops.push(() => parts.close());
    await parts.startDiscovery();
    stops.push(() => source.close());
    await source.start();
    // Nothing is in force before the endpoints are read: their fault must not stand below a long line.
    reportConfig(config, log);
    stops.push(
      startEndpointMetrics({ ...core, view: core.endpointsView, poolName: "gateway", poolInterval: POOL_INTERVAL }),
    );
    stops.push(showSaturation(core, "gateway"));
    if (peers !== undefined) stops.push(showPeers(core.registry, core.peers!, peers.transport, clock));
    stops.push(startMetrics(core, scraping, certificates.servers));
    const asker = startAsking(core, certificates.servers, log);
    stops.push(() => asker.close());
    await parts.followConfig(seen);
    await warmUp(clock, config);
    (await door.open(options.keys)).use();
    const batches = await openBatches(options, { allowance: () => core.spareRoom!.allowance(), clock, log });
    if (batches !== undefined) {
      core.makeSpareRoom(batches.baseline);
      servers.push({ close: () => batches.close() });
      stops.push(batches.showMetrics(core.registry));
      const plain = options.listeners.some(({ tls }) => tls === undefined);
      door.useInside((inner) => batches.authenticate(inner, !plain));
    }
    let phase: Phase = "starting";
    const unready = (): string | undefined => {
      if (phase !== "serving") return WHY_UNREADY[phase];
      return core.models.poolKnown ? (core.unready ?? caughtUp?.unready()) : "no InferencePool is known";
    };
    let reload: GatewayReload | undefined;
    const views = viewsOf(core, { unready, limits, peers });
    if (batches !== undefined) {
      const { metrics: page } = views;
      views.metrics = async (format) => batches.withMetrics(await page(format), format);
    }
    const { prometheus } = options;
    const history = prometheus === undefined ? undefined : prometheusHistory(prometheus, "--prometheus", clock);
    const feed = coreFeed(core, {
      history,
      ...{ kind: "gateway", name: "gateway", unready, phase: () => phase },
      warnings: options.read?.warnings,
      settings: () =>
        options.read === undefined
          ? []
          : (reload?.entries(options.read) ?? options.read.entries(options.read.settings)),
    });
    stops.push(feed.stop);
    const admin = await startAdmin({
      ...options.admin,
      clock,
      views,
      feed: feed.source,
      demo: options.demo,
      batches: batches?.shown,
      authorize: (request) => loopbackOnly(parts.options.debugOpen)(request),
    });
    servers.push(admin);
    const onError = (error: unknown): void => core.onError(error);
    const scaler =
      options.scaler && (await startScaler({ ...options.scaler, clock, source: core, leads: () => true, onError }));
    if (scaler !== undefined) stops.push(() => scaler.close());
    await firstLookOver(core.endpoints, clock);
    const { metrics } = core;
    // The page shows these counters from the start: an alert on an absent counter never fires.
    for (const cause of ["connect", "timeout", "reset", "status"] as const) metrics.gatewayRetriesTotal.with(cause);
    const proxy = await startProxy({
      listeners: [
        ...options.listeners.map(({ host, port }, n) => ({ host, port, tls: certificates.listeners[n] })),
        ...(batches === undefined ? [] : [INSIDE]),
      ],
      serverTls: certificates.servers,
      cors: options.cors,
      ...(options.clients && { limits: options.clients }),
      ...(options.streamRest !== undefined && { timers: { streamRest: options.streamRest } }),
      clock,
      random,
      openExchange: (wire) => core.openExchange(wire),
      paths: new PathTable((path) => core.claimsPath(path), allowed),
      authenticate: door.authenticate,
      ownAnswer: firstAnswer(
        door.health(() => unready() === undefined),
        pathsOfOtherModels,
        modelList(core),
      ),
      local: batches,
      maxRetries: options.maxRetries,
      retryStatuses: options.retryStatuses,
      metrics: {
        connectionRefused() {
          metrics.exchangesTotal.with("connection-refused").inc();
          core.watch.unopened("connection_refused", false);
        },
        badRequest(slug) {
          const outcome = outcomeOfUnopened(slug);
          metrics.exchangesTotal.with(outcome).inc();
          core.watch.unopened(slug.replaceAll("-", "_"), outcome === "error");
        },
        retried: (cause) => metrics.gatewayRetriesTotal.with(cause).inc(),
        clientGone() {},
        interrupted() {},
      },
      onUnopened: fewerRefusals(clock, (request) => requests.current?.unopened(request)),
      onClientRefused: refusedClientLog("gateway port", clock, log),
      onError,
    });
    servers.push(proxy);
    stops.push(certificates.follow(proxy.listeners, clock, log));
    parts.useProxy(proxy);
    if (options.file !== undefined) {
      const apply = parts.apply.bind(parts);
      const following = new GatewayReload({ file: options.file, apply, metrics, watch: core.watch, clock, log });
      reload = following;
      stops.push(() => following.close());
      await following.start();
    }
    await batches?.start(`http://${hostPort(INSIDE.host, proxy.listeners.at(-1)!.port)}`);
    phase = "serving";
    return {
      listening: [
        ...options.listeners.map(({ host }, n) => ({
          name: "gateway",
          address: hostPort(host, proxy.listeners[n]!.port),
        })),
        { name: "admin", address: hostPort(options.admin.host, admin.port) },
        ...(options.scaler && scaler ? [{ name: "scaler", address: hostPort(options.scaler.host, scaler.port) }] : []),
      ],
      endpoints: () => core.endpoints.list(),
      useDefaultConfig: async () => core.useConfig(await readConfig({}, log), false),
      useConfigText: async (configText) => core.useConfig(await readConfig({ configText }, log), false),
      note: (text) => core.watch.events.add("demo", "", text),
      async drain() {
        phase = "draining";
        core.watch.events.add("drain-began", "", "the process received its signal to end");
        scaler?.drain();
        await batches?.drain();
        proxy.closeAfterAnswers();
        // Whoever balances the load needs time to see that this gateway is not ready.
        await delay(clock, parts.options.drainTimeout ?? 0);
        await untilHardStop(clock, proxy.drain(), () => core.refuseQueued());
        await close();
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Begins to ask the endpoints which models they serve. */
function startAsking({ clock, endpoints }: InferenceCore, tls: ServerTls, log: Logger): ModelAsker {
  return new ModelAsker({
    clock,
    random: freshRandom(),
    registry: endpoints,
    ask: (endpoint, done) => askForModels(clock, endpoint, tls, done),
    onProblem({ id }, problem) {
      if (problem === "") log.info({ endpoint: id }, "the endpoint lists its models again");
      else
        log.warn(
          { endpoint: id, problem },
          "the endpoint does not list its models; the gateway uses its last list; without a list, the endpoint gets requests for every model",
        );
    },
  });
}

/** Runs the gateway until a signal; returns the exit status. @param file the gateway.yaml to follow, if there is one */
export async function runGateway(
  options: GatewayOptions & LogSettings,
  file: (FollowedFile & { readonly warnings: readonly string[] }) | undefined,
  read: ReadSettings,
): Promise<number> {
  const { logging, jsonReadyLines, memory = UNLIMITED } = options;
  collectGarbageRarely(memory.heapGrowth);
  const log = createLogger({ name: "sluice", ...logging });
  reportMemory(memory, log);
  for (const warning of file?.warnings ?? []) log.warn({}, warning);
  const setLogLevel = (level: string): void => {
    log.level = level;
  };
  const gateway = await startGateway({ ...options, log, file, read, setLogLevel });
  const destination = { write: (text: string) => process.stdout.write(text) };
  const ready = createLogger({ name: "sluice", ...logging, level: "info", destination });
  for (const listening of gateway.listening) {
    const line = readyLine(listening, process.pid);
    if (jsonReadyLines) ready.info({ part: listening.name, address: listening.address }, line);
    else process.stdout.write(`${line}\n`);
  }
  const status = await untilSignal(gateway, log);
  // Bytes that nobody reads from the standard output must not keep the process.
  realClock.after(LINGER, () => process.exit(status), true);
  return status;
}

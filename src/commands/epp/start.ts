import { type Clock, delay } from "../../base/clock/clock.ts";
import { freshRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { fileSignature } from "../../base/document/folder-watch.ts";
import { createH2Server } from "../../base/grpc/h2/server.ts";
import { healthHandlers, type ProbeState, ProcessorHealth, probeHealth } from "../../base/grpc/health.ts";
import { refusedClientLog } from "../../base/grpc/refused-client.ts";
import type { GrpcHandler } from "../../base/grpc/transport.ts";
import { hostPort } from "../../base/inference/endpoint.ts";
import { collectGarbageRarely, limitYoungGeneration } from "../../base/process/garbage.ts";
import { type Listening, type Running, readyLine, untilHardStop, untilSignal } from "../../base/process/lifecycle.ts";
import { reportMemory } from "../../base/process/memory-plan.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { createLogger } from "../../base/telemetry/logging.ts";
import { startRequestTracing } from "../../base/telemetry/otel-tracing.ts";
import { startProcessMetrics } from "../../base/telemetry/process.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import type { EffectiveConfig } from "../../picker/config/effective.ts";
import { followConfig } from "../../picker/core/config-follower.ts";
import { checkedConfig, readConfig } from "../../picker/core/config-source.ts";
import { showSaturation } from "../../picker/core/core-metrics.ts";
import { InferenceCore } from "../../picker/core/inference-core.ts";
import { metricsSettings, startMetrics } from "../../picker/core/metrics-settings.ts";
import { warmUp } from "../../picker/core/warm-up.ts";
import type { KubernetesPoolParts } from "../../pool/controllers/kubernetes-pool.ts";
import type { PoolSource } from "../../pool/controllers/pool-source.ts";
import { startEndpointMetrics } from "../../pool/endpoints/endpoint-metrics.ts";
import { openPeers } from "../../pool/peers/open-peers.ts";
import { showPeers } from "../../pool/peers/peers-metrics.ts";
import { PeersReadiness } from "../../pool/peers/peers-readiness.ts";
import { ModelSource } from "../../pool/resources/model-source.ts";
import { type Authorize, loopbackOnly } from "../../wires/admin/access.ts";
import { viewsOf } from "../../wires/admin/core-views.ts";
import { coreFeed } from "../../wires/admin/page/core-feed.ts";
import { prometheusHistory } from "../../wires/admin/page/history.ts";
import { inspectorProfiler } from "../../wires/admin/profiler.ts";
import { startAdmin } from "../../wires/admin/server.ts";
import { countStreams, showExtProc } from "../../wires/extproc/extproc-metrics.ts";
import { PROCESS_PATH } from "../../wires/extproc/messages.ts";
import { Notices } from "../../wires/extproc/notices.ts";
import { rehearsal } from "../../wires/extproc/rehearsal.ts";
import { processHandler } from "../../wires/extproc/session.ts";
import { type ScalerServer, startScaler } from "../../wires/scaler/server.ts";
import { withSaturationEnvironment } from "./epp-environment.ts";
import type { EppSettings } from "./epp-settings.ts";
import { FilePool } from "./file-pool.ts";
import { metricsAuthorization } from "./metrics-authorization.ts";
import { Readiness } from "./readiness.ts";
import { ServingTls } from "./serving-tls.ts";

/** A running picker. */
export interface Epp extends Running {
  readonly listening: readonly Listening[];
}

/**
 * Starts the picker in the order of epp-protocol 15.4: configuration, certificates, health port (NOT_SERVING), endpoints,
 * warm-up, ext_proc port, then SERVING.
 * @throws SluiceError for a fault in files, flags or ports
 */
export async function startEpp(settings: EppSettings, log: Logger): Promise<Epp> {
  const clock = realClock;
  const random = freshRandom();
  for (const warning of settings.warnings) log.warn({}, warning);
  const { configFile, env = {} } = settings;
  const seen = configFile === undefined ? "" : await fileSignature(configFile);
  const config = withSaturationEnvironment(await readConfig(settings, log), env, log);
  const metrics = metricsSettings(config, settings, { clock, random, log });
  const tls = await ServingTls.load(settings.tls, clock);
  const tracing = await startRequestTracing(settings.tracing, settings.env ?? {}, clock, log);
  const pool = await poolOf(settings, config, { clock, random, log, env });
  const peers = settings.peers && (await openPeers(settings.peers, pool.cluster, { clock, random, log }));
  const core = new InferenceCore({
    clock,
    random,
    config,
    poolName: settings.poolName,
    models: pool.models,
    hooks: pool.hooks,
    cadence: metrics.cadence,
    dialects: metrics.dialects,
    metricsPage: metrics.metricsPage,
    staleness: settings.metricsStalenessThreshold,
    ignoreSubset: settings.disableEndpointSubsetFilter,
    emitScores: settings.emitScores,
    maxEndpoints: settings.maxEndpoints,
    maxRequestBytes: settings.maxRequestBytes,
    learnsBytesPerToken: settings.learnsBytesPerToken,
    parity: settings.parity,
    inferenceModelMetrics: settings.inferenceModelMetrics,
    tracing,
    bodies: settings.bodies,
    indexBytes: settings.memory.index,
    peers,
    ...settings.explain,
    log,
  });
  const state = { started: false, draining: false };
  const caughtUp = core.peers && new PeersReadiness(core.peers, clock);
  const readiness = new Readiness(core, pool, state, log, caughtUp);
  const probed = (): ProbeState => readiness.state();
  const host = settings.bindAddress;
  const onHandlerError = (error: unknown): void => core.onError(error);
  const health = createH2Server(
    { host, port: settings.grpcHealthPort, handlers: healthHandlers(probeHealth(probed)), onHandlerError },
    clock,
  );
  const processor = new ProcessorHealth();
  const notices = new Notices((text) => log.warn({}, text));
  const processing = processHandler({
    wire: settings.wire,
    clock,
    notices,
    openExchange: (wire) => core.openExchange(wire),
    onError: (error) => core.onError(error),
  });
  const handlers = new Map<string, GrpcHandler>([
    [PROCESS_PATH, settings.streamMetrics ? countStreams(processing, core.registry, clock) : processing],
    ...(settings.healthChecking ? healthHandlers(processor) : []),
  ]);
  const extProc = createH2Server(
    {
      host,
      port: settings.grpcPort,
      handlers,
      tls: tls.extProc,
      clientCa: tls.clientCa,
      onClientRefused: refusedClientLog("ext_proc port", clock, log),
      maxStreams: settings.grpcMaxStreams,
      maxTotalStreams: settings.grpcMaxTotalStreams,
      maxConnections: settings.grpcMaxConnections,
      maxMessageBytes: settings.grpcMaxRecvMsgSize || undefined,
      onHandlerError,
    },
    clock,
  );
  const stops = [startProcessMetrics(core.registry, clock)];
  const close = async (): Promise<void> => {
    for (const stop of stops.splice(0)) stop();
    extProc.close();
    health.close();
    await pool.close();
    await core.close();
    await tracing.close();
  };
  try {
    const healthAddress = await health.listen();
    await pool.start(core);
    stops.push(
      startEndpointMetrics({
        ...core,
        view: core.endpointsView,
        poolName: settings.poolName,
        poolInterval: settings.refreshPrometheusMetricsInterval,
      }),
    );
    stops.push(showSaturation(core, settings.poolName));
    if (peers !== undefined) stops.push(showPeers(core.registry, core.peers!, peers.transport, clock));
    stops.push(showExtProc(core, extProc, notices));
    stops.push(startMetrics(core, metrics));
    const read = async (text: string) => withSaturationEnvironment(await checkedConfig(settings, log, text), env, log);
    stops.push(await followConfig({ file: configFile, config, seen, core, log, read }));
    limitYoungGeneration();
    await warmUp(clock, config, { play: rehearsal(settings.wire, clock) });
    limitYoungGeneration();
    const unready = (): string | undefined => readiness.unready();
    const views = viewsOf(core, { unready, peers });
    const { prometheus } = settings;
    const feed = coreFeed(core, {
      history: prometheus === undefined ? undefined : prometheusHistory(prometheus, "--prometheus", clock),
      ...{ kind: "epp", name: settings.poolName, unready, warnings: settings.warnings },
      phase: () => (state.draining ? "draining" : state.started ? "serving" : "starting"),
      settings: () => settings.shown,
    });
    stops.push(feed.stop);
    const admin = await startAdmin({
      host,
      port: settings.metricsPort,
      clock,
      views,
      feed: feed.source,
      authorize: authorizeOf(settings, pool, clock, log),
      tls: tls.metrics,
      profiler: settings.pprof ? inspectorProfiler(clock) : undefined,
    });
    stops.push(() => void admin.close());
    const scaler = await scalerOf(settings, core, pool, tls);
    if (scaler !== undefined) stops.push(() => scaler.close());
    stops.push(tls.follow({ extProc, scaler, metrics: admin }, clock, log));
    const extProcAddress = await extProc.listen();
    state.started = true;
    return {
      listening: [
        { name: "ext-proc", address: hostPort(host, extProcAddress.port) },
        { name: "health", address: hostPort(host, healthAddress.port) },
        { name: "admin", address: hostPort(host, admin.port) },
        ...(scaler === undefined ? [] : [{ name: "scaler", address: hostPort(host, scaler.port) }]),
      ],
      async drain() {
        // The picker still serves new streams: Envoy needs time to learn that it must send them elsewhere (epp-protocol 15.4).
        state.draining = true;
        core.watch.events.add("drain-began", "", "the process received its signal to end");
        processor.drain();
        scaler?.drain();
        // The drain time runs in parallel, so a slow API server takes no drain time away from the requests.
        await Promise.all([pool.resign(), delay(clock, settings.drainTimeout)]);
        await untilHardStop(clock, extProc.drain(), () => core.refuseQueued());
        await close();
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Starts the external scaler where a flag asks for it. @throws SluiceError LISTEN_FAILED */
async function scalerOf(
  { bindAddress, scalerPort }: EppSettings,
  core: InferenceCore,
  pool: PoolSource,
  tls: ServingTls,
): Promise<ScalerServer | undefined> {
  if (scalerPort === undefined) return undefined;
  return startScaler({
    ...{ host: bindAddress, port: scalerPort, tls: tls.scaler, clock: core.clock, source: core },
    // Replicas that share what they know serve all.
    leads: () => core.peers !== undefined || pool.leader() !== false,
    onError: (error) => core.onError(error),
  });
}

/** The flags cannot give this warning: only the configuration says whether it names a file (api-resources 6A.1). */
const NO_KUBERNETES =
  "the endpoints come from the file that dataLayer.discovery names, so Sluice does not use Kubernetes: no pool, no API objects, no leader election, no authentication of metrics";

/**
 * A pool from a file of endpoints when a flag or the configuration names one, else from Kubernetes. @throws SluiceError for a
 * missing or wrong source
 */
async function poolOf(
  settings: EppSettings,
  config: EffectiveConfig,
  parts: Pick<KubernetesPoolParts, "clock" | "random" | "log" | "env">,
): Promise<PoolSource> {
  const { endpointsFile, kubernetes, objectives, resources } = settings;
  if (endpointsFile !== undefined || config.discovery !== undefined) {
    if (kubernetes !== undefined) parts.log.warn({}, NO_KUBERNETES);
    const source = new ModelSource(objectives, resources, parts.clock, parts.log);
    return new FilePool(source, endpointsFile, config, parts.log);
  }
  if (kubernetes === undefined) throw settings.missingEndpoints;
  // Loaded on use: without Kubernetes it costs neither time nor memory.
  const { KubernetesPool } = await import("../../pool/controllers/kubernetes-pool.ts");
  return KubernetesPool.connect({ settings: kubernetes, objectives, ...parts });
}

/**
 * With the flag for it, the cluster's RBAC decides. Otherwise clients with a required certificate may read everything. Without
 * either, `/debug` answers loopback peers only.
 */
function authorizeOf({ tls, debugOpen }: EppSettings, { reviews }: PoolSource, clock: Clock, log: Logger): Authorize {
  if (reviews !== undefined)
    return metricsAuthorization(reviews, new RateLimitedLog(log, clock, { intervalMs: 10_000, maxKeys: 20 }));
  return tls.clientCaFile === undefined ? loopbackOnly(debugOpen) : () => undefined;
}

/** Runs the picker until a signal; returns the exit status. */
export async function runEpp(settings: EppSettings): Promise<number> {
  collectGarbageRarely(settings.memory.heapGrowth);
  limitYoungGeneration();
  const log = createLogger({ name: "sluice", ...settings.logging });
  reportMemory(settings.memory, log);
  const starting = startEpp(settings, log);
  const ended = untilSignal(starting, log);
  const epp = await starting;
  for (const listening of epp.listening) process.stdout.write(`${readyLine(listening, process.pid)}\n`);
  return ended;
}

import { type Authorize, loopbackOnly } from "../admin/access.ts";
import { startAdmin } from "../admin/server.ts";
import { delay } from "../clock/clock.ts";
import { freshRandom } from "../clock/random.ts";
import { realClock } from "../clock/real.ts";
import { PROCESS_PATH } from "../extproc/messages.ts";
import { Notices } from "../extproc/notices.ts";
import { processHandler } from "../extproc/service.ts";
import type { WireOptions } from "../extproc/wire-options.ts";
import { createH2Server } from "../grpc/h2/server.ts";
import { healthHandlers, type ProbeState, ProcessorHealth, probeHealth } from "../grpc/health.ts";
import type { GrpcHandler } from "../grpc/transport.ts";
import { hostPort } from "../inference/endpoint.ts";
import type { SluiceError } from "../inference/errors.ts";
import type { Logger } from "../telemetry/logger.ts";
import { createLogger, type LoggerOptions } from "../telemetry/logging.ts";
import { startProcessMetrics } from "../telemetry/process.ts";
import { type ConfigSource, readConfig } from "./config-source.ts";
import { startDiscovery } from "./discovery.ts";
import { startEndpointMetrics } from "./endpoint-metrics.ts";
import { showExtProc } from "./extproc-metrics.ts";
import { collectGarbageRarely } from "./garbage.ts";
import { InferenceCore } from "./inference-core.ts";
import { type Running, untilHardStop, untilSignal } from "./lifecycle.ts";
import { dialectsWith, type ModelServerSettings } from "./model-servers.ts";
import { ModelSource } from "./model-source.ts";
import { inspectorProfiler } from "./profiler.ts";
import { type Listening, readyLine } from "./ready-line.ts";
import type { ResourceSettings } from "./resource-settings.ts";
import { withSaturationEnvironment } from "./saturation-environment.ts";
import { ServingTls, type TlsSettings } from "./serving-tls.ts";
import { countStreams } from "./stream-counting.ts";
import { viewsOf } from "./views.ts";
import { warmUp } from "./warm-up.ts";

/** How the Endpoint Picker runs; times in milliseconds, sizes in bytes. */
export interface EppSettings extends ConfigSource {
  /** An IP address. */
  readonly bindAddress: string;
  /** Ports: 0 = any. */
  readonly grpcPort: number;
  readonly grpcHealthPort: number;
  readonly metricsPort: number;
  readonly poolName: string;
  readonly endpointsFile: string | undefined;
  /** What to say when neither a flag nor the configuration names endpoints. */
  readonly missingEndpoints: SluiceError;
  /** `NAME=PRIORITY` each. */
  readonly objectives: readonly string[];
  /** Undefined = no API objects. */
  readonly resources: ResourceSettings | undefined;
  readonly tls: TlsSettings;
  readonly wire: WireOptions;
  /** Sends the score of each candidate in the metadata. */
  readonly emitScores: boolean;
  /** How many endpoints a proxy is offered, 1 to 8; undefined = as the picker says. */
  readonly maxEndpoints: number | undefined;
  /** Bytes of one request body; a longer one is refused with 413. */
  readonly maxRequestBytes: number;
  readonly healthChecking: boolean;
  /** Counts ext_proc streams and measures how long they are open. */
  readonly streamMetrics: boolean;
  /** Profiles on the metrics port. */
  readonly pprof: boolean;
  /** At least 50. */
  readonly refreshMetricsInterval: number;
  readonly modelServers: ModelServerSettings;
  /** The interval was given: it holds for idle endpoints, too. */
  readonly fixedCadence: boolean;
  readonly refreshPrometheusMetricsInterval: number;
  readonly metricsStalenessThreshold: number;
  /** 0 = the default. */
  readonly grpcMaxRecvMsgSize: number;
  readonly disableEndpointSubsetFilter: boolean;
  readonly drainTimeout: number;
  readonly logging: Pick<LoggerOptions, "level" | "encoder" | "time">;
  readonly debugOpen: boolean;
  /** For the log, once it exists. */
  readonly warnings: readonly string[];
}

/** A picker that runs. */
export interface Epp extends Running {
  readonly listening: readonly Listening[];
}

/**
 * Starts the picker in the order of epp-protocol 15.4: configuration, certificates, health port (NOT_SERVING), endpoints,
 * warm-up, ext_proc port, then SERVING.
 * @throws SluiceError for anything that is wrong with files, flags or ports
 */
export async function startEpp(settings: EppSettings, log: Logger): Promise<Epp> {
  const clock = realClock;
  const random = freshRandom();
  for (const warning of settings.warnings) log.warn({}, warning);
  const config = withSaturationEnvironment(await readConfig(settings, log), settings.env ?? {}, log);
  if (settings.endpointsFile === undefined && config.discovery === undefined) throw settings.missingEndpoints;
  const tls = await ServingTls.load(settings.tls, clock);
  const source = new ModelSource(settings.objectives, settings.resources, clock, log);
  const core = new InferenceCore({
    clock,
    random,
    config,
    models: source.models,
    cadence: { interval: settings.refreshMetricsInterval, fixed: settings.fixedCadence },
    dialects: dialectsWith(settings.modelServers.metrics),
    metricsPage: settings.modelServers.page,
    staleness: settings.metricsStalenessThreshold,
    ignoreSubset: settings.disableEndpointSubsetFilter,
    emitScores: settings.emitScores,
    maxEndpoints: settings.maxEndpoints,
    maxRequestBytes: settings.maxRequestBytes,
    log,
  });
  const state = { started: false, draining: false };
  // Without --resources the endpoints are a pool of their own: held from the moment they were read.
  const synced = (): boolean => state.started && core.models.poolKnown;
  const ready = (): boolean => synced() && !state.draining;
  const probed = (): ProbeState => ({ synced: synced(), draining: state.draining });
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
    await core.close();
  };
  try {
    const healthAddress = await health.listen();
    const discovery = await startDiscovery(core, settings.endpointsFile, config, log);
    stops.push(() => discovery.close());
    stops.push(() => source.close());
    await source.start();
    stops.push(
      startEndpointMetrics({
        ...core,
        view: core.endpointsView,
        poolName: settings.poolName,
        poolInterval: settings.refreshPrometheusMetricsInterval,
      }),
    );
    stops.push(showExtProc(core, extProc, notices));
    core.start();
    await warmUp(clock, config);
    const admin = await startAdmin({
      host,
      port: settings.metricsPort,
      clock,
      views: viewsOf(core, settings.poolName, ready),
      authorize: authorizeOf(settings),
      tls: tls.metrics,
      profiler: settings.pprof ? inspectorProfiler(clock) : undefined,
    });
    stops.push(() => void admin.close());
    stops.push(tls.follow(extProc, admin, clock, log));
    const extProcAddress = await extProc.listen();
    state.started = true;
    return {
      listening: [
        { name: "ext-proc", address: hostPort(host, extProcAddress.port) },
        { name: "health", address: hostPort(host, healthAddress.port) },
        { name: "admin", address: hostPort(host, admin.port) },
      ],
      async drain() {
        // New streams are served on: Envoy needs time to hear that it should send them elsewhere (epp-protocol 15.4).
        state.draining = true;
        processor.serving = false;
        await delay(clock, settings.drainTimeout);
        await untilHardStop(clock, extProc.drain());
        await close();
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Clients that had to show a certificate may see everything; where anybody can connect, `/debug` is for this machine. */
function authorizeOf({ tls, debugOpen }: EppSettings): Authorize {
  return tls.clientCaFile === undefined ? loopbackOnly(debugOpen) : () => undefined;
}

/** Runs the picker until a signal; returns the exit status. */
export async function runEpp(settings: EppSettings): Promise<number> {
  collectGarbageRarely();
  const log = createLogger({ name: "sluice", ...settings.logging });
  const starting = startEpp(settings, log);
  const ended = untilSignal(starting, log);
  const epp = await starting;
  for (const listening of epp.listening) process.stdout.write(`${readyLine(listening, process.pid)}\n`);
  return ended;
}

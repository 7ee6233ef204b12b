import { freshRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { fileSignature } from "../../base/document/folder-watch.ts";
import { type Endpoint, hostPort } from "../../base/inference/endpoint.ts";
import type { ListenAddress } from "../../base/inference/listen-address.ts";
import { collectGarbageRarely } from "../../base/process/garbage.ts";
import { type Listening, type Running, readyLine, untilHardStop, untilSignal } from "../../base/process/lifecycle.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { createLogger, type LoggerOptions } from "../../base/telemetry/logging.ts";
import { startRequestTracing } from "../../base/telemetry/otel-tracing.ts";
import { startProcessMetrics } from "../../base/telemetry/process.ts";
import { followConfig } from "../../picker/core/config-follower.ts";
import { type ConfigSource, checkedConfig, readConfig } from "../../picker/core/config-source.ts";
import { showSaturation } from "../../picker/core/core-metrics.ts";
import type { ExplainSettings } from "../../picker/core/core-options.ts";
import { startDiscovery } from "../../picker/core/discovery.ts";
import { InferenceCore } from "../../picker/core/inference-core.ts";
import { metricsSettings, NO_METRICS_FLAGS, startMetrics } from "../../picker/core/metrics-settings.ts";
import { warmUp } from "../../picker/core/warm-up.ts";
import type { BudgetSettings } from "../../picker/exchange/byte-budget.ts";
import { Limits, type LimitsSource } from "../../picker/limits/limits.ts";
import { startEndpointMetrics } from "../../pool/endpoints/endpoint-metrics.ts";
import { ModelAsker } from "../../pool/endpoints/model-asker.ts";
import { askForModels } from "../../pool/endpoints/model-client.ts";
import { ModelSource } from "../../pool/resources/model-source.ts";
import type { ResourceSettings } from "../../pool/resources/resource-settings.ts";
import { type Access, startAccess } from "../access/access.ts";
import type { KeysSettings } from "../access/keys-settings.ts";
import { checkDoor } from "../access/open-door.ts";
import { loopbackOnly } from "../admin/access.ts";
import { viewsOf } from "../admin/core-views.ts";
import { startAdmin } from "../admin/server.ts";
import type { BacklogPicture } from "../admin/views.ts";
import { allowedPath } from "../proxy/path-pattern.ts";
import { PathTable } from "../proxy/path-table.ts";
import { startProxy } from "../proxy/server.ts";
import { startScaler } from "../scaler/server.ts";
import { accessParts, fewerRefusals, firstAnswer, ownHealth } from "./gateway-access.ts";
import { modelList } from "./model-list.ts";
import { openRequestLog, type RequestLogSettings } from "./request-log-output.ts";

export interface GatewayOptions extends ConfigSource {
  readonly endpointsFile: string;
  readonly listen: ListenAddress;
  readonly admin: ListenAddress;
  /** Where the external scaler listens; absent = there is none. */
  readonly scaler?: ListenAddress | undefined;
  readonly maxRetries: number;
  readonly retryStatuses: readonly number[];
  /** Paths that clients may use besides those of inference and harmless ones, as `allowedPath` reads them; default none. */
  readonly allowPaths?: readonly string[] | undefined;
  /** `NAME=PRIORITY` each. */
  readonly objectives: readonly string[];
  /** Absent = no API objects. */
  readonly resources?: ResourceSettings | undefined;
  readonly debugOpen: boolean;
  /** Absent = no limits by key and model. */
  readonly limits?: LimitsSource | undefined;
  /** Who may send requests; absent = every client that reaches the address. */
  readonly keys?: KeysSettings | undefined;
  /** Limits of the bytes of bodies in memory. */
  readonly bodies?: BudgetSettings | undefined;
  readonly explain?: ExplainSettings | undefined;
  /** Absent = requests are not logged. */
  readonly requestLog?: RequestLogSettings | undefined;
  /** Whether sluice learns from answers how many bytes of text make a token; default true. */
  readonly learnsBytesPerToken?: boolean;
  /** The queue in front of the endpoints, for the page. A caller that also runs a dispatcher passes it. */
  readonly backlog?: () => BacklogPicture | undefined;
}

/** The lines of the process. */
interface LogSettings {
  readonly logging: Pick<LoggerOptions, "level" | "encoder">;
  /** Ready lines are JSON, too; else text. They are output, which no level hides. */
  readonly jsonReadyLines: boolean;
}

/** A gateway that runs. */
export interface Gateway extends Running {
  /** The proxy, then the admin pages, then the external scaler where there is one. */
  readonly listening: readonly Listening[];
  endpoints(): readonly Endpoint[];
  /** Puts the built-in configuration in force, with an empty prefix index. */
  useDefaultConfig(): Promise<void>;
}

/** Milliseconds without a scrape after which metrics no longer count an endpoint as ready. */
const STALENESS = 2000;
/**
 * Every page shows the pool's averages of the moment, because a dispatcher's gate may read from it how busy the servers are.
 */
const POOL_INTERVAL = 0;
/** Milliseconds that the process may still take after it has drained. */
const LINGER = 1000;

/**
 * Starts the gateway: endpoints, collector, proxy, admin pages. The gateway is ready when the promise resolves.
 * @throws SluiceError for a fault in files, flags or ports
 */
export async function startGateway(options: GatewayOptions & { readonly log: Logger }): Promise<Gateway> {
  const { log, keys } = options;
  const keyed = keys !== undefined && (keys.file !== undefined || keys.jwt.length > 0);
  checkDoor([options.listen], keyed, keys?.open ?? false);
  const allowed = (options.allowPaths ?? []).map(allowedPath);
  const clock = realClock;
  const random = freshRandom();
  const { configFile } = options;
  const seen = configFile === undefined ? "" : await fileSignature(configFile);
  const config = await readConfig(options, log);
  const scraping = metricsSettings(config, NO_METRICS_FLAGS, { clock, random, log });
  const tracing = await startRequestTracing(true, options.env ?? {}, clock, log);
  const source = new ModelSource(options.objectives, options.resources, clock, log);
  const limits = options.limits && (await Limits.open(options.limits, { clock, random, log }));
  const requests = options.requestLog && openRequestLog(options.requestLog, clock, log);
  let access: Access | undefined;
  const core = new InferenceCore({
    clock,
    random,
    config,
    poolName: "gateway",
    models: { ...source.models, keyPriorities: () => access?.priorities() ?? [] },
    cadence: scraping.cadence,
    dialects: scraping.dialects,
    metricsPage: scraping.metricsPage,
    staleness: STALENESS,
    ignoreSubset: false,
    refusesEmptyBodies: true,
    retries: true,
    tracing,
    bodies: options.bodies,
    learnsBytesPerToken: options.learnsBytesPerToken,
    requestLog: requests?.log,
    quotas: limits?.quotas,
    ...options.explain,
    log,
  });
  const stops = [startProcessMetrics(core.registry, clock), () => limits?.close()];
  requests?.countIn(core.metrics.requestLogDroppedTotal.with());
  const servers: { close(): Promise<void> }[] = [];
  const close = async (): Promise<void> => {
    for (const stop of stops.splice(0)) stop();
    await Promise.all(servers.splice(0).map((server) => server.close()));
    await core.close();
    await requests?.close();
    await tracing.close();
  };
  try {
    await limits?.start(core.metrics, core.registry);
    const discovery = await startDiscovery(core, options.endpointsFile, config, log);
    stops.push(() => discovery.close());
    stops.push(() => source.close());
    await source.start();
    stops.push(
      startEndpointMetrics({ ...core, view: core.endpointsView, poolName: "gateway", poolInterval: POOL_INTERVAL }),
    );
    stops.push(showSaturation(core, "gateway"));
    stops.push(startMetrics(core, scraping));
    const read = () => checkedConfig(options, log);
    stops.push(await followConfig({ file: configFile, config, seen, core, log, read }));
    await warmUp(clock, config);
    access = keys && (await startAccess(keys, accessParts(core, log)));
    stops.push(() => access?.close());
    core.keysChanged();
    let draining = false;
    const isReady = (): boolean => !draining && core.models.poolKnown && core.unready === undefined;
    const admin = await startAdmin({
      ...options.admin,
      clock,
      views: viewsOf(core, "gateway", isReady, options.backlog, () => limits?.view()),
      authorize: loopbackOnly(options.debugOpen),
    });
    servers.push(admin);
    const onError = (error: unknown): void => core.onError(error);
    const scaler =
      options.scaler && (await startScaler({ ...options.scaler, clock, source: core, leads: () => true, onError }));
    if (scaler !== undefined) stops.push(() => scaler.close());
    const asker = startAsking(core, log);
    stops.push(() => asker.close());
    const { metrics } = core;
    // The page shows these counters from the start: an alert on an absent counter never fires.
    for (const cause of ["connect", "timeout", "reset", "status"] as const) metrics.gatewayRetriesTotal.with(cause);
    const proxy = await startProxy({
      ...options.listen,
      clock,
      random,
      openExchange: (wire) => core.openExchange(wire),
      paths: new PathTable((path) => core.claimsPath(path), allowed),
      authenticate: access?.authenticate,
      ownAnswer: firstAnswer(access && ownHealth(isReady), modelList(core)),
      maxRetries: options.maxRetries,
      retryStatuses: options.retryStatuses,
      metrics: {
        connectionRefused: () => metrics.exchangesTotal.with("connection-refused").inc(),
        badRequest: () => metrics.exchangesTotal.with("bad-request").inc(),
        retried: (cause) => metrics.gatewayRetriesTotal.with(cause).inc(),
        clientGone() {},
        interrupted() {},
      },
      onUnopened: requests && fewerRefusals(clock, (request) => requests.log.unopened(request)),
      onError,
    });
    servers.push(proxy);
    return {
      listening: [
        { name: "gateway", address: hostPort(options.listen.host, proxy.port) },
        { name: "admin", address: hostPort(options.admin.host, admin.port) },
        ...(options.scaler && scaler ? [{ name: "scaler", address: hostPort(options.scaler.host, scaler.port) }] : []),
      ],
      endpoints: () => core.endpoints.list(),
      useDefaultConfig: async () => core.useConfig(await readConfig({}, log), false),
      async drain() {
        draining = true;
        scaler?.drain();
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
function startAsking({ clock, endpoints }: InferenceCore, log: Logger): ModelAsker {
  return new ModelAsker({
    clock,
    random: freshRandom(),
    registry: endpoints,
    ask: (endpoint, done) => askForModels(clock, endpoint, done),
    onProblem({ id }, problem) {
      if (problem === "") log.info({ endpoint: id }, "the endpoint lists its models again");
      else
        log.warn(
          { endpoint: id, problem },
          "the endpoint does not list its models; the last list counts, or every name",
        );
    },
  });
}

/** Runs the gateway until a signal; returns the exit status. */
export async function runGateway(options: GatewayOptions & LogSettings): Promise<number> {
  collectGarbageRarely();
  const { logging, jsonReadyLines } = options;
  const log = createLogger({ name: "sluice", ...logging });
  const gateway = await startGateway({ ...options, log });
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

import { isDeepStrictEqual } from "node:util";
import { checkPlace } from "../../async/batch-api/place-check.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { ListenAddress } from "../../base/inference/listen-address.ts";
import type { MemoryPlan } from "../../base/process/memory-plan.ts";
import type { LoggerOptions } from "../../base/telemetry/logging.ts";
import type { ConfigSource } from "../../picker/core/config-source.ts";
import type { ExplainSettings } from "../../picker/core/core-options.ts";
import type { BudgetSettings } from "../../picker/exchange/byte-budget.ts";
import type { LimitsSource } from "../../picker/limits/limits.ts";
import type { EndpointsSettings } from "../../pool/discovery/endpoints-settings.ts";
import { type PeersSettings, peersSettings } from "../../pool/peers/peers-settings.ts";
import { type ResourceSettings, resourceSettings } from "../../pool/resources/resource-settings.ts";
import type { KeysSettings } from "../access/keys-settings.ts";
import type { CorsSettings } from "../proxy/cors.ts";
import type { ProxyLimits } from "../proxy/options.ts";
import { type BatchSettings, batchSettings } from "./batch-settings.ts";
import { type GatewayFile, inlineConfig } from "./gateway-file.ts";
import type { GatewaySettings } from "./gateway-settings.ts";
import { type GatewayListener, listenersOf } from "./listener-settings.ts";
import type { RequestLogSettings } from "./request-log-output.ts";
import { requestLogEvery } from "./request-log-which.ts";
import type { ServerTlsFiles } from "./server-tls-settings.ts";

/** The connections of clients, and those to model servers. */
export interface GatewayConnections {
  /** At least one. */
  readonly listeners: readonly GatewayListener[];
  /** TLS to model servers. Absent = only endpoints with `scheme: https` speak it. */
  readonly serverTls?: ServerTlsFiles | undefined;
  /** Absent = no page of another origin may use the gateway. */
  readonly cors?: CorsSettings | undefined;
  /** Limits of client connections. */
  readonly clients?: Partial<Pick<ProxyLimits, "connections" | "connectionsPerAddress">> | undefined;
}

export interface GatewayOptions extends ConfigSource, GatewayConnections {
  /** Absent = the configuration names the discovery. */
  readonly endpoints: EndpointsSettings | undefined;
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
  /** Milliseconds of `ProxyTimers.streamRest`. */
  readonly streamRest?: number | undefined;
  /** The address of a Prometheus, for longer spans on the page; absent = none. */
  readonly prometheus?: string | undefined;
  /** Milliseconds after the signal to end in which the gateway, no longer ready, still takes requests; default 0. */
  readonly drainTimeout?: number | undefined;
  /** Absent = no limits by key and model. */
  readonly limits?: LimitsSource | undefined;
  /** With whom the gateway shares what it knows; absent = with nobody. */
  readonly peers?: PeersSettings | undefined;
  /** Who may send requests; absent = every client that reaches the address. */
  readonly keys?: KeysSettings | undefined;
  /** Limits of the bytes of bodies in memory. */
  readonly bodies?: BudgetSettings | undefined;
  /** Absent = no memory limit. */
  readonly memory?: MemoryPlan | undefined;
  readonly explain?: ExplainSettings | undefined;
  /** Absent, or without a folder = no Batch API. */
  readonly batch?: BatchSettings | undefined;
  /** Absent = requests are not logged. */
  readonly requestLog?: RequestLogSettings | undefined;
  /** Whether Sluice learns from answers how many bytes of text make a token; default true. */
  readonly learnsBytesPerToken?: boolean;
}

/** The lines of the process. */
export interface LogSettings {
  readonly logging: Pick<LoggerOptions, "level" | "encoder">;
  /** Ready lines are JSON, too; else text. They are output, which no level hides. */
  readonly jsonReadyLines: boolean;
}

/** The options that settings describe, whether they come from a file, from flags or from both. */
export type DescribedOptions = GatewayOptions & LogSettings;

/**
 * The options of a gateway with these settings.
 * @param file the file of the settings, if there is one
 * @throws SluiceError FLAG_CONFLICT, FLAG_VALUE where a flag and a key of the file do not fit together
 */
export function gatewayOptions(
  settings: GatewaySettings,
  file: GatewayFile | undefined,
  env: ConfigSource["env"],
): DescribedOptions {
  const { listeners, connections, admin, scaler, endpoints, retries, paths, bodies, log, explain } = settings;
  const every = requestLogEvery(log.requests.which);
  if (every === "wrong")
    throw new SluiceError("FLAG_VALUE", "log.requests.which (--request-log) must be off, errors, all or 1/N");
  if (every === undefined && log.requests.file !== "-")
    throw new SluiceError(
      "FLAG_CONFLICT",
      "--request-log-file has no effect with --request-log off; give --request-log errors, all or 1/N",
    );
  if (connections.perAddress !== undefined && connections.perAddress > connections.max)
    throw new SluiceError(
      "FLAG_CONFLICT",
      `connections.perAddress (--max-connections-per-address) is ${connections.perAddress}, more than connections.max (--max-connections), which is ${connections.max}`,
    );
  if (bodies.small > bodies.smallReserve)
    throw new SluiceError(
      "FLAG_CONFLICT",
      `bodies.small (--small-body) is ${bodies.small} bytes, more than bodies.smallReserve (--small-body-reserve), which is ${bodies.smallReserve} bytes`,
    );
  const { folder, redis, ...rest } = settings.batch;
  const { folder: _none, ...usual } = batchSettings.parse({});
  // A key that the file leaves out may be there without a value.
  const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
  if (folder === undefined && redis === undefined && !isDeepStrictEqual(given, usual))
    throw new SluiceError(
      "FLAG_CONFLICT",
      "settings of batches (--batch-..., section batch) have no effect without batch.folder or batch.redis (--batch); give one of them",
    );
  checkPlace(settings.batch);
  if (rest.webhookSecretFile !== undefined && rest.webhook === undefined)
    throw new SluiceError(
      "FLAG_CONFLICT",
      "batch.webhookSecretFile (--batch-webhook-secret-file) has no effect without batch.webhook (--batch-webhook)",
    );
  const peers = peersSettings(settings.peers, env ?? {});
  return {
    ...configSource(settings, file, env),
    endpoints,
    listeners: listenersOf(listeners),
    serverTls: settings.servers.tls,
    cors: settings.cors,
    clients: { connections: connections.max, connectionsPerAddress: connections.perAddress },
    keys: settings.keys,
    limits: limitsOf(settings, file, peers),
    peers,
    streamRest: settings.streams.rest,
    drainTimeout: settings.drain.timeout,
    admin: admin.address,
    debugOpen: admin.open,
    prometheus: admin.prometheus,
    scaler: scaler.address,
    maxRetries: retries.max,
    retryStatuses: retries.statuses,
    allowPaths: paths.allow,
    objectives: Object.entries(settings.objectives).map(([name, priority]) => `${name}=${priority}`),
    resources: resourcesOf(settings),
    bodies: {
      limit: bodies.budget,
      small: bodies.small,
      reserve: bodies.smallReserve,
      minRate: bodies.minRate,
      window: bodies.stallWindow,
    },
    explain,
    batch: settings.batch,
    requestLog: every === undefined ? undefined : { every, file: log.requests.file },
    learnsBytesPerToken: settings.learnBytesPerToken,
    logging: { level: log.level, encoder: log.format },
    jsonReadyLines: log.format === "json",
  };
}

/** Where the configuration of the picker comes from. */
export function configSource(
  { picker }: GatewaySettings,
  file: GatewayFile | undefined,
  env: ConfigSource["env"],
): ConfigSource {
  const { configFile, profile, config, allowExperimentalPlugins: allowExperimental } = picker;
  const document = config === undefined ? undefined : file && inlineConfig(file);
  const inline = document && { document, folder: file!.folder };
  return { configFile, profile, inline, allowExperimental, env };
}

/** A file may get rules while the gateway runs, so it has limits from the start. */
function limitsOf(
  { limits }: GatewaySettings,
  gatewayFile: GatewayFile | undefined,
  peers: PeersSettings | undefined,
): LimitsSource | undefined {
  const { file, rules, redis, ca, certificate, key } = limits;
  if (gatewayFile === undefined && file === undefined && redis === undefined && rules.length === 0) return undefined;
  return { file, settings: { rules }, redis, tls: { ca, certificate, key }, peers };
}

function resourcesOf({ resources }: GatewaySettings): GatewayOptions["resources"] {
  const { folder, poolName, poolNamespace, modelMatching, standardShedAt, legacyCriticality } = resources;
  return resourceSettings({
    directory: folder,
    pool: { name: poolName, namespace: poolNamespace },
    namespace: poolNamespace ?? "default",
    modelMatching,
    standardShedAt: String(standardShedAt),
    legacyCriticality,
  });
}

import { SluiceError } from "../../base/inference/errors.ts";
import type { ConfigSource } from "../../picker/core/config-source.ts";
import { resourceSettings } from "../../pool/resources/resource-settings.ts";
import type { GatewayOptions, LogSettings } from "./gateway.ts";
import { type GatewayFile, inlineConfig } from "./gateway-file.ts";
import type { GatewaySettings } from "./gateway-settings.ts";
import { requestLogEvery } from "./request-log-which.ts";

/** The options that settings describe, whether they come from a file, from flags or from both. */
export type DescribedOptions = GatewayOptions & LogSettings;

/**
 * The options of a gateway with these settings.
 * @param file the file of the settings, if there is one
 * @throws SluiceError FLAG_CONFLICT where a flag and a key of the file do not fit together
 */
export function gatewayOptions(
  settings: GatewaySettings,
  file: GatewayFile | undefined,
  env: ConfigSource["env"],
): DescribedOptions {
  const { listeners, admin, scaler, endpoints, retries, paths, bodies, log, explain } = settings;
  const every = requestLogEvery(log.requests.which);
  if (every === "wrong") throw new SluiceError("FLAG_VALUE", "log.requests.which is not readable");
  if (every === undefined && log.requests.file !== "-")
    throw new SluiceError("FLAG_CONFLICT", "--request-log-file needs another --request-log than off");
  if (bodies.small > bodies.smallReserve)
    throw new SluiceError(
      "FLAG_CONFLICT",
      `a small body may have ${bodies.small} bytes, more than the reserve for small bodies (${bodies.smallReserve})`,
    );
  return {
    ...configSource(settings, file, env),
    endpoints,
    listen: listeners[0]!.address,
    admin: admin.address,
    debugOpen: admin.open,
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

import { SluiceError } from "../../base/inference/errors.ts";
import type { Discovery } from "../../base/plugin/kinds.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { EndpointsFlavour } from "../../pool/endpoints/address.ts";
import { FileDiscovery } from "../../pool/endpoints/file-discovery.ts";
import type { EffectiveConfig } from "../config/effective.ts";
import type { InferenceCore } from "./inference-core.ts";
import { instancesOf } from "./plan.ts";

/**
 * Starts the discovery. It is either the file of `--endpoints`, which may contain host names and is watched, or the plugin that
 * the configuration names, which is stricter.
 * @throws SluiceError FLAG_CONFLICT, ENDPOINTS_MISSING, and the errors of the file
 */
export async function startDiscovery(
  core: InferenceCore,
  endpointsFile: string | undefined,
  config: EffectiveConfig,
  log: Logger,
): Promise<FileDiscovery> {
  const plugin = config.discovery;
  if (endpointsFile !== undefined && plugin !== undefined)
    throw new SluiceError(
      "FLAG_CONFLICT",
      `--endpoints and dataLayer.discovery in ${config.source} both name endpoints; keep one`,
    );
  let source: Discovery;
  let flavour: EndpointsFlavour = "lenient";
  if (endpointsFile !== undefined) source = { path: endpointsFile, watchFile: true };
  else if (plugin !== undefined) {
    const { clock, random } = core;
    source = instancesOf(config, { clock, random, log }).make(plugin);
    flavour = source.multicluster ? "multicluster" : "strict";
  } else
    throw new SluiceError(
      "ENDPOINTS_MISSING",
      "no endpoints: give --endpoints FILE, or dataLayer.discovery in the configuration",
    );
  const discovery = new FileDiscovery({
    ...source,
    flavour,
    registry: core.endpoints,
    clock: core.clock,
    log: { warn: (text) => log.warn({}, text), info: (text) => log.info({}, text) },
  });
  await discovery.start();
  return discovery;
}

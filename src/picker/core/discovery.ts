import { SluiceError } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { discoveryOf } from "../../pool/discovery/discovery-of.ts";
import type { EndpointsSettings } from "../../pool/discovery/endpoints-settings.ts";
import type { DiscoveredPool, RunningDiscovery } from "../../pool/discovery/pool-filler.ts";
import { FileDiscovery } from "../../pool/endpoints/file-discovery.ts";
import type { EffectiveConfig } from "../config/effective.ts";
import type { InferenceCore } from "./inference-core.ts";
import { instancesOf } from "./plan.ts";

/** The surroundings of a discovery. */
export interface DiscoveryOptions {
  readonly core: Pick<InferenceCore, "clock" | "random">;
  /** Absent = the configuration names the discovery. */
  readonly endpoints: EndpointsSettings | undefined;
  readonly config: EffectiveConfig;
  readonly pool: DiscoveredPool;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether the start fails where a source has no answer yet; see `DnsDiscovery`. */
  readonly needsAnswers: boolean;
  readonly log: Logger;
}

/**
 * The discovery of a process, not started. It is either the one of flags or gateway.yaml, which may contain host names and is
 * followed, or the plugin that the configuration names, which is stricter.
 * @throws SluiceError FLAG_CONFLICT, ENDPOINTS_MISSING
 */
export function discoveryFor(options: DiscoveryOptions): RunningDiscovery {
  const { core, endpoints, config, pool, log } = options;
  const plugin = config.discovery;
  const { clock, random } = core;
  if (endpoints !== undefined && plugin !== undefined)
    throw new SluiceError(
      "FLAG_CONFLICT",
      `--endpoints and dataLayer.discovery in ${config.source} both name endpoints; keep one`,
    );
  if (endpoints !== undefined) return discoveryOf(endpoints, { ...options, clock });
  if (plugin === undefined)
    throw new SluiceError(
      "ENDPOINTS_MISSING",
      "no endpoints: give --endpoints FILE, or dataLayer.discovery in the configuration",
    );
  const source = instancesOf(config, { clock, random, log }).make(plugin);
  return new FileDiscovery({
    ...source,
    flavour: source.multicluster ? "multicluster" : "strict",
    registry: pool,
    clock,
    log: { warn: (text) => log.warn({}, text), info: (text) => log.info({}, text) },
  });
}

/**
 * Starts the discovery of an endpoints file, or of the configuration.
 * @throws SluiceError FLAG_CONFLICT, ENDPOINTS_MISSING, and the errors of the file
 */
export async function startDiscovery(
  core: InferenceCore,
  endpointsFile: string | undefined,
  config: EffectiveConfig,
  log: Logger,
): Promise<RunningDiscovery> {
  const endpoints = endpointsFile === undefined ? undefined : ({ kind: "file", path: endpointsFile } as const);
  const discovery = discoveryFor({ core, endpoints, config, pool: core.endpoints, env: {}, needsAnswers: false, log });
  await discovery.start();
  return discovery;
}

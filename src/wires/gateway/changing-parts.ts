import { fileSignature } from "../../base/document/folder-watch.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { EffectiveConfig } from "../../picker/config/effective.ts";
import { followConfig } from "../../picker/core/config-follower.ts";
import { type ConfigSource, checkedConfig } from "../../picker/core/config-source.ts";
import { discoveryFor } from "../../picker/core/discovery.ts";
import type { InferenceCore } from "../../picker/core/inference-core.ts";
import { sameDataLayer } from "../../picker/core/metrics-settings.ts";
import type { Limits } from "../../picker/limits/limits.ts";
import type { ModelSource } from "../../pool/resources/model-source.ts";
import { objectivesFromFlags } from "../../pool/resources/objectives.ts";
import { allowedPath } from "../proxy/path-pattern.ts";
import { PathTable } from "../proxy/path-table.ts";
import type { RunningProxy } from "../proxy/server.ts";
import { type AccessSwitch, checkEntry } from "./access-switch.ts";
import { EndpointsSwitch } from "./endpoints-switch.ts";
import type { GatewayKey } from "./gateway-keys.ts";
import type { GatewayOptions, LogSettings } from "./gateway-options.ts";
import type { ReadSettings } from "./gateway-reload.ts";
import { checkOtherTls } from "./gateway-tls.ts";
import type { RequestLogSwitch } from "./request-log-switch.ts";

interface Parts {
  readonly core: InferenceCore;
  /** The configuration of the start. */
  readonly config: EffectiveConfig;
  readonly source: ModelSource;
  readonly requests: RequestLogSwitch;
  readonly access: AccessSwitch;
  /** Absent = no limits by key and model. */
  readonly limits: Limits | undefined;
  readonly log: Logger;
  readonly setLogLevel: ((level: string) => void) | undefined;
}

/** Options of the moment; those that need a restart are read at the start only. */
type CurrentOptions = GatewayOptions & Partial<LogSettings>;

/** The parts of a running gateway that a change of gateway.yaml replaces or sets. */
export class ChangingParts {
  readonly #parts: Parts;
  readonly #endpoints: EndpointsSwitch;
  /** Those of the start: other listeners and certificates need a restart. */
  readonly #started: CurrentOptions;
  /** The options in force. */
  options: CurrentOptions;
  #config: EffectiveConfig;
  #proxy: Pick<RunningProxy, "use"> | undefined;
  #stopConfig: () => void = () => {};
  #closed = false;

  constructor(parts: Parts, options: CurrentOptions) {
    this.#parts = parts;
    this.options = options;
    this.#started = options;
    this.#config = parts.config;
    this.#endpoints = new EndpointsSwitch(parts.core.endpoints, (error) => this.#unfollowed(error));
  }

  /** @throws SluiceError of the source of endpoints */
  startDiscovery(): Promise<void> {
    return this.#discover(this.options, this.#config, false);
  }

  /** Follows the file of the configuration, if it has one. @param seen its signature when it was read */
  async followConfig(seen: string): Promise<void> {
    const { core, log } = this.#parts;
    const { options } = this;
    const read = (text: string) => checkedConfig(options, log, text);
    this.#stopConfig();
    const config = this.#config;
    const stop = await followConfig({ file: options.configFile, config, seen, core, log, read });
    this.#stopConfig = stop;
    if (this.#closed) stop();
  }

  useProxy(proxy: Pick<RunningProxy, "use">): void {
    this.#proxy = proxy;
  }

  close(): void {
    this.#closed = true;
    this.#endpoints.close();
    this.#stopConfig();
  }

  /**
   * Puts changed keys in force. First it reads all that can be wrong. Then it changes everything in one step, so no request sees
   * a half of it.
   * @throws SluiceError where a part is wrong; then nothing has changed. Once the change is in force, nothing is thrown
   */
  async apply({ options }: ReadSettings, changed: ReadonlySet<GatewayKey>): Promise<void> {
    const { core, source, requests, access, log, setLogLevel } = this.#parts;
    checkEntry([...this.#started.listeners, ...options.listeners], options.keys);
    checkOtherTls(options, this.#started);
    const has = (section: string): boolean => [...changed].some((key) => key.startsWith(section));
    const picker = has("picker.");
    const objectives = objectivesFromFlags(options.objectives);
    const allowed = (options.allowPaths ?? []).map(allowedPath);
    const seen = picker ? await signatureOf(options) : "";
    const config = picker ? await checkedConfig(options, log) : this.#config;
    const limits = has("limits.") ? await this.#parts.limits?.read(options.limits ?? {}) : undefined;
    const lines = has("log.requests.") ? requests.open(options.requestLog) : undefined;
    let keys: Awaited<ReturnType<AccessSwitch["open"]>> | undefined;
    let isInForce = false;
    const commit = (): void => {
      // The only step that can fail: the configuration then stays as it was.
      if (picker) core.useConfig(config, true);
      isInForce = true;
      lines?.use();
      keys?.use();
      limits?.use();
      core.useRequestLog(requests.current);
      if (changed.has("objectives")) {
        source.useObjectives(objectives);
        core.objectivesChanged();
      }
      this.#proxy?.use({
        paths: new PathTable((path) => core.claimsPath(path), allowed),
        maxRetries: options.maxRetries,
        retryStatuses: options.retryStatuses,
        cors: options.cors,
        authenticate: access.authenticate,
      });
      if (options.logging?.level !== undefined) setLogLevel?.(options.logging.level);
      this.options = options;
    };
    try {
      keys = has("keys.") ? await access.open(options.keys) : undefined;
      if (changed.has("endpoints") || sourceOf(config) !== sourceOf(this.#config))
        await this.#discover(options, config, true, commit);
      else commit();
    } catch (error) {
      if (!isInForce) {
        lines?.giveUp();
        keys?.giveUp();
      }
      throw error;
    }
    if (picker) {
      if (!sameDataLayer(this.#parts.config, config))
        log.warn({}, "changes under dataLayer of the configuration take effect at the next start of the process");
      this.#config = config;
    }
    try {
      await limits?.follow();
      if (picker) await this.followConfig(seen);
    } catch (error) {
      this.#unfollowed(error);
    }
  }

  /** A change is in force, and a file of it cannot be followed: a message that it was refused would be wrong. */
  #unfollowed(error: unknown): void {
    const text =
      "the gateway uses the change, but cannot watch a file that it names: restart the gateway after you change that file";
    this.#parts.log.error({ cause: messageOf(error) }, text);
  }

  #discover(
    options: GatewayOptions,
    config: EffectiveConfig,
    needsAnswers: boolean,
    taken?: () => void,
  ): Promise<void> {
    const { core, log } = this.#parts;
    const { endpoints, env = {} } = options;
    return this.#endpoints.use(
      (pool) => discoveryFor({ core, endpoints, config, pool, env, needsAnswers, log }),
      taken,
    );
  }
}

/** The signature of the file of a configuration; "" where it has none. */
export async function signatureOf({ configFile }: ConfigSource): Promise<string> {
  return configFile === undefined ? "" : fileSignature(configFile);
}

/** Whether the configuration itself names the endpoints. */
function sourceOf(config: EffectiveConfig): boolean {
  return config.discovery !== undefined;
}

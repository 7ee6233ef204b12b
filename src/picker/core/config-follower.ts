import { dirname } from "node:path";
import type { Clock } from "../../base/clock/clock.ts";
import { FolderWatch, fileSignature } from "../../base/document/folder-watch.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import { type EffectiveConfig, effectiveSummary } from "../config/effective.ts";
import { configFingerprint } from "../config/fingerprint.ts";
import type { InferenceCore } from "./inference-core.ts";
import { sameDataLayer } from "./metrics-settings.ts";

export interface ConfigFollowerOptions {
  readonly file: string;
  /** The configuration in force, which was read from the file. */
  readonly config: EffectiveConfig;
  /** What the file was when that was read, by `fileSignature`. */
  readonly seen: string;
  /** Reads the file anew, without putting it in force. Throws what is wrong with it. */
  read(): Promise<EffectiveConfig>;
  /** Puts a configuration in force. Throws what the making of a plugin throws; then the old one stays. */
  use(config: EffectiveConfig): void;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Follows the configuration file. A new one is in force from the next request on, and plugins that it describes as before
 * go on with what they have learnt. A broken one leaves the old one in force, and says so: in the log, with every problem and
 * its line, and in `sluice_config_refused`. Where metrics and endpoints come from is settled at the start of the process.
 */
export class ConfigFollower {
  readonly #options: ConfigFollowerOptions;
  readonly #watch: FolderWatch;
  #config: EffectiveConfig;

  constructor(options: ConfigFollowerOptions) {
    const { file, clock, log, config } = options;
    this.#options = options;
    this.#config = config;
    this.#tell(config, false);
    // On the page from the start: an alert on a counter that is not there never fires.
    for (const result of ["applied", "refused"]) options.metrics.configReloadsTotal.with(result);
    this.#watch = new FolderWatch({
      folder: dirname(file),
      clock,
      signature: () => fileSignature(file),
      changed: () => this.#reload(),
      unwatchable: (text) => log.warn({}, `configuration file: ${text}`),
    });
  }

  /** Begins to follow; what changed since the configuration was read is not missed. */
  start(): Promise<void> {
    return this.#watch.start(this.#options.seen);
  }

  close(): void {
    this.#watch.close();
  }

  async #reload(): Promise<void> {
    const { file, log, metrics } = this.#options;
    try {
      const config = await this.#options.read();
      this.#options.use(config);
      this.#config = config;
      metrics.configReloadsTotal.with("applied").inc();
      this.#tell(config, false);
      log.info(
        { configuration: configFingerprint(config), ...effectiveSummary(config) },
        "the changed configuration is in force",
      );
      if (!sameDataLayer(this.#options.config, config))
        log.warn({ file }, "what changed under dataLayer takes effect with the next start of the process");
    } catch (error) {
      metrics.configReloadsTotal.with("refused").inc();
      this.#tell(this.#config, true);
      // Ours names every problem with its line, and is as long as it takes.
      const problems = error instanceof SluiceError ? error.message : messageOf(error);
      log.error({ file }, `the changed configuration is refused, the old one stays in force: ${problems}`);
    }
  }

  #tell(config: EffectiveConfig, refused: boolean): void {
    const { metrics } = this.#options;
    metrics.configInfo.clear();
    metrics.configInfo.with(configFingerprint(config)).set(1);
    metrics.configRefused.with().set(refused ? 1 : 0);
  }
}

/** Follows the file that a process takes its configuration from, if there is one. @returns what stops that */
export async function followConfig(options: {
  readonly file: string | undefined;
  readonly config: EffectiveConfig;
  readonly seen: string;
  readonly core: InferenceCore;
  readonly log: Logger;
  read(): Promise<EffectiveConfig>;
}): Promise<() => void> {
  const { file, core, ...rest } = options;
  if (file === undefined) return () => {};
  const { clock, metrics } = core;
  const use = (config: EffectiveConfig): void => core.useConfig(config, true);
  const follower = new ConfigFollower({ ...rest, file, clock, metrics, use });
  await follower.start();
  return () => follower.close();
}

import { dirname } from "node:path";
import type { Clock } from "../../base/clock/clock.ts";
import { FolderWatch, fileSignature } from "../../base/document/folder-watch.ts";
import { readText } from "../../base/document/read.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { yamlLinesWithoutSecrets } from "../../base/inference/secrets.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import { type EffectiveConfig, effectiveSummary } from "../config/effective.ts";
import { configFingerprint } from "../config/fingerprint.ts";
import { MAX_CONFIG_BYTES } from "./config-source.ts";
import type { InferenceCore } from "./inference-core.ts";
import { sameDataLayer } from "./metrics-settings.ts";
import { lineDifference } from "./watch/line-difference.ts";
import type { TrafficWatch } from "./watch/traffic-watch.ts";

export interface ConfigFollowerOptions {
  readonly file: string;
  /** The configuration in force, read from the file. */
  readonly config: EffectiveConfig;
  /** The signature of the file when it was read, by `fileSignature`. */
  readonly seen: string;
  /** Reads a changed text of the file, without putting it in force. Throws the errors of the text. */
  read(text: string): Promise<EffectiveConfig>;
  /** Puts a configuration in force. Throws the error of a plugin's creation; then the old configuration stays. */
  use(config: EffectiveConfig): void;
  readonly metrics: Metrics;
  /** Learns of each change, for the page. */
  readonly watch?: Pick<TrafficWatch, "events" | "reloads"> | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Follows the configuration file. A new configuration is in force from the next request on. Plugins whose description is
 * unchanged keep their state. A broken one leaves the old one in force. The log then shows every problem with its line, and
 * `sluice_config_refused` is 1. Sources of metrics and the discovery change only at the next start of the process.
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
    // The page shows both from the start: an alert on a missing counter never fires.
    for (const result of ["applied", "refused"]) options.metrics.configReloadsTotal.with(result);
    this.#watch = new FolderWatch({
      folder: dirname(file),
      clock,
      signature: () => fileSignature(file),
      changed: () => this.#reload(),
      unwatchable: (text) => log.warn({}, `configuration file: ${text}`),
    });
  }

  /** Begins to follow. It also finds a change since the configuration was read. */
  start(): Promise<void> {
    return this.#watch.start(this.#options.seen);
  }

  close(): void {
    this.#watch.close();
    const { metrics } = this.#options;
    metrics.configInfo.clear();
    metrics.configRefused.with().set(0);
  }

  async #reload(): Promise<void> {
    const { file, log, metrics, watch, clock } = this.#options;
    const at = clock.wall();
    const before = this.#config.document.text;
    let text = "";
    const difference = (): readonly string[] => lineDifference(before, text, yamlLinesWithoutSecrets);
    try {
      text = await readText(file, { maxBytes: MAX_CONFIG_BYTES });
      const config = await this.#options.read(text);
      this.#options.use(config);
      this.#config = config;
      watch?.reloads.add({ at, what: file, result: "applied", problems: "", difference: difference() });
      watch?.events.add("config-changed", file, `Sluice uses the changed configuration ${configFingerprint(config)}`);
      metrics.configReloadsTotal.with("applied").inc();
      this.#tell(config, false);
      log.info(
        { configuration: configFingerprint(config), ...effectiveSummary(config) },
        "Sluice uses the changed configuration",
      );
      if (!sameDataLayer(this.#options.config, config))
        log.warn({ file }, "changes under dataLayer take effect at the next start of the process");
    } catch (error) {
      metrics.configReloadsTotal.with("refused").inc();
      this.#tell(this.#config, true);
      // A SluiceError names every problem with its line, so its message is not shortened.
      const problems = error instanceof SluiceError ? error.message : messageOf(error);
      watch?.reloads.add({ at, what: file, result: "refused", problems, difference: difference() });
      watch?.events.add("config-refused", file, `Sluice refuses a change of ${file}: ${problems}`);
      log.error({ file }, `Sluice refuses the changed configuration and keeps the old configuration: ${problems}`);
    }
  }

  #tell(config: EffectiveConfig, refused: boolean): void {
    const { metrics } = this.#options;
    metrics.configInfo.clear();
    metrics.configInfo.with(configFingerprint(config)).set(1);
    metrics.configRefused.with().set(refused ? 1 : 0);
  }
}

/** Follows the configuration file of a process, if there is one. @returns a function that stops this */
export async function followConfig(options: {
  readonly file: string | undefined;
  readonly config: EffectiveConfig;
  readonly seen: string;
  readonly core: InferenceCore;
  readonly log: Logger;
  read(text: string): Promise<EffectiveConfig>;
}): Promise<() => void> {
  const { file, core, ...rest } = options;
  if (file === undefined) return () => {};
  const { clock, metrics, watch } = core;
  const use = (config: EffectiveConfig): void => core.useConfig(config, true);
  const follower = new ConfigFollower({ ...rest, file, clock, metrics, watch, use });
  await follower.start();
  return () => follower.close();
}

import { dirname } from "node:path";
import type { Clock } from "../../base/clock/clock.ts";
import { FolderWatch, fileSignature } from "../../base/document/folder-watch.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import type { TrafficWatch } from "../../picker/core/watch/traffic-watch.ts";
import type { SettingEntry } from "../admin/feed/config.ts";
import { type GatewayKey, settingsChange } from "./gateway-keys.ts";
import type { DescribedOptions } from "./gateway-options.ts";
import type { GatewaySettings } from "./gateway-settings.ts";
import { settingsDifference } from "./settings-view.ts";

/** What a gateway.yaml and the flags say together. */
export interface ReadSettings {
  readonly settings: GatewaySettings;
  readonly options: DescribedOptions;
  /** A sentence for each key that has no effect, because a flag counts instead. */
  readonly warnings: readonly string[];
  /** Every key with its value in force and the origin of it. */
  entries(inForce: GatewaySettings): readonly SettingEntry[];
  /** `file:line:column: key`. */
  placeOf(key: GatewayKey): string;
}

/** A gateway.yaml to follow. */
export interface FollowedFile {
  readonly path: string;
  /** The signature of the file when it was read, by `fileSignature`. */
  readonly seen: string;
  readonly settings: GatewaySettings;
  /** @throws SluiceError DOCUMENT_..., FLAG_CONFLICT */
  read(): Promise<ReadSettings>;
}

export interface GatewayReloadOptions {
  readonly file: FollowedFile;
  /** Puts the changed keys in force, all or none. Throws where it cannot. */
  apply(next: ReadSettings, changed: ReadonlySet<GatewayKey>): Promise<void>;
  readonly metrics: Metrics;
  /** Learns of each change, for the page. */
  readonly watch: Pick<TrafficWatch, "events" | "reloads">;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Follows a gateway.yaml. A change takes effect in one step while requests run. A change that is wrong has no effect at all: the
 * last good content stays in force, and the log names each fault with its line. Keys that need a restart are named, too.
 */
export class GatewayReload {
  readonly #options: GatewayReloadOptions;
  readonly #watch: FolderWatch;
  #inForce: GatewaySettings;
  /** As it was read last; undefined = the file has not changed since the start. */
  #read: ReadSettings | undefined;

  constructor(options: GatewayReloadOptions) {
    const { file, clock, log, metrics } = options;
    this.#options = options;
    this.#inForce = file.settings;
    // The page shows them from the start: an alert on a missing counter never fires.
    for (const result of ["applied", "refused"]) metrics.gatewayFileReloadsTotal.with(result);
    metrics.gatewayFileRefused.with().set(0);
    metrics.gatewayFileRestartKeys.with().set(0);
    this.#watch = new FolderWatch({
      folder: dirname(file.path),
      clock,
      signature: () => fileSignature(file.path),
      changed: () => this.#reload(),
      unwatchable: (text) => log.warn({}, `gateway file: ${text}`),
    });
  }

  /** Begins to follow. It also finds a change since the file was read. */
  start(): Promise<void> {
    return this.#watch.start(this.#options.file.seen);
  }

  close(): void {
    this.#watch.close();
  }

  /** Every key with its value in force. @param started as it was read at the start */
  entries(started: ReadSettings): readonly SettingEntry[] {
    return (this.#read ?? started).entries(this.#inForce);
  }

  async #reload(): Promise<void> {
    const { file, apply, log, metrics, watch, clock } = this.#options;
    const at = clock.wall();
    try {
      const next = await file.read();
      const { now, restart, inForce } = settingsChange(this.#inForce, next.settings);
      await apply(next, new Set(now));
      const difference = settingsDifference(this.#inForce, next.settings, [...now, ...restart]);
      this.#inForce = inForce;
      this.#read = next;
      watch.reloads.add({ at, what: file.path, result: "applied", problems: "", difference });
      const what = [...now, ...restart.map((key) => `${key} (at the next start)`)].join(", ") || "nothing";
      watch.events.add("file-changed", file.path, `${file.path} changed: ${what}`);
      metrics.gatewayFileReloadsTotal.with("applied").inc();
      metrics.gatewayFileRefused.with().set(0);
      metrics.gatewayFileRestartKeys.with().set(restart.length);
      for (const warning of next.warnings) log.warn({}, warning);
      log.info({ file: file.path, changed: now }, "the gateway uses the changed gateway file");
      for (const key of restart)
        log.warn({ key }, `${next.placeOf(key)}: the change takes effect only at the next start: restart the gateway`);
    } catch (error) {
      metrics.gatewayFileReloadsTotal.with("refused").inc();
      metrics.gatewayFileRefused.with().set(1);
      // A SluiceError names every problem with its line, so its message is not shortened.
      const problems = error instanceof SluiceError ? error.message : messageOf(error);
      watch.reloads.add({ at, what: file.path, result: "refused", problems, difference: [] });
      watch.events.add("file-refused", file.path, `the gateway refuses a change of ${file.path}: ${problems}`);
      log.error(
        { file: file.path },
        `the gateway refuses the changed gateway file and keeps the old settings; correct the file: ${problems}`,
      );
    }
  }
}

import type { Clock } from "../../base/clock/clock.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { type ObjectiveTable, objectivesFromFlags } from "./objectives.ts";
import type { ModelOptions } from "./resolve.ts";
import { ResourceDirectory } from "./resource-directory.ts";
import type { ResourceSettings } from "./resource-settings.ts";
import { ResourceStore } from "./resource-store.ts";

/** The configured models and objectives: `--objective` flags and, with `--resources`, API objects. */
export class ModelSource {
  readonly models: ModelOptions;
  readonly #directory: ResourceDirectory | undefined;

  /**
   * @param objectives `NAME=PRIORITY` each
   * @param settings undefined = no API objects
   * @throws SluiceError FLAG_VALUE, FLAG_CONFLICT, RESOURCE_LIMIT
   */
  constructor(objectives: readonly string[], settings: ResourceSettings | undefined, clock: Clock, log: Logger) {
    const flags = objectivesFromFlags(objectives);
    if (settings === undefined) {
      this.models = { objectives: flags };
      return;
    }
    const { directory, pool, namespace, ...counting } = settings;
    // A folder may hold thousands of objects with the same mistake.
    const notices = new RateLimitedLog(log, clock, { intervalMs: 10_000, maxKeys: 20 });
    const store = new ResourceStore({ pool, notice: (text) => void notices.log("warn", text, {}, text) });
    this.models = { objectives: flags, resources: store, ...counting };
    const lines = { warn: (text: string) => log.warn({}, text), info: (text: string) => log.info({}, text) };
    this.#directory = new ResourceDirectory({ path: directory, namespace, store, clock, log: lines });
    if ((counting.matching ?? "auto") !== "auto") return;
    const stop = store.onChange(() => {
      if (!store.modelSeen) return;
      stop();
      log.info({}, "InferenceModels exist: a model name without an InferenceModel now gets 404");
    });
  }

  /** Puts other objectives of flags in force. The caller tells the core. */
  useObjectives(table: ObjectiveTable): void {
    this.models.objectives.replaceBy(table);
  }

  /**
   * Reads the folder and follows it.
   * @throws SluiceError RESOURCES_..., RESOURCE_..., POOL_AMBIGUOUS
   */
  async start(): Promise<void> {
    await this.#directory?.start();
  }

  close(): void {
    this.#directory?.close();
  }
}

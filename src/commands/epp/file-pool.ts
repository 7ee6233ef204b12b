import type { AppProtocol } from "../../base/plugin/kinds.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { EffectiveConfig } from "../../picker/config/effective.ts";
import { startDiscovery } from "../../picker/core/discovery.ts";
import type { InferenceCore } from "../../picker/core/inference-core.ts";
import { type PoolSource, protocolOf } from "../../pool/controllers/pool-source.ts";
import type { ModelSource } from "../../pool/resources/model-source.ts";
import type { ModelOptions } from "../../pool/resources/resolve.ts";

/** Endpoints from a file and objects from a folder, without Kubernetes (api-resources 6A). */
export class FilePool implements PoolSource {
  readonly hooks = [];
  readonly cluster = "";
  readonly reviews = undefined;
  readonly #source: ModelSource;
  readonly #options: { readonly endpointsFile: string | undefined; readonly config: EffectiveConfig };
  readonly #log: Logger;
  #stop: (() => void) | undefined;
  #core: InferenceCore | undefined;

  /** @param source of models and objectives; this pool starts and closes it */
  constructor(source: ModelSource, endpointsFile: string | undefined, config: EffectiveConfig, log: Logger) {
    this.#source = source;
    this.#options = { endpointsFile, config };
    this.#log = log;
  }

  get models(): ModelOptions {
    return this.#source.models;
  }

  /** @throws SluiceError for a fault in the files */
  async start(core: InferenceCore): Promise<void> {
    const { endpointsFile, config } = this.#options;
    const discovery = await startDiscovery(core, endpointsFile, config, this.#log);
    this.#stop = () => discovery.close();
    await this.#source.start();
    this.#core = core;
  }

  /** Without `--resources` the file of endpoints is the pool, so the pool is known after the first read. */
  synced(): boolean {
    return this.#core?.models.poolKnown ?? false;
  }

  appProtocol(): AppProtocol | undefined {
    return protocolOf(this.models.resources?.pool);
  }

  leader(): undefined {
    return undefined;
  }

  async resign(): Promise<void> {}

  async close(): Promise<void> {
    this.#stop?.();
    this.#source.close();
  }
}

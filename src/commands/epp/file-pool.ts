import type { AppProtocol } from "../../base/plugin/kinds.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { EffectiveConfig } from "../../picker/config/effective.ts";
import { startDiscovery } from "../../picker/core/discovery.ts";
import type { InferenceCore } from "../../picker/core/inference-core.ts";
import { type PoolSource, protocolOf } from "../../pool/controllers/pool-source.ts";
import type { ModelSource } from "../../pool/resources/model-source.ts";
import type { ModelOptions } from "../../pool/resources/resolve.ts";

/** Endpoints from a file, objects from a folder: no Kubernetes anywhere (api-resources 6A). */
export class FilePool implements PoolSource {
  readonly hooks = [];
  readonly reviews = undefined;
  readonly #source: ModelSource;
  readonly #options: { readonly endpointsFile: string | undefined; readonly config: EffectiveConfig };
  readonly #log: Logger;
  #stop: (() => void) | undefined;
  #core: InferenceCore | undefined;

  /** @param source of models and objectives; started and closed here */
  constructor(source: ModelSource, endpointsFile: string | undefined, config: EffectiveConfig, log: Logger) {
    this.#source = source;
    this.#options = { endpointsFile, config };
    this.#log = log;
  }

  get models(): ModelOptions {
    return this.#source.models;
  }

  /** @throws SluiceError what is wrong with the files */
  async start(core: InferenceCore): Promise<void> {
    const { endpointsFile, config } = this.#options;
    const discovery = await startDiscovery(core, endpointsFile, config, this.#log);
    this.#stop = () => discovery.close();
    await this.#source.start();
    this.#core = core;
  }

  /** Without `--resources` the endpoints are a pool of their own: held from the moment they were read. */
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

import type { Authorize } from "../admin/access.ts";
import type { EffectiveConfig } from "../config/effective.ts";
import type { AppProtocol } from "../plugin/kinds.ts";
import { GROUP, type InferencePool } from "../resources/objects.ts";
import type { Logger } from "../telemetry/logger.ts";
import { startDiscovery } from "./discovery.ts";
import type { CoreOptions, InferenceCore } from "./inference-core.ts";
import type { ModelSource } from "./model-source.ts";
import type { OwnHook } from "./own-hook.ts";

/** Where the endpoints come from, and the API objects that say what requests mean. */
export interface PoolSource {
  readonly models: CoreOptions["models"];
  readonly hooks: readonly OwnHook[];
  /** Who may see metrics and debug pages; undefined = as without Kubernetes. */
  readonly authorize: Authorize | undefined;
  /** Begins to follow; when it returns, what can be known without waiting for others is known. */
  start(core: InferenceCore): Promise<void>;
  /** A definition of the pool is held (epp-protocol 14.1); it says nothing about endpoints. */
  synced(): boolean;
  /** How the servers of the pool speak; undefined = nobody says, or there is no pool at present. */
  appProtocol(): AppProtocol | undefined;
  /** Whether this replica leads; undefined = there is no election. */
  leader(): boolean | undefined;
  /** The process was told to end: another replica may lead. */
  resign(): Promise<void>;
  close(): Promise<void>;
}

/** Endpoints from a file, objects from a folder: no Kubernetes anywhere (api-resources 6A). */
export class FilePool implements PoolSource {
  readonly hooks = [];
  readonly authorize = undefined;
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

  get models(): CoreOptions["models"] {
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

/** What a pool says of its servers; one of v1alpha2 has no word for it (api-resources 1.6). */
export function protocolOf(pool: InferencePool | undefined): AppProtocol | undefined {
  return pool?.group === GROUP.stable ? pool.appProtocol : undefined;
}

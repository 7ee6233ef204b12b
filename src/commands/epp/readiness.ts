import { type ProbeState, probeStatus, SERVING_STATUS } from "../../base/grpc/health.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { InferenceCore } from "../../picker/core/inference-core.ts";
import type { PoolSource } from "../../pool/controllers/pool-source.ts";
import type { PeersReadiness } from "../../pool/peers/peers-readiness.ts";

/** Whether clients may send requests to this process, and why not. */
export class Readiness {
  readonly #core: Pick<InferenceCore, "unready" | "parserAgainst">;
  readonly #pool: Pick<PoolSource, "synced" | "leader" | "appProtocol">;
  readonly #process: { readonly started: boolean; readonly draining: boolean };
  readonly #log: Logger;
  readonly #peers: Pick<PeersReadiness, "unready"> | undefined;
  #loggedMisfit: string | undefined;
  #loggedLacking: string | undefined;

  /**
   * @param process what the process knows of itself, at any time
   * @param peers given = all replicas share what they know, so all of them serve, and a leader only writes status
   */
  constructor(
    core: Pick<InferenceCore, "unready" | "parserAgainst">,
    pool: Pick<PoolSource, "synced" | "leader" | "appProtocol">,
    process: { readonly started: boolean; readonly draining: boolean },
    log: Logger,
    peers?: Pick<PeersReadiness, "unready">,
  ) {
    this.#core = core;
    this.#pool = pool;
    this.#process = process;
    this.#log = log;
    this.#peers = peers;
  }

  /** The state for health probes. Logs each change of a parser or a plugin once (api-resources 3.6, R-35). */
  state(): ProbeState {
    const [misfit, lacking] = [this.#misfit(), this.#lacking()];
    if (misfit !== this.#loggedMisfit && misfit !== undefined) this.#log.error({}, `not ready: ${misfit}`);
    if (lacking !== this.#loggedLacking) {
      const all = this.#peers === undefined ? "all plugins are ready" : "all plugins and peers are ready";
      this.#log.info({}, lacking === undefined ? all : `not ready: ${lacking}`);
    }
    this.#loggedMisfit = misfit;
    this.#loggedLacking = lacking;
    return {
      synced: this.#process.started && this.#pool.synced() && misfit === undefined,
      draining: this.#process.draining,
      pluginsReady: lacking === undefined,
      leader: this.#peers === undefined ? this.#pool.leader() : undefined,
    };
  }

  /** Why the process is not ready; undefined when it is. */
  unready(): string | undefined {
    const state = this.state();
    if (probeStatus("readiness", state) === SERVING_STATUS.serving) return undefined;
    if (state.draining) return "the process is about to end";
    if (!state.synced) return this.#misfit() ?? "no InferencePool is known";
    return state.pluginsReady ? "another replica leads" : this.#lacking();
  }

  /** What a plugin or the peers still lack; undefined when they lack nothing. */
  #lacking(): string | undefined {
    return this.#core.unready ?? this.#peers?.unready();
  }

  /** Why the parser does not suit the servers of the pool; undefined when it does. */
  #misfit(): string | undefined {
    const protocol = this.#pool.appProtocol();
    const parser = protocol === undefined ? undefined : this.#core.parserAgainst(protocol);
    return parser && `the parser ${parser} cannot be used with the pool's appProtocol ${protocol}`;
  }
}

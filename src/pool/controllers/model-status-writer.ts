import type { Clock, Timer } from "../../base/clock/clock.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { type ApiClient, objectPath } from "../kubernetes/api-client.ts";
import { ApiError } from "../kubernetes/api-error.ts";
import { applyStatus } from "../kubernetes/apply.ts";
import { CONDITION, type Condition, modelConditions } from "../resources/model-status.ts";
import type { InferenceModel } from "../resources/objects.ts";
import type { ResourceStore } from "../resources/resource-store.ts";
import { MODEL_TYPE } from "./kinds.ts";

/** Milliseconds from a change to the write: one event of a user is often several of the API server. */
const SETTLE = 200;
/** Milliseconds after which a failed write is tried again. */
const TRY_AGAIN = 5000;

interface ModelStatusWriterOptions {
  readonly api: ApiClient;
  readonly store: ResourceStore;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Writes into the status of every InferenceModel of the pool whether it is in force or which other one owns its model name
 * (api-resources 2.3). It writes on changes only, one object at a time, and leaves conditions of others alone. When a write is
 * forbidden, it stops for good. Only the leader starts it.
 */
export class ModelStatusWriter {
  readonly #options: ModelStatusWriterOptions;
  /** The state last found in or written to the status of an object, by uid. */
  readonly #written = new Map<string, string>();
  readonly #log: RateLimitedLog;
  #stop: (() => void) | undefined;
  #due: { readonly timer: Timer; readonly at: number } | undefined;
  #writing = false;
  #again = false;
  #forbidden = false;

  constructor(options: ModelStatusWriterOptions) {
    this.#options = options;
    this.#log = new RateLimitedLog(options.log, options.clock, { intervalMs: 60_000, maxKeys: 8 });
  }

  /** Begins to write. No effect while it runs, or after a write was forbidden. */
  start(): void {
    if (this.#stop !== undefined || this.#forbidden) return;
    this.#stop = this.#options.store.onChange(() => this.#soon(SETTLE));
    this.#soon(0);
  }

  /** Stops writing. Because others may write meanwhile, the next start reads every status again. */
  close(): void {
    this.#stop?.();
    this.#stop = undefined;
    this.#due?.timer.cancel();
    this.#due = undefined;
    this.#written.clear();
  }

  /** Writes after so many milliseconds at the latest. */
  #soon(ms: number): void {
    const { clock } = this.#options;
    const at = clock.now() + ms;
    if (this.#stop === undefined || (this.#due !== undefined && this.#due.at <= at)) return;
    this.#due?.timer.cancel();
    const write = (): void => {
      this.#due = undefined;
      void this.#writeAll();
    };
    this.#due = { at, timer: clock.after(ms, write, true) };
  }

  async #writeAll(): Promise<void> {
    this.#again = true;
    if (this.#writing) return;
    this.#writing = true;
    do {
      this.#again = false;
    } while ((await this.#writeEach()) && this.#again && this.#stop !== undefined);
    this.#writing = false;
  }

  /** @returns false when the server cannot answer about the other objects either */
  async #writeEach(): Promise<boolean> {
    const seen = new Set<string>();
    for (const { model, winner } of [...this.#options.store.models()]) {
      const started = this.#stop;
      if (started === undefined) return false;
      const { uid, generation } = model.meta;
      seen.add(uid);
      const verdict = `${generation} ${winner.meta.uid}`;
      if (this.#written.get(uid) === verdict) continue;
      const outcome = await this.#write(model, winner);
      // After a stop others may have written another status.
      if (outcome === "done" && this.#stop === started) this.#written.set(uid, verdict);
      if (outcome === "server down") return false;
    }
    for (const uid of this.#written.keys()) if (!seen.has(uid)) this.#written.delete(uid);
    return true;
  }

  /** `done`: the status is correct, or another try makes no sense. Otherwise the write is tried again. */
  async #write(model: InferenceModel, winner: InferenceModel): Promise<"done" | "failed" | "server down"> {
    const { api, clock, log } = this.#options;
    const { namespace, name } = model.meta;
    try {
      const current = (await api.request({ method: "GET", path: objectPath(MODEL_TYPE, namespace, name) })) as Current;
      // Another object has taken the name, or a new object with this name has not arrived here yet.
      if (current.metadata?.uid !== model.meta.uid) return "done";
      const before = current.status?.conditions ?? [];
      const after = modelConditions(model, before, winner === model ? undefined : winner.meta, clock.wall());
      if (after === before) return "done";
      const { resourceVersion } = current.metadata;
      // Conditions are a map by type: the apply does not name those of others, and so leaves them alone.
      const conditions = after.filter(({ type }) => OURS.has(type));
      const object = { metadata: { namespace, name, resourceVersion }, status: { conditions } };
      await applyStatus(api, MODEL_TYPE, namespace, name, FIELD_MANAGER, object, { force: true });
      return "done";
    } catch (error) {
      const { status, retryAfter = 0 } = error as Partial<ApiError>;
      if (error instanceof ApiError && status === 403) {
        this.#forbidden = true;
        this.close();
        log.warn({}, `Sluice no longer writes the status of InferenceModels: ${messageOf(error)}`);
        return "done";
      }
      // Deleted meanwhile: the watch reports it.
      if (error instanceof ApiError && status === 404) return "done";
      this.#soon(status === 409 ? SETTLE : Math.max(TRY_AGAIN, retryAfter));
      if (status !== 409) {
        const text = `Sluice could not write the status of an InferenceModel and tries again: ${messageOf(error)}`;
        this.#log.log("warn", `${status}`, { model: `${namespace}/${name}` }, text);
      }
      return status === 0 || status === 429 || status === 503 ? "server down" : "failed";
    }
  }
}

/** The owner of the fields that this writer sets. */
const FIELD_MANAGER = "sluice-epp";
const OURS: ReadonlySet<string> = new Set([CONDITION.accepted, CONDITION.ready]);

interface Current {
  readonly metadata?: { readonly uid?: string; readonly resourceVersion?: string };
  readonly status?: { readonly conditions?: readonly Condition[] };
}

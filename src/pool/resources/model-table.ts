import { byAge, type InferenceModel, objectId } from "./objects.ts";
import { TargetDraw } from "./target-draw.ts";

/** The InferenceModel that speaks for a model name. */
export interface ModelEntry {
  readonly model: InferenceModel;
  /** Undefined = it lists no targets: requests go on under their own model name. */
  readonly draw: TargetDraw | undefined;
}

/**
 * The InferenceModels of one pool by model name. Of several with one name the oldest counts. It is chosen from all of them
 * whenever one is added, changed or removed, so the order of events cannot matter (api-resources 2.2). The owner of the table
 * bounds the number of models.
 */
export class ModelTable {
  /** By `namespace/name`, for an object that comes back with another model name. */
  readonly #byId = new Map<string, InferenceModel>();
  readonly #candidates = new Map<string, Map<string, InferenceModel>>();
  readonly #winners = new Map<string, ModelEntry>();

  /** InferenceModels, also those that do not speak for their name. */
  get size(): number {
    return this.#byId.size;
  }

  /** The oldest InferenceModel with this model name. */
  get(modelName: string): ModelEntry | undefined {
    return this.#winners.get(modelName);
  }

  /** Adds a model or replaces the one with its namespace and name. An empty model name can match no request. */
  put(model: InferenceModel): void {
    const id = objectId(model.meta);
    this.remove(id);
    if (model.modelName === "") return;
    this.#byId.set(id, model);
    const rivals = this.#candidates.get(model.modelName) ?? new Map<string, InferenceModel>();
    rivals.set(id, model);
    this.#candidates.set(model.modelName, rivals);
    // The oldest of the others is already known.
    const winner = this.#winners.get(model.modelName)?.model;
    this.#choose(model.modelName, winner === undefined ? [model] : [winner, model]);
  }

  /** @param id `namespace/name`; an unknown one changes nothing */
  remove(id: string): void {
    const model = this.#byId.get(id);
    if (model === undefined) return;
    this.#byId.delete(id);
    const rivals = this.#candidates.get(model.modelName)!;
    rivals.delete(id);
    this.#choose(model.modelName, rivals.values());
  }

  /** Every model with the one that speaks for its name, which may be itself. */
  *all(): IterableIterator<{ readonly model: InferenceModel; readonly winner: InferenceModel }> {
    for (const model of this.#byId.values()) yield { model, winner: this.#winners.get(model.modelName)!.model };
  }

  clear(): void {
    this.#byId.clear();
    this.#candidates.clear();
    this.#winners.clear();
  }

  #choose(modelName: string, rivals: Iterable<InferenceModel>): void {
    let oldest: InferenceModel | undefined;
    for (const rival of rivals) if (oldest === undefined || byAge(rival.meta, oldest.meta) < 0) oldest = rival;
    if (oldest === undefined) {
      this.#candidates.delete(modelName);
      this.#winners.delete(modelName);
    } else if (this.#winners.get(modelName)?.model !== oldest) {
      const draw = oldest.targets.length === 0 ? undefined : new TargetDraw(oldest.targets, "none");
      this.#winners.set(modelName, { model: oldest, draw });
    }
  }
}

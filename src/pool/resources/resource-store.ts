import { SluiceError } from "../../base/inference/errors.ts";
import { type ModelEntry, ModelTable } from "./model-table.ts";
import {
  byAge,
  describeReference,
  GROUP,
  type InferenceObjective,
  type InferencePool,
  objectId,
  ownership,
  type ResourceObject,
} from "./objects.ts";
import { choosePool, type PoolIdentity } from "./pool-choice.ts";
import { type RewriteMatch, RewriteTable } from "./rewrite-table.ts";
import { isMixed } from "./target-draw.ts";

/**
 * Most objects that refer to a pool, of all kinds together, those of other pools included. It is also the bound of the pools.
 */
const MAX_OBJECTS = 10_000;

interface ResourceStoreOptions {
  /** The pool that this process serves; absent = the only one there is. */
  readonly pool?: PoolIdentity;
  /** At least 1. */
  readonly maxObjects?: number;
  /** Called once for each object that has no effect or probably a wrong one; one line. */
  readonly notice?: (text: string) => void;
}

type Dependant = Exclude<ResourceObject, InferencePool>;

/**
 * The present meaning of the API objects: the pool that this process serves, and the objects that refer to it. Those are the
 * InferenceModel of a model name, the rewrite rule of a model name and the priority of an objective. Everything else is kept in
 * case the pool changes or comes back (api-resources 2.1, 2.2, 3.3).
 */
export class ResourceStore {
  readonly #wanted: PoolIdentity;
  readonly #maxObjects: number;
  readonly #notice: (text: string) => void;
  readonly #pools = new Map<string, InferencePool>();
  readonly #dependants = new Map<string, Dependant>();
  readonly #models = new ModelTable();
  readonly #rewrites = new RewriteTable();
  /** By `metadata.name`: all are of the pool's namespace. */
  readonly #objectives = new Map<string, InferenceObjective>();
  /** The last line about an object, by its key. */
  readonly #told = new Map<string, string>();
  readonly #listeners = new Set<() => void>();
  #pool: InferencePool | undefined;
  #modelSeen = false;

  constructor(options: ResourceStoreOptions = {}) {
    this.#wanted = options.pool ?? {};
    this.#maxObjects = options.maxObjects ?? MAX_OBJECTS;
    this.#notice = options.notice ?? (() => {});
  }

  /** The pool that this process serves; undefined while there is none. */
  get pool(): InferencePool | undefined {
    return this.#pool;
  }

  /** A pool definition is held (epp-protocol 14.1); it says nothing about endpoints. */
  get synced(): boolean {
    return this.#pool !== undefined;
  }

  /** Objects held. */
  get size(): number {
    return this.#pools.size + this.#dependants.size;
  }

  /** The store takes no further object that refers to a pool. */
  get full(): boolean {
    return this.#dependants.size >= this.#maxObjects;
  }

  /** An InferenceModel of our pool was seen while the pool was one of v1alpha2; stays true. */
  get modelSeen(): boolean {
    return this.#modelSeen;
  }

  /** The oldest InferenceModel with this model name. */
  model(modelName: string): ModelEntry | undefined {
    return this.#models.get(modelName);
  }

  /** Every InferenceModel of our pool that names a model, with the one that speaks for its name, which may be itself. */
  models(): ReturnType<ModelTable["all"]> {
    return this.#models.all();
  }

  /** Whether our pool has an InferenceModel that names a model. */
  get hasModels(): boolean {
    return this.#models.size > 0;
  }

  /** The rewrite rule for a model name; "" where the request has none. */
  rewrite(modelName: string): RewriteMatch | undefined {
    return this.#rewrites.match(modelName);
  }

  /** The model names that rewrite rules match by name. */
  rewritten(): Iterable<string> {
    return this.#rewrites.matched();
  }

  /** Whether an InferenceModelRewrite of our pool names this model, to match it or as a target. */
  rewriteNames(modelName: string): boolean {
    return this.#rewrites.names(modelName);
  }

  /** The priority of an InferenceObjective, 0 where it states none; undefined when there is no such objective. */
  objective(name: string): number | undefined {
    const found = this.#objectives.get(name);
    return found === undefined ? undefined : (found.priority ?? 0);
  }

  /** The fairness weight of an InferenceObjective; undefined when it states none, or there is no such objective. */
  objectiveWeight(name: string): number | undefined {
    return this.#objectives.get(name)?.fairnessWeight;
  }

  /** The priorities of all InferenceObjectives of our pool; one may come several times. */
  *priorities(): Iterable<number> {
    for (const { priority } of this.#objectives.values()) yield priority ?? 0;
  }

  /** Calls `listener` after every change, until the returned function is called. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Replaces all objects by these. Of two with the same kind, namespace and name the last counts.
   * @throws SluiceError RESOURCE_LIMIT, POOL_AMBIGUOUS; then nothing has changed
   */
  replace(objects: Iterable<ResourceObject>): void {
    const pools = new Map<string, InferencePool>();
    const dependants = new Map<string, Dependant>();
    for (const object of objects) {
      if (object.kind === "InferencePool") pools.set(keyOf(object), object);
      else dependants.set(keyOf(object), object);
      if (Math.max(pools.size, dependants.size) > this.#maxObjects) throw this.#tooMany();
    }
    const pool = choosePool(pools.values(), this.#wanted);
    refill(this.#pools, pools);
    refill(this.#dependants, dependants);
    for (const key of this.#told.keys()) if (!dependants.has(key)) this.#told.delete(key);
    this.#pool = pool;
    this.#indexAll();
    this.#changed();
  }

  /**
   * Adds an object, or replaces the one with its kind, namespace and name.
   * @throws SluiceError RESOURCE_LIMIT, POOL_AMBIGUOUS; then nothing has changed
   */
  put(object: ResourceObject): void {
    const key = keyOf(object);
    // Pools are counted apart: a user who may create objects that refer to pools must not be able to keep our pool out.
    const held = object.kind === "InferencePool" ? this.#pools : this.#dependants;
    if (held.size >= this.#maxObjects && !held.has(key)) throw this.#tooMany();
    if (object.kind === "InferencePool") {
      const pool = choosePool([...this.#pools.values().filter((other) => keyOf(other) !== key), object], this.#wanted);
      this.#pools.set(key, object);
      this.#adopt(pool);
    } else {
      this.#dependants.set(key, object);
      this.#index(key, object);
    }
    this.#changed();
  }

  /** Removes an object; an unknown one changes nothing. Of a pool the group counts, too. */
  remove(object: ResourceObject): void {
    const key = keyOf(object);
    if (object.kind === "InferencePool") {
      if (!this.#pools.delete(key)) return;
      this.#adopt(choosePool(this.#pools.values(), this.#wanted));
    } else {
      if (!this.#dependants.delete(key)) return;
      this.#told.delete(key);
      this.#unindex(object);
    }
    this.#changed();
  }

  /**
   * Replaces all objects of one kind and group by these, a list of the API server. When they exceed the room, the oldest count,
   * so that every replica holds the same ones.
   * @param group of pools; undefined = any group. The other kinds are in one group at a time
   * @returns how many found no room
   * @throws SluiceError POOL_AMBIGUOUS, and RESOURCE_LIMIT for pools; then nothing has changed
   */
  replaceKind(kind: ResourceObject["kind"], group: string | undefined, objects: Iterable<ResourceObject>): number {
    const isOfKind = (object: ResourceObject): boolean =>
      object.kind === kind && (group === undefined || object.kind !== "InferencePool" || object.group === group);
    const others = [...this.#pools.values(), ...this.#dependants.values()].filter((object) => !isOfKind(object));
    const given = [...objects];
    const room = kind === "InferencePool" ? given.length : this.#maxObjects - (others.length - poolsOf(others));
    const kept = given.length <= room ? given : given.sort((a, b) => byAge(a.meta, b.meta)).slice(0, room);
    this.replace([...others, ...kept]);
    return given.length - kept.length;
  }

  #adopt(pool: InferencePool | undefined): void {
    const before = this.#pool;
    this.#pool = pool;
    if (before === undefined || pool === undefined || keyOf(before) !== keyOf(pool)) this.#indexAll();
  }

  #indexAll(): void {
    this.#models.clear();
    this.#rewrites.clear();
    this.#objectives.clear();
    for (const [key, object] of this.#dependants) this.#index(key, object);
  }

  #index(key: string, object: Dependant): void {
    this.#unindex(object);
    const pool = this.#pool;
    if (pool === undefined || object.meta.deleting) return;
    const belongs = ownership(object, pool);
    if (belongs === "near") {
      const ours = describeReference({ kind: pool.kind, name: pool.meta.name, group: pool.group });
      this.#tell(
        key,
        object,
        `has no effect: it refers to ${describeReference(object.poolRef)}, but this process serves ${ours}`,
      );
    }
    if (belongs !== "ours") return;
    switch (object.kind) {
      case "InferenceModel":
        if (object.modelName === "") return;
        this.#models.put(object);
        this.#modelSeen ||= pool.group === GROUP.experimental;
        if (isMixed(object.targets)) this.#tell(key, object, MIXED);
        return;
      case "InferenceModelRewrite":
        this.#rewrites.put(object);
        if (object.rules.some(({ targets }) => isMixed(targets))) this.#tell(key, object, MIXED);
        return;
      case "InferenceObjective":
        this.#objectives.set(object.meta.name, object);
    }
  }

  #unindex({ kind, meta }: Dependant): void {
    if (kind === "InferenceModel") this.#models.remove(objectId(meta));
    else if (kind === "InferenceModelRewrite") this.#rewrites.remove(objectId(meta));
    else if (this.#objectives.get(meta.name)?.meta.namespace === meta.namespace) this.#objectives.delete(meta.name);
  }

  #tell(key: string, { kind, meta }: Dependant, text: string): void {
    if (this.#told.get(key) === text) return;
    this.#told.set(key, text);
    this.#notice(`${kind} ${objectId(meta)} ${text}`);
  }

  #changed(): void {
    for (const listener of [...this.#listeners]) listener();
  }

  #tooMany(): SluiceError {
    return new SluiceError("RESOURCE_LIMIT", `there are more than ${this.#maxObjects} API objects, the limit`);
  }
}

const MIXED = "gives weights to only some targets: targets without a weight get no requests";

/** Pools of the two groups are different objects; the other kinds exist in one group at a time (api-resources 3.2). */
function keyOf(object: ResourceObject): string {
  return object.kind === "InferencePool"
    ? `${object.kind}.${object.group}/${objectId(object.meta)}`
    : `${object.kind}/${objectId(object.meta)}`;
}

function poolsOf(objects: readonly ResourceObject[]): number {
  let pools = 0;
  for (const { kind } of objects) if (kind === "InferencePool") pools++;
  return pools;
}

function refill<V>(map: Map<string, V>, from: ReadonlyMap<string, V>): void {
  map.clear();
  for (const [key, value] of from) map.set(key, value);
}

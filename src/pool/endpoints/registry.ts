import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { type AttemptFailure, type Endpoint, type EndpointState, hostPort } from "../../base/inference/endpoint.ts";
import { addressKey, normaliseAddress, splitHostPort } from "./address.ts";
import { type CandidateSet, CandidatesByModel, serving } from "./candidate-sets.ts";
import { InFlight } from "./in-flight.ts";
import { type EndpointSpec, endpointId, type ModelLook, metricsHostOf, PoolEndpoint } from "./pool-endpoint.ts";
import { namesOf, type ServedModels, sameModels } from "./served-models.ts";
import { EndpointStates } from "./state.ts";

/** The endpoints that a proxy allows for one request: addresses, each with or without a port (epp-protocol 6). */
type AllowedEndpoints = readonly { readonly address: string; readonly port: number | undefined }[];

export interface RegistryOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** The most endpoints held at once; default 4,096. More are refused. */
  readonly maxEndpoints?: number;
  /** An endpoint was refused because the bound is reached. */
  readonly onRefused?: (id: string, maxEndpoints: number) => void;
}

/** The result of `apply`, by number of endpoints. */
export interface AppliedChange {
  readonly added: number;
  readonly removed: number;
  /** Endpoints over the bound. */
  readonly refused: number;
}

type Listener<A extends unknown[]> = (...args: A) => void;

/** Interval until the collector has set its own. */
const INITIAL_INTERVAL = 50;

/**
 * Owns every endpoint of the pool: the identities, the states and the load in flight. Single-threaded. Every method takes
 * effect before it returns.
 */
export class EndpointRegistry {
  readonly inFlight: InFlight;
  readonly states: EndpointStates;
  readonly maxEndpoints: number;
  readonly #clock: Clock;
  readonly #onRefused: (id: string, maxEndpoints: number) => void;
  readonly #byId = new Map<string, PoolEndpoint>();
  readonly #byHostPort = new Map<string, PoolEndpoint[]>();
  readonly #byAddress = new Map<string, PoolEndpoint[]>();
  readonly #slots: SlotTable;
  readonly #added = new Set<Listener<[PoolEndpoint]>>();
  readonly #removed = new Set<Listener<[PoolEndpoint]>>();
  readonly #stateChanged = new Set<Listener<[PoolEndpoint, EndpointState]>>();
  readonly #firstRequest = new Set<Listener<[PoolEndpoint]>>();
  readonly #models = new Set<Listener<[]>>();
  readonly #unstated = new Set<Listener<[PoolEndpoint]>>();
  readonly #looked = new Set<Listener<[PoolEndpoint]>>();
  readonly #open = new CandidatesByModel();
  #list: readonly PoolEndpoint[] | undefined;
  #modelNames: readonly string[] | undefined;
  #revision = 0;
  #awaited = 0;

  constructor(options: RegistryOptions) {
    this.#clock = options.clock;
    this.maxEndpoints = options.maxEndpoints ?? 4096;
    this.#onRefused = options.onRefused ?? (() => {});
    this.#slots = new SlotTable(this.maxEndpoints);
    this.inFlight = new InFlight(options.clock, (endpoint) => {
      for (const listener of this.#firstRequest) listener(endpoint);
    });
    this.states = new EndpointStates(options.clock, options.random, (endpoint, from) => {
      this.#open.forget();
      for (const listener of this.#stateChanged) listener(endpoint, from);
    });
  }

  /** All endpoints in the order they came. The array is replaced on change, never altered. */
  list(): readonly PoolEndpoint[] {
    this.#list ??= [...this.#byId.values()];
    return this.#list;
  }

  get size(): number {
    return this.#byId.size;
  }

  /** @param id `namespace/name` */
  get(id: string): PoolEndpoint | undefined {
    return this.#byId.get(id);
  }

  /** The endpoint behind `address:port`, in any spelling of IPv6. Where several share it, the one that came first. */
  byHostPort(text: string): PoolEndpoint | undefined {
    const direct = this.#byHostPort.get(text);
    if (direct !== undefined) return direct[0];
    const parts = splitHostPort(text);
    return parts && this.#byHostPort.get(hostPort(parts.address, parts.port))?.[0];
  }

  /**
   * The endpoints that may serve a request: those that `allowed` names (all when it is undefined, none when it is empty) and
   * that serve the model. Down ones are left out while another one is not down. Runs per request: without `allowed` it allocates
   * nothing unless the pool has changed.
   * @param model the target model; "" = none
   */
  candidates(allowed?: AllowedEndpoints, model = ""): CandidateSet {
    if (allowed === undefined) return this.#open.of(model, this.list());
    this.#slots.clearMarks();
    const chosen: PoolEndpoint[] = [];
    for (const entry of allowed) {
      const same = this.#byAddress.get(entry.address) ?? this.#byAddress.get(normaliseAddress(entry.address));
      if (same === undefined) continue;
      for (const endpoint of same)
        if ((entry.port === undefined || entry.port === endpoint.port) && this.#slots.mark(endpoint.slot))
          chosen.push(endpoint);
    }
    return serving(chosen, this.size, model);
  }

  /**
   * Makes the pool consist of `specs` (the last of a duplicate id wins): upserts in their order, then deletions. Deletions come
   * first only where both together would exceed the bound.
   */
  apply(specs: Iterable<EndpointSpec>): AppliedChange {
    const wanted = new Map<string, EndpointSpec>();
    for (const spec of specs) wanted.set(endpointId(spec), spec);
    const gone = this.list().filter((endpoint) => !wanted.has(endpoint.id));
    const makeRoom = wanted.size + gone.length > this.maxEndpoints;
    if (makeRoom) for (const endpoint of gone) this.remove(endpoint.id);
    let added = 0;
    let removed = gone.length;
    let refused = 0;
    for (const [id, spec] of wanted) {
      const known = this.#byId.get(id);
      const endpoint = this.upsert(spec);
      if (endpoint === undefined) refused++;
      else if (endpoint !== known) added++;
      if (known?.removed) removed++;
    }
    if (!makeRoom) for (const endpoint of gone) this.remove(endpoint.id);
    return { added, removed, refused };
  }

  /**
   * Adds an endpoint, or renews labels, rank and metrics host of a known one. A known id with another address, port or scheme
   * is another server: the old endpoint is removed and a new one added.
   * @returns undefined when the bound is reached
   */
  upsert(spec: EndpointSpec): PoolEndpoint | undefined {
    const id = endpointId(spec);
    const known = this.#byId.get(id);
    if (known !== undefined) {
      if (known.address === spec.address && known.port === spec.port && known.scheme === spec.scheme) {
        // Others keep what they derived from the labels with the list.
        if (!sameLabels(known.labels, spec.labels)) this.#forgetLists();
        known.labels = spec.labels;
        known.rank = spec.rank;
        known.node = spec.node;
        known.nodeAddress = spec.nodeAddress;
        const metricsHost = metricsHostOf(spec);
        const { address, port } = known.metricsHost;
        if (address !== metricsHost.address || port !== metricsHost.port) known.metricsHost = metricsHost;
        this.#stateModels(known, spec);
        return known;
      }
      this.remove(id);
    }
    if (this.size >= this.maxEndpoints) {
      this.#onRefused(id, this.maxEndpoints);
      return undefined;
    }
    const slot = this.#slots.take();
    const endpoint = new PoolEndpoint(spec, slot, INITIAL_INTERVAL, this.#clock.now(), this.#clock.wall());
    this.#byId.set(id, endpoint);
    push(this.#byHostPort, addressKey(endpoint), endpoint);
    push(this.#byAddress, normaliseAddress(endpoint.address), endpoint);
    this.#forgetLists();
    for (const listener of this.#added) listener(endpoint);
    return endpoint;
  }

  /** The model server has listed its models. No effect on an endpoint whose models the endpoints file states. */
  listed(endpoint: PoolEndpoint, models: ServedModels): void {
    if (endpoint.removed || endpoint.models?.source === "file" || sameModels(endpoint.models, models)) return;
    endpoint.models = models;
    this.#modelsChanged();
    for (const listener of this.#models) listener();
  }

  /** The first look at the models of a server begins, takes too long, or is over. */
  lookForModels(endpoint: PoolEndpoint, look: ModelLook): void {
    const was = endpoint.modelLook;
    if (was === look) return;
    endpoint.modelLook = look;
    this.#awaited += Number(look === "open") - Number(was === "open");
    this.#open.forget();
    if (was === "open") for (const listener of this.#looked) listener(endpoint);
  }

  /** How many endpoints have an open look at their models. */
  get awaited(): number {
    return this.#awaited;
  }

  /** The names of all models that endpoints list, sorted; unknown lists add none. Kept until the models change. */
  modelNames(): readonly string[] {
    this.#modelNames ??= [...new Set(this.list().flatMap(({ models }) => namesOf(models)))].sort();
    return this.#modelNames;
  }

  /** A number that grows whenever the endpoints or their models change. */
  get modelsRevision(): number {
    return this.#revision;
  }

  /** Removes an endpoint. Exchanges on their way to it finish undisturbed. @returns whether it was known */
  remove(id: string): boolean {
    const endpoint = this.#byId.get(id);
    if (endpoint === undefined) return false;
    this.#byId.delete(id);
    pull(this.#byHostPort, addressKey(endpoint), endpoint);
    pull(this.#byAddress, normaliseAddress(endpoint.address), endpoint);
    endpoint.removed = true;
    this.inFlight.flows.forget(endpoint);
    this.#forgetLists();
    // Listeners clear their data of a slot before another endpoint can take the slot.
    for (const listener of this.#removed) listener(endpoint);
    this.#slots.release(endpoint.slot);
    return true;
  }

  /** A request attempt failed before any response byte: see `EndpointStates.attemptFailed`. */
  attemptFailed(endpoint: Endpoint, failure: AttemptFailure, detail: string): void {
    if (this.#owns(endpoint)) this.states.attemptFailed(endpoint, failure, detail);
  }

  /** A request attempt was answered: see `EndpointStates.attemptSucceeded`. Runs per request. */
  attemptSucceeded(endpoint: Endpoint): void {
    if (this.#owns(endpoint)) this.states.attemptSucceeded(endpoint);
  }

  /** @returns a function that ends the subscription; the same for those below */
  onAdded(listener: (endpoint: PoolEndpoint) => void): () => void {
    return subscribe(this.#added, listener);
  }

  onRemoved(listener: (endpoint: PoolEndpoint) => void): () => void {
    return subscribe(this.#removed, listener);
  }

  onStateChanged(listener: (endpoint: PoolEndpoint, from: EndpointState) => void): () => void {
    return subscribe(this.#stateChanged, listener);
  }

  /** Calls back when an endpoint gets a request while it had none in flight. */
  onFirstRequest(listener: (endpoint: PoolEndpoint) => void): () => void {
    return subscribe(this.#firstRequest, listener);
  }

  /** Calls back when the models of an endpoint become others. */
  onModelsChanged(listener: () => void): () => void {
    return subscribe(this.#models, listener);
  }

  /** Calls back when the models of an endpoint are awaited no longer. */
  onLooked(listener: (endpoint: PoolEndpoint) => void): () => void {
    return subscribe(this.#looked, listener);
  }

  /** Calls back when the endpoints file no longer states the models of an endpoint. */
  onModelsUnstated(listener: (endpoint: PoolEndpoint) => void): () => void {
    return subscribe(this.#unstated, listener);
  }

  /** Puts the models of a new spec. What a server has listed stays while the file states none. */
  #stateModels(endpoint: PoolEndpoint, { models }: EndpointSpec): void {
    const before = endpoint.models;
    const stated = models?.source === "file" ? models : undefined;
    if ((stated === undefined && before?.source !== "file") || sameModels(before, stated)) return;
    endpoint.models = stated;
    this.#modelsChanged();
    for (const listener of this.#models) listener();
    if (stated === undefined) for (const listener of this.#unstated) listener(endpoint);
  }

  #modelsChanged(): void {
    this.#revision++;
    this.#modelNames = undefined;
    this.#open.forget();
  }

  /** Late news about a removed endpoint has no effect. */
  #owns(endpoint: Endpoint): endpoint is PoolEndpoint {
    return endpoint instanceof PoolEndpoint && !endpoint.removed;
  }

  #forgetLists(): void {
    this.#list = undefined;
    this.#modelsChanged();
  }
}

type Labels = Readonly<Record<string, string>>;

function sameLabels(a: Labels, b: Labels): boolean {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name]);
}

function push(index: Map<string, PoolEndpoint[]>, key: string, endpoint: PoolEndpoint): void {
  const entries = index.get(key);
  if (entries === undefined) index.set(key, [endpoint]);
  else entries.push(endpoint);
}

function pull(index: Map<string, PoolEndpoint[]>, key: string, endpoint: PoolEndpoint): void {
  const entries = index.get(key)!;
  entries.splice(entries.indexOf(endpoint), 1);
  if (entries.length === 0) index.delete(key);
}

function subscribe<T>(listeners: Set<T>, listener: T): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Hands out the smallest free integers, and marks them for set operations without allocating. */
class SlotTable {
  readonly #used: Uint8Array;
  readonly #stamps: Uint32Array;
  #stamp = 0;
  #lowestFree = 0;

  /** @param size how many slots there are; `take` must not be called more often */
  constructor(size: number) {
    this.#used = new Uint8Array(size);
    this.#stamps = new Uint32Array(size);
  }

  /** The smallest free slot. */
  take(): number {
    const slot = this.#used.indexOf(0, this.#lowestFree);
    this.#used[slot] = 1;
    this.#lowestFree = slot + 1;
    return slot;
  }

  release(slot: number): void {
    this.#used[slot] = 0;
    this.#lowestFree = Math.min(this.#lowestFree, slot);
  }

  /** Starts a new, empty set of slots; the one before is void. */
  clearMarks(): void {
    this.#stamp = (this.#stamp + 1) >>> 0;
    if (this.#stamp === 0) {
      this.#stamps.fill(0);
      this.#stamp = 1;
    }
  }

  /** Adds a slot to the set. @returns false when it was in it already */
  mark(slot: number): boolean {
    if (this.#stamps[slot] === this.#stamp) return false;
    this.#stamps[slot] = this.#stamp;
    return true;
  }
}

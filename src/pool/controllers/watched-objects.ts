import type { Clock, Timer } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { type ApiClient, type ResourceType, typeName } from "../kubernetes/api-client.ts";
import type { ObjectKey } from "../kubernetes/reflected.ts";
import { Reflector } from "../kubernetes/reflector.ts";
import type { InferencePool, ResourceObject } from "../resources/objects.ts";
import { readServed } from "../resources/read.ts";
import type { ResourceStore } from "../resources/resource-store.ts";

/** Milliseconds between two checks of which types are there, and whether there is room for objects that the store refused. */
const CHOOSE_EVERY = 5000;
/** Failures of a type after which readiness no longer waits for its first list: no type of object is worth an outage. */
const FAILURES_WAITED_FOR = 3;
/** Milliseconds between two log lines about the store's refusals, and about objects without effect. */
const TELL_EVERY = 10_000;
/** Most objects that one message names. */
const MAX_NAMES = 10;

interface WatchedObjectsOptions {
  readonly kind: ResourceObject["kind"];
  /** The types that may hold the kind, the best first. Of several that are there the first counts. */
  readonly types: readonly ResourceType[];
  readonly fieldSelector?: string;
  /** Name of the pool: an object that refers to another one is not kept. */
  readonly pool?: string;
  /** Called once for each type, as soon as its state is known. */
  readonly onSeen?: () => void;
  readonly api: ApiClient;
  readonly namespace: string;
  readonly store: ResourceStore;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
}

/** The objects of one type in their last known state. */
interface TypeObjects {
  readonly type: ResourceType;
  readonly reflector: Reflector<ResourceObject>;
  readonly objects: Map<string, ResourceObject>;
}

/**
 * Follows the objects of one kind into the store. Of a kind that exists in two groups both are read. The better one counts as
 * soon as it is there (api-resources 3.2).
 */
export class WatchedObjects {
  readonly #options: WatchedObjectsOptions;
  readonly #types: readonly TypeObjects[];
  readonly #log: RateLimitedLog;
  #chosen: TypeObjects;
  #choosing: Timer | undefined;
  /** Objects of a lesser group that were reported to have no effect, by {@link keyOf}. */
  #toldIgnored: ReadonlySet<string> = new Set();
  /** The store lacks some of the objects, because it had no room. */
  #behind = false;

  constructor(options: WatchedObjectsOptions) {
    this.#options = options;
    this.#log = new RateLimitedLog(options.log, options.clock, { intervalMs: TELL_EVERY, maxKeys: 8 });
    this.#types = options.types.map((type) => this.#follow(type));
    this.#chosen = this.#types[0]!;
  }

  start(): void {
    for (const { reflector } of this.#types) {
      reflector.start();
      reflector.onSynced(() => {
        this.#choose();
        this.#options.onSeen?.();
      });
    }
    this.#lookAgain();
  }

  close(): void {
    this.#choosing?.cancel();
    for (const { reflector } of this.#types) reflector.close();
  }

  /** It is known which objects exist, or that this cannot be found out soon. */
  get known(): boolean {
    return this.#types.every((type) => type.reflector.state.synced || !mayBeThere(type));
  }

  /** Each type with its state. */
  *list() {
    for (const { type, reflector } of this.#types) yield { name: typeName(type), state: reflector.state };
  }

  #follow(type: ResourceType): TypeObjects {
    const { api, namespace, fieldSelector, pool, clock, random, log } = this.#options;
    const objects = new Map<string, ResourceObject>();
    const read = objectReader(type, log);
    const followed: TypeObjects = {
      type,
      objects,
      reflector: new Reflector<ResourceObject>({
        ...{ api, type, namespace, clock, random, log },
        ...(fieldSelector === undefined ? {} : { fieldSelector }),
        optional: true,
        project: (object) => {
          const item = read(object);
          return pool === undefined || item === undefined || !("poolRef" in item) || item.poolRef.name === pool
            ? item
            : undefined;
        },
        keyOf: ({ meta }) => meta,
        sink: {
          replace: (items) => {
            objects.clear();
            for (const item of items) objects.set(keyOf(item.meta), item);
            if (!this.#choose() && followed === this.#chosen) this.#refill();
          },
          put: (item) => {
            objects.set(keyOf(item.meta), item);
            if (followed === this.#chosen) this.#guarded(() => this.#options.store.put(item));
          },
          remove: (key) => {
            const item = objects.get(keyOf(key));
            objects.delete(keyOf(key));
            if (item !== undefined && followed === this.#chosen) this.#guarded(() => this.#options.store.remove(item));
          },
        },
      }),
    };
    return followed;
  }

  #lookAgain(): void {
    this.#choosing = this.#options.clock.after(
      CHOOSE_EVERY,
      () => {
        if (!this.#choose() && this.#behind && !this.#options.store.full) this.#refill();
        this.#lookAgain();
      },
      true,
    );
  }

  /** @returns whether another type now counts */
  #choose(): boolean {
    const best = this.#types.find(mayBeThere);
    // The better type may be there, and then its objects decide.
    if (best === undefined || !best.reflector.state.synced) return false;
    for (const type of this.#types) if (type !== best) this.#tellIgnored(type, best);
    if (best === this.#chosen) return false;
    this.#chosen = best;
    if (best !== this.#types[0])
      this.#options.log.info(
        { kind: this.#options.kind },
        `${typeName(best.type)} are deprecated; use the group ${this.#types[0]!.type.group}`,
      );
    this.#refill();
    return true;
  }

  /**
   * Newer definitions switch off the objects of the older group. The user who installs the definitions must learn which ones.
   */
  #tellIgnored({ type, objects }: TypeObjects, best: TypeObjects): void {
    if ([...objects.keys()].every((key) => this.#toldIgnored.has(key))) return;
    const names = [...objects.values()].map(({ meta }) => meta.name).sort();
    const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : "";
    const text =
      `the API server has ${typeName(best.type)}, so these ${typeName(type)} have no effect: ` +
      `${names.slice(0, MAX_NAMES).join(", ")}${more}; create them again in the group ${best.type.group}`;
    if (this.#log.log("warn", "ignored", { kind: this.#options.kind }, text))
      this.#toldIgnored = new Set(objects.keys());
  }

  #refill(): void {
    const { kind, store } = this.#options;
    const { objects, type } = this.#chosen;
    this.#behind = false;
    this.#guarded(() => {
      const refused = store.replaceKind(kind, type.group, objects.values());
      if (refused === 0) return;
      this.#behind = true;
      const text = `no room for more objects: the ${refused} youngest of ${objects.size} ${typeName(type)} have no effect`;
      this.#log.log("error", "no room", { kind }, text);
    });
  }

  /** A refusal of the store is logged and changes nothing. */
  #guarded(change: () => void): void {
    try {
      change();
    } catch (error) {
      this.#behind = true;
      const text = `Sluice keeps the previous API objects: ${messageOf(error)}`;
      this.#log.log("error", text, { kind: this.#options.kind }, text);
    }
  }
}

/** The known objects of a type stay in force when the type may no longer be read. */
function mayBeThere({ reflector: { state } }: TypeObjects): boolean {
  if (state.absent) return state.kept;
  return state.synced || state.failures < FAILURES_WAITED_FOR;
}

function keyOf({ namespace, name }: ObjectKey): string {
  return `${namespace}/${name}`;
}

/** Most objects whose problems are remembered as reported; those of further objects are reported again. */
const MAX_TOLD = 1000;
/** Characters of the problems by which those of one object are told apart. */
const LONGEST_KEY = 500;
const KEPT = "Sluice uses the last readable version of this InferencePool";

/**
 * Reads the objects of one type as the API server lists and watches them: items of a list do not state their kind. A problem of
 * an object is reported once per generation, which other annotations do not raise: other problems are reported too. A broken object counts as absent. Our pool is the exception: when a newer release
 * wrote it in a form that this release cannot read, it keeps its last state. Without the pool there would be no endpoints at
 * all.
 */
export function objectReader(
  { group, version, kind }: ResourceType,
  log: Logger,
): (object: unknown) => ResourceObject | undefined {
  const told = new Set<string>();
  /** The last readable pool: at most one pool is watched at a time. */
  let pool: InferencePool | undefined;

  function tell(item: unknown, problems: readonly string[]): void {
    const { metadata } = (item ?? {}) as {
      readonly metadata?: { readonly uid?: string; readonly generation?: number };
    };
    const key = `${metadata?.uid} ${metadata?.generation} ${problems.join("\n").slice(0, LONGEST_KEY)}`;
    if (told.has(key)) return;
    if (told.size >= MAX_TOLD) told.clear();
    told.add(key);
    for (const problem of problems) log.warn({}, problem);
  }

  return (item) => {
    const value: Record<string, unknown> = { ...(item as object), apiVersion: `${group}/${version}`, kind };
    const { object, broken, problems } = readServed(value);
    const { uid, deletionTimestamp } = (value["metadata"] ?? {}) as { uid?: string; deletionTimestamp?: string };
    const kept = broken && deletionTimestamp === undefined && uid === pool?.meta.uid ? pool : undefined;
    if (object?.kind === "InferencePool") pool = object;
    if (problems.length > 0) tell(item, kept === undefined ? problems : [...problems, KEPT]);
    return object ?? kept;
  };
}

import { type ApiObject, keyOf } from "./object.ts";

/** One change of one object. */
export interface Change {
  readonly revision: number;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly resource: string;
  /** As it is after the change; of a deletion, as it was, with the revision of the deletion. */
  readonly object: ApiObject;
  readonly previous: ApiObject | undefined;
}

/** Objects in revisions, with a bounded history: what etcd and the watch cache are to a real API server. */
export class Storage {
  readonly #objects = new Map<string, Map<string, ApiObject>>();
  readonly #limit: number;
  readonly #watchers = new Set<(change: Change) => void>();
  /** Of the last change of each kind. */
  readonly #newest = new Map<string, number>();
  #history: Change[] = [];
  #revision = 1;
  #compacted = 0;

  /** @param limit changes that are kept */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Of the last change. */
  get revision(): number {
    return this.#revision;
  }

  /** Changes up to this revision are forgotten. */
  get compacted(): number {
    return this.#compacted;
  }

  /** Revision of the last change of a kind; 0 = there was none. */
  newest(resource: string): number {
    return this.#newest.get(resource) ?? 0;
  }

  get(resource: string, namespace: string | undefined, name: string): ApiObject | undefined {
    return this.#objects.get(resource)?.get(keyOf(namespace, name));
  }

  /** In the order of their keys. @param namespace undefined = of all namespaces */
  all(resource: string, namespace: string | undefined): ApiObject[] {
    return sorted(this.#objects.get(resource) ?? new Map(), namespace);
  }

  /** As it was at a revision; undefined = too long ago. */
  at(resource: string, namespace: string | undefined, revision: number): ApiObject[] | undefined {
    if (revision >= this.#revision) return this.all(resource, namespace);
    if (revision < this.#compacted) return undefined;
    const objects = new Map(this.#objects.get(resource));
    for (let at = this.#history.length - 1; at >= 0; at--) {
      const change = this.#history[at]!;
      if (change.revision <= revision) break;
      if (change.resource !== resource) continue;
      const key = keyOf(change.object.metadata.namespace, change.object.metadata.name);
      if (change.previous === undefined) objects.delete(key);
      else objects.set(key, change.previous);
    }
    return sorted(objects, namespace);
  }

  /** Changes of a kind after a revision; undefined = some of them are forgotten. */
  since(resource: string, revision: number): Change[] | undefined {
    if (revision < this.#compacted) return undefined;
    return this.#history.filter((change) => change.revision > revision && change.resource === resource);
  }

  /** Stores an object under the next revision and returns it with that. */
  write(resource: string, object: ApiObject): ApiObject {
    let objects = this.#objects.get(resource);
    if (objects === undefined) {
      objects = new Map();
      this.#objects.set(resource, objects);
    }
    const { namespace, name } = object.metadata;
    const key = keyOf(namespace, name);
    const previous = objects.get(key);
    const stored = this.#versioned(object);
    objects.set(key, stored);
    this.#tell(resource, previous === undefined ? "ADDED" : "MODIFIED", stored, previous);
    return stored;
  }

  remove(resource: string, object: ApiObject): ApiObject {
    const { namespace, name } = object.metadata;
    const objects = this.#objects.get(resource);
    const previous = objects?.get(keyOf(namespace, name));
    objects?.delete(keyOf(namespace, name));
    const removed = this.#versioned(object);
    this.#tell(resource, "DELETED", removed, previous);
    return removed;
  }

  /** Forgets the history. */
  compact(): void {
    this.#history = [];
    this.#compacted = this.#revision;
  }

  watch(watcher: (change: Change) => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  #versioned(object: ApiObject): ApiObject {
    this.#revision++;
    return { ...object, metadata: { ...object.metadata, resourceVersion: String(this.#revision) } };
  }

  #tell(resource: string, type: Change["type"], object: ApiObject, previous: ApiObject | undefined): void {
    const change = { revision: this.#revision, type, resource, object, previous };
    this.#history.push(change);
    this.#newest.set(resource, this.#revision);
    // Cut in bulk: one shift per change would copy the array each time.
    if (this.#history.length >= 2 * this.#limit) {
      this.#history = this.#history.slice(-this.#limit);
      this.#compacted = this.#history[0]!.revision - 1;
    }
    for (const watcher of [...this.#watchers]) watcher(change);
  }
}

function sorted(objects: ReadonlyMap<string, ApiObject>, namespace: string | undefined): ApiObject[] {
  const prefix = namespace === undefined ? "" : `${namespace}/`;
  const keys = [...objects.keys()].filter((key) => key.startsWith(prefix));
  return keys.sort((a, b) => (a < b ? -1 : 1)).map((key) => objects.get(key)!);
}

/** Names one object of a kind. */
export interface ObjectKey {
  readonly namespace: string;
  readonly name: string;
}

/** Where a reflector keeps the objects. Calls are synchronous and in the order of the server's reports. */
export interface ReflectedSink<T> {
  /** All objects at this moment. An object that is not among them is gone. */
  replace(items: readonly T[]): void;
  /** An object was created or changed. */
  put(item: T): void;
  /** An object is gone; the sink may never have seen it. */
  remove(key: ObjectKey): void;
}

/** How up to date a reflector is. */
export interface ReflectorState {
  /** The reflector has read all objects once since its start. */
  readonly synced: boolean;
  /** The kind is not there, or this process may not read it. */
  readonly absent: boolean;
  /** It is absent because this process may no longer read it. The last known objects, possibly none, stay in force. */
  readonly kept: boolean;
  /** Monotonic milliseconds of the server's last message; -Infinity before the first. */
  readonly heardAt: number;
  readonly objects: number;
  /** Since the start. */
  readonly lists: number;
  readonly watches: number;
  readonly failures: number;
  /** The last problem, one line; "" while there is none. */
  readonly problem: string;
}

/** Names one object of a kind. */
export interface ObjectKey {
  readonly namespace: string;
  readonly name: string;
}

/** Where a reflector keeps what it reads. Calls are synchronous and in the order in which the server tells. */
export interface ReflectedSink<T> {
  /** All there are at this moment: what is not among them is gone. */
  replace(items: readonly T[]): void;
  /** One was made or changed. */
  put(item: T): void;
  /** One is gone; it may never have been told of. */
  remove(key: ObjectKey): void;
}

/** How up to date a reflector is. */
export interface ReflectorState {
  /** It has seen everything once since it was started. */
  readonly synced: boolean;
  /** The kind is not there, or we may not read it. */
  readonly absent: boolean;
  /** It is absent because we may not read it any more: what was last known of it counts, be it that there was nothing. */
  readonly kept: boolean;
  /** Monotonic milliseconds of the last word of the server; -Infinity before the first. */
  readonly heardAt: number;
  readonly objects: number;
  /** Since the start. */
  readonly lists: number;
  readonly watches: number;
  readonly failures: number;
  /** What went wrong last, one line; "" while all is well. */
  readonly problem: string;
}

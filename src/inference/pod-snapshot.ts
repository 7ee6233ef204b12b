/** A pod as far as anything here depends on it: projected when it is parsed, the rest is never kept. */
export interface PodSnapshot {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>>;
  /** The annotations that count: those that end in `/active-ports`. */
  readonly annotations: Readonly<Record<string, string>>;
  /** `status.podIP`, "" where it has none yet. */
  readonly address: string;
  /** `metadata.deletionTimestamp` is set. */
  readonly deleting: boolean;
  /** The first condition of type `Ready` is `True`. */
  readonly ready: boolean;
}

/** What of a pool decides who its endpoints are. */
export interface PoolMembership {
  readonly namespace: string;
  /** Whether a pod with these labels belongs to it. */
  readonly selects: (labels: Readonly<Record<string, string>>) => boolean;
  /** In order: the place of a port is the rank. */
  readonly ports: readonly number[];
}

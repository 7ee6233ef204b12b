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
  /**
   * `status.startTime`, else `metadata.creationTimestamp`, as the API server writes them: their order is that of their text. ""
   * where it says neither.
   */
  readonly since: string;
}

/** Whether two snapshots say the same. */
export function samePod(a: PodSnapshot, b: PodSnapshot): boolean {
  if (a.uid !== b.uid || a.address !== b.address || a.ready !== b.ready || a.deleting !== b.deleting) return false;
  if (a.namespace !== b.namespace || a.name !== b.name || a.since !== b.since) return false;
  return sameEntries(a.labels, b.labels) && sameEntries(a.annotations, b.annotations);
}

/** What of a pool decides who its endpoints are. */
export interface PoolMembership {
  readonly namespace: string;
  /** Whether a pod with these labels belongs to it. */
  readonly selects: (labels: Readonly<Record<string, string>>) => boolean;
  /** In order: the place of a port is the rank. */
  readonly ports: readonly number[];
}

function sameEntries(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  let entries = 0;
  for (const key in a) {
    if (a[key] !== b[key]) return false;
    entries++;
  }
  for (const _ in b) entries--;
  return entries === 0;
}

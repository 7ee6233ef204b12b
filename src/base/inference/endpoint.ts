/**
 * The values of a model server from its last readable metrics page. Each scrape replaces the object as a whole; it is never
 * mutated. A number that was not on the page is NaN.
 */
export interface EndpointMetrics {
  /** Requests queued in the engine. */
  readonly waiting: number;
  /** Requests executing. */
  readonly running: number;
  /** KV-cache utilisation, 0..1. */
  readonly kvUsage: number;
  /** LoRA adapters that fit one batch. */
  readonly maxLora: number;
  readonly loraRunning: ReadonlySet<string>;
  readonly loraWaiting: ReadonlySet<string>;
  /** Tokens per KV block. */
  readonly blockSize: number;
  /** KV blocks on the device. */
  readonly blocks: number;
  /** Further numbers that the configuration asks for, by `attribute/producer`; absent = none. */
  readonly attributes?: ReadonlyMap<string, number>;
  /** Monotonic milliseconds of the scrape; -Infinity before the first one. */
  readonly scrapedAt: number;
}

const NO_ADAPTERS: ReadonlySet<string> = new Set();

/** The metrics of an endpoint that was never scraped. */
export const UNKNOWN_METRICS: EndpointMetrics = {
  waiting: Number.NaN,
  running: Number.NaN,
  kvUsage: Number.NaN,
  maxLora: Number.NaN,
  loraRunning: NO_ADAPTERS,
  loraWaiting: NO_ADAPTERS,
  blockSize: Number.NaN,
  blocks: Number.NaN,
  scrapedAt: Number.NEGATIVE_INFINITY,
};

/**
 * `up`: reachable and readable. `blind`: reachable, but its last metrics page was an error, garbage or lacked every
 * value. `down`: the last connection was refused, timed out or was reset.
 */
export type EndpointState = "up" | "blind" | "down";

/** Load that was sent to an endpoint and that has not ended. */
export interface InFlightLoad {
  readonly requests: number;
  /** Prompt tokens not expected in the endpoint's prefix cache. */
  readonly tokens: number;
}

export const NO_LOAD: InFlightLoad = { requests: 0, tokens: 0 };

/**
 * The most tokens that one prompt adds to the load of another replica's endpoint (`PeerLoad.lean`): one point of the default profile,
 * so that load and prefixes still decide.
 */
export const MOST_LEAN = 16_384;

/** Load that counts at the home of another replica in addition to what is in flight there. */
export interface PeerLean extends InFlightLoad {
  /** The share of the request's own tokens, at most `MOST_LEAN`, that counts as well, 0 to 1. */
  readonly share: number;
}

export const NO_LEAN: PeerLean = { ...NO_LOAD, share: 0 };

/** What the other replicas of this picker have in flight at an endpoint, as they said last. */
export interface PeerLoad extends InFlightLoad {
  /** `address:port`, as replicas name the endpoint in their messages. */
  readonly key: string;
  /** Milliseconds since the replica with load here that was silent longest was heard; 0 where none has load here. */
  ageMs(now: number): number;
  /**
   * What peers have probably sent since then. Without it, all replicas would send the requests of a burst to the endpoint that was
   * least busy before. Valid until the next call.
   */
  unseen(now: number): InFlightLoad;
  /**
   * Load that counts here in addition, where the endpoint is the home of another replica: replicas that see the same load do not all
   * take the same endpoint. None at an endpoint of the own home. Valid until the next call.
   */
  readonly lean: PeerLean;
}

/** Load that was sent to an endpoint since the last scrape began that its metrics come from: they may not show it yet. */
export interface UnscrapedLoad {
  /** Requests, also those that have ended since. */
  readonly requests: number;
  /** Their prompt tokens not expected in the prefix cache. */
  readonly tokens: number;
  /** The most requests that the engine ran at once while none waited; once some wait, those that it runs. */
  readonly capacity: number;
}

/** One model server as every room sees it; owned and changed by `pool/endpoints` alone. */
export interface Endpoint {
  /** `namespace/name`, unique in the pool. */
  readonly id: string;
  /** Small dense integer while the endpoint lives, reused afterwards: an index for typed arrays and bit sets. */
  readonly slot: number;
  readonly namespace: string;
  readonly name: string;
  /** Literal IP, or a host name where `--endpoints` allows one. */
  readonly address: string;
  readonly port: number;
  /** `address:port` as it goes on the wire; IPv6 in brackets. */
  readonly hostPort: string;
  /** Whether requests go over TLS; absent = as the gateway says for all. */
  readonly scheme?: "http" | "https" | undefined;
  readonly rank: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly metrics: EndpointMetrics;
  /** Numbers from pages besides the metrics page, by `attribute/producer`; stale ones are gone. Absent = none. */
  readonly attributes?: ReadonlyMap<string, number> | undefined;
  /** The models that the server lists, where a models-data-source asks. */
  readonly listedModels?: readonly string[] | undefined;
  /** Name of the node of its pod; absent = unknown. */
  readonly node?: string | undefined;
  /** Address of that node; absent = unknown. */
  readonly nodeAddress?: string | undefined;
  /** From this process and, where replicas share their load, from its peers. */
  readonly inFlight: InFlightLoad;
  /** The part of `inFlight` that peers have sent. Absent where no replicas share their load. */
  readonly peers?: PeerLoad | undefined;
  /** Absent where nothing is scraped. */
  readonly unscraped?: UnscrapedLoad | undefined;
  readonly state: EndpointState;
  /** Current distance between scrapes in milliseconds: freshness is measured against it. */
  readonly scrapeInterval: number;
}

/** Why an attempt at an endpoint failed, as the wire rooms report it. */
export type AttemptFailure = "connect" | "timeout" | "reset" | "status";

/**
 * Whether the endpoint's metrics are fresh at monotonic time `now`, which means that no scheduled scrape was missed. Their age
 * is then at most max(threshold, 2.5 x the endpoint's current interval). An idle endpoint, scraped rarely, is fresh.
 * @param threshold milliseconds
 */
export function isFresh(endpoint: Endpoint, now: number, threshold: number): boolean {
  return now - endpoint.metrics.scrapedAt <= Math.max(threshold, 2.5 * endpoint.scrapeInterval);
}

/** What peers have probably sent to an endpoint (`PeerLoad.unseen`); nothing where no replicas share their load. */
export function unseenAt({ peers }: Endpoint, now: number): InFlightLoad {
  return peers?.unseen(now) ?? NO_LOAD;
}

/** The value of an attribute of an endpoint; undefined = it has none. @param key `attribute/producer` */
export function attributeOf({ metrics, attributes }: Endpoint, key: string): number | undefined {
  return metrics.attributes?.get(key) ?? attributes?.get(key);
}

/** `address:port` with IPv6 in brackets. */
export function hostPort(address: string, port: number): string {
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}

/** The fields of a pod that this code depends on. The parser keeps these and drops the rest. */
export interface PodSnapshot {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>>;
  /** The annotations that count: those that end in `/active-ports`. */
  readonly annotations: Readonly<Record<string, string>>;
  /** `status.podIP`, "" where it has none yet. */
  readonly address: string;
  /** `spec.nodeName` and `status.hostIP`; absent = unknown. */
  readonly node?: string;
  readonly nodeAddress?: string;
  /** `metadata.deletionTimestamp` is set. */
  readonly deleting: boolean;
  /** The first condition of type `Ready` is `True`. */
  readonly ready: boolean;
  /**
   * `status.startTime`, else `metadata.creationTimestamp`, as the API server writes them: the order of the texts is the order
   * in time. "" where the pod has neither.
   */
  readonly since: string;
}

/** Whether two snapshots are equal. */
export function samePod(a: PodSnapshot, b: PodSnapshot): boolean {
  if (a.uid !== b.uid || a.address !== b.address || a.ready !== b.ready || a.deleting !== b.deleting) return false;
  if (a.namespace !== b.namespace || a.name !== b.name || a.since !== b.since) return false;
  if (a.node !== b.node || a.nodeAddress !== b.nodeAddress) return false;
  return sameEntries(a.labels, b.labels) && sameEntries(a.annotations, b.annotations);
}

/** The fields of a pool that decide which endpoints belong to it. */
export interface PoolMembership {
  readonly namespace: string;
  /** Whether a pod with these labels belongs to it. */
  readonly selects: (labels: Readonly<Record<string, string>>) => boolean;
  /** In order: the index of a port is the rank. */
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

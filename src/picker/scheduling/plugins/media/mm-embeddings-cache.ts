import { z } from "zod";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import type { InferenceRequest } from "../../../../base/inference/request.ts";
import { defineProducer, defineScorer } from "../../../../base/plugin/define.ts";
import { MEDIA_MATCHED_ITEMS, MEDIA_TOTAL_ITEMS } from "../../../../base/plugin/keys.ts";
import type { ProduceContext, Producer } from "../../../../base/plugin/kinds.ts";
import { MediaHasher, type MediaItem } from "./media-hash.ts";

/** The size of the embeddings of one item, MiB, that the reference assumes (scheduling 3.10.5). */
const ITEM_MIB = 2;
const DEFAULT_MIB = 4096;
/** 64 Ki items for each endpoint: about 8 MB of this process. */
const MAX_MIB = 131_072;
/** The profile whose endpoint encodes, where it runs (scheduling 3.7.1). */
const ENCODE_PROFILE = "encode";
/** The most endpoints in the debug state. */
const MAX_SHOWN = 100;

const cacheSize = () =>
  z
    .int()
    .max(MAX_MIB, { error: `must be at most ${MAX_MIB}` })
    .optional();

/** scheduling 3.10.5 */
export const mmEmbeddingsCacheProducer = defineProducer({
  type: "mm-embeddings-cache-producer",
  describe:
    "Remembers the images, sounds and videos that each endpoint got, and publishes how many of a request's items each endpoint has probably encoded before.",
  parameters: z.strictObject({
    cacheSizeInMBPerServer: cacheSize().describe(
      "Size of the embeddings cache of an endpoint in MiB. Each item counts as 2 MiB. 0 or less counts as 4096, the default.",
    ),
    cacheSizeInMB: cacheSize().describe(
      "Older name of cacheSizeInMBPerServer. If both are set, cacheSizeInMBPerServer applies.",
    ),
  }),
  produces: [MEDIA_MATCHED_ITEMS, MEDIA_TOTAL_ITEMS],
  create: ({ cacheSizeInMBPerServer, cacheSizeInMB }, { random }) => {
    const size = cacheSizeInMBPerServer ?? cacheSizeInMB ?? 0;
    const capacity = Math.max(1, Math.floor((size > 0 ? size : DEFAULT_MIB) / ITEM_MIB));
    return new MediaCaches(capacity, new MediaHasher(random.below(2 ** 32), random.below(2 ** 32)));
  },
});

/** The look-ups since they were last taken, for counters (scheduling 8.5). */
export interface MediaLookups {
  /** Items looked up, by kind. */
  readonly queries: ReadonlyMap<MediaItem["kind"], number>;
  /** Items found: by kind and id of the endpoint, apart by a line feed. */
  readonly hits: ReadonlyMap<string, number>;
  /** How often each share of a request's items was found at an endpoint. */
  readonly ratios: ReadonlyMap<number, number>;
}

export class MediaCaches implements Producer {
  readonly #capacity: number;
  readonly #hasher: MediaHasher;
  /** By slot: hashes in the order of use, the latest last. */
  readonly #caches = new Map<number, { readonly id: string; readonly items: Set<string> }>();
  /** The request of the present decision. */
  #request: InferenceRequest | undefined;
  #items: readonly MediaItem[] = [];
  #queries = new Map<MediaItem["kind"], number>();
  #hits = new Map<string, number>();
  #ratios = new Map<number, number>();

  /** @param capacity items for each endpoint, from 1 up */
  constructor(capacity: number, hasher: MediaHasher) {
    this.#capacity = capacity;
    this.#hasher = hasher;
  }

  produce({ request, candidates }: ProduceContext): void {
    const items = this.#hasher.items(request);
    this.#request = request;
    this.#items = items;
    if (items.length === 0) return;
    const { endpoints, count } = candidates;
    const matched = candidates.column(MEDIA_MATCHED_ITEMS);
    candidates.column(MEDIA_TOTAL_ITEMS).fill(items.length, 0, count);
    for (const { kind } of items) add(this.#queries, kind);
    for (let i = 0; i < count; i++) {
      const cache = this.#caches.get(endpoints[i]!.slot);
      let found = 0;
      for (const { hash, kind } of cache === undefined ? [] : items) {
        if (!cache!.items.has(hash)) continue;
        found++;
        add(this.#hits, `${kind}\n${endpoints[i]!.id}`);
      }
      matched[i] = found;
      add(this.#ratios, found / items.length);
    }
  }

  /** The endpoint of the encode profile encodes where that profile runs, else the one that answers. */
  routed(request: InferenceRequest, endpoint: Endpoint, others: ReadonlyMap<string, Endpoint>): void {
    if (request === this.#request && this.#items.length > 0) {
      this.#remember(endpoint);
      const encoding = others.get(ENCODE_PROFILE);
      if (encoding !== undefined && encoding.slot !== endpoint.slot) this.#remember(encoding);
    }
    this.refused();
  }

  refused(): void {
    this.#request = undefined;
    this.#items = [];
  }

  endpointRemoved({ slot, id }: Endpoint): void {
    this.#caches.delete(slot);
    for (const key of this.#hits.keys()) if (key.endsWith(`\n${id}`)) this.#hits.delete(key);
  }

  /** Returns the look-ups since the last call. */
  takeLookups(): MediaLookups {
    const taken = { queries: this.#queries, hits: this.#hits, ratios: this.#ratios };
    this.#queries = new Map();
    this.#hits = new Map();
    this.#ratios = new Map();
    return taken;
  }

  /** Returns the number of items per endpoint, most first (scheduling 9.2). */
  debugState(): unknown {
    const pods = [...this.#caches.values()].map(({ id, items }) => ({ pod: id, items: items.size }));
    pods.sort((a, b) => b.items - a.items || (a.pod < b.pod ? -1 : 1));
    return { pods: pods.slice(0, MAX_SHOWN), totalPods: pods.length, maxPods: MAX_SHOWN };
  }

  #remember({ slot, id }: Endpoint): void {
    let cache = this.#caches.get(slot);
    if (cache === undefined) {
      cache = { id, items: new Set() };
      this.#caches.set(slot, cache);
    }
    const { items } = cache;
    for (const { hash } of this.#items) {
      items.delete(hash);
      items.add(hash);
    }
    for (const oldest of items) {
      if (items.size <= this.#capacity) break;
      items.delete(oldest);
    }
  }
}

function add<K>(counts: Map<K, number>, key: K): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

/** scheduling 3.9 */
export const mmEmbeddingsCacheScorer = defineScorer({
  type: "mm-embeddings-cache-scorer",
  describe: "Prefers endpoints that have probably encoded more of the request's images, sounds and videos before.",
  parameters: z.strictObject({
    producerName: z
      .string()
      .default("")
      .describe("Instance name of the mm-embeddings-cache-producer; empty = the only producer."),
  }),
  requires: [MEDIA_MATCHED_ITEMS, MEDIA_TOTAL_ITEMS],
  create: () => ({
    score({ candidates, out }) {
      const matched = candidates.column(MEDIA_MATCHED_ITEMS);
      const total = candidates.column(MEDIA_TOTAL_ITEMS);
      for (let i = 0; i < candidates.count; i++) if (total[i]! > 0) out[i] = matched[i]! / total[i]!;
    },
  }),
});

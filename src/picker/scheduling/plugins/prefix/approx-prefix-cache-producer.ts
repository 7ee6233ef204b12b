import { z } from "zod";
import type { AnswerListener } from "../../../../base/inference/cache-report.ts";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import { type InferenceRequest, receivedBytesPerToken } from "../../../../base/inference/request.ts";
import { defineProducer } from "../../../../base/plugin/define.ts";
import {
  PREFIX_BLOCK_TOKENS,
  PREFIX_MATCHED_BLOCKS,
  PREFIX_TOTAL_BLOCKS,
  TOKENIZED_PROMPT,
  type TokenizedPrompt,
} from "../../../../base/plugin/keys.ts";
import type { PluginContext, ProduceContext, Producer } from "../../../../base/plugin/kinds.ts";
import type { PrefixChannel, SharedBlocks } from "../../../../base/plugin/shared-prefixes.ts";
import { AnswerLessons } from "../../../prefix/answer-lessons.ts";
import {
  BlockHasher,
  BlockHashes,
  HASHED_BYTES_PER_TOKEN,
  type HashedRequest,
  MIN_BLOCK_TOKENS,
} from "../../../prefix/block-hash.ts";
import { NEVER } from "../../../prefix/entry-lru.ts";
import { DEFAULT_CAPACITY, type IndexCapacity, PrefixIndex, pairsWithin } from "../../../prefix/prefix-index.ts";
import { fillFirst } from "../../candidates.ts";
import type { SchedulingPlan } from "../../profile.ts";

/** The name of the profile whose endpoint computes the prompt in disaggregated serving (scheduling 3.10.4). */
export const PREFILL_PROFILE = "prefill";

/** With this value of `blockSizeTokens`, the deprecated `blockSize` counts. */
const DEFAULT_BLOCK_TOKENS = 16;
/**
 * The most blocks per endpoint; larger values in its metrics do not count. These are 67 M tokens in the smallest blocks of text
 * with 4 bytes a token.
 */
const MAX_CAPACITY = 2 ** 20;
/** The limit of hashed bytes per token: text that is nearly all escapes has up to six times as many bytes for a token. */
const MOST_HASHED_BYTES_PER_TOKEN = 16;
/**
 * Peers hear of new blocks. Of one decision in this many they hear of all its blocks, so that what a peer has missed or dropped comes
 * back.
 */
const REPEAT_EVERY = 16;
/** The most known blocks that peers hear of again, for each decision on average: 128 bytes. Decisions save up for a long prompt. */
const REPEATED_BLOCKS = 16;
/** The most that is saved up: the blocks of the longest prompt that one message names. */
const MOST_SAVED = 4096;
/** The most endpoints in the debug state. */
const MAX_SHOWN = 100;

const parameters = z
  .strictObject({
    autoTune: z
      .boolean()
      .default(true)
      .describe("Take block size and capacity from the cache configuration of an engine, if the engine reports it."),
    blockSizeTokens: z
      .int()
      .default(DEFAULT_BLOCK_TOKENS)
      .describe("Tokens per block, at least 64: the default and every other value below 64 mean 64."),
    blockSize: z
      .int()
      .optional()
      .describe("Deprecated name of blockSizeTokens; counts only while blockSizeTokens is 16."),
    maxPrefixBlocksToMatch: z
      .int()
      .min(0)
      .default(2048)
      .describe("Deprecated: the most blocks per request, 0 = no limit; counts only when maxPrefixTokensToMatch is 0."),
    maxPrefixTokensToMatch: z
      .int("maxPrefixTokensToMatch must be an integer")
      .min(0, "maxPrefixTokensToMatch must not be negative")
      .default(131_072)
      .describe("The most tokens of a request that Sluice hashes; 0 = maxPrefixBlocksToMatch decides."),
    lruCapacityPerServer: z
      .int()
      .min(1)
      .default(DEFAULT_CAPACITY)
      .describe("Blocks that Sluice remembers for an endpoint whose engine does not report its cache."),
    learnFromAnswers: z
      .boolean()
      .default(true)
      .describe(
        "Forget blocks that an endpoint no longer has, by the cached tokens in its answers. Only Sluice has this parameter.",
      ),
  })
  .refine(({ autoTune, blockSizeTokens, blockSize }) => autoTune || (blockSize ?? blockSizeTokens) > 0, {
    path: ["blockSizeTokens"],
    message: "blockSizeTokens must be greater than 0 when autoTune is false",
  });

/** scheduling 3.10 */
export const approxPrefixCacheProducer = defineProducer({
  type: "approx-prefix-cache-producer",
  describe:
    "Remembers the prompt prefixes that each endpoint got, and publishes how much of a prompt each endpoint may hold.",
  parameters,
  produces: [PREFIX_MATCHED_BLOCKS, PREFIX_TOTAL_BLOCKS, PREFIX_BLOCK_TOKENS],
  optional: [TOKENIZED_PROMPT],
  create: (settings, context) => new ApproxPrefixCache(settings, context),
});

type Settings = z.output<typeof parameters>;

/** A request whose blocks are at an endpoint. */
interface Placement {
  /** Whether somebody reports its answer. */
  listens: boolean;
  /** What the answer will teach; undefined = nothing. */
  lesson: Required<AnswerListener> | undefined;
}

class ApproxPrefixCache implements Producer {
  readonly index: PrefixIndex;
  readonly lessons: AnswerLessons;
  readonly #settings: Settings;
  readonly #configuredTokens: number;
  readonly #hasher: BlockHasher;
  readonly #hashes = new BlockHashes();
  /** Ids of the endpoints in the index, by slot. */
  readonly #names = new Map<number, string>();
  /** The request whose blocks are in #hashes; set to undefined as soon as it is routed or refused. */
  #request: InferenceRequest | undefined;
  /** Tokens in each of those blocks. */
  #blockTokens = 0;
  /** Whether they are the whole of one prompt, so that a share of the prompt's tokens says which they are. */
  #isWhole = false;
  /** Of that request; undefined = nobody asks for it. */
  #placement: Placement | undefined;
  /** The turns in which the blocks of a request were used before. */
  #before = new Int32Array(64);
  /** Undefined where no replicas share what they know. */
  readonly #channel: PrefixChannel | undefined;
  /** The blocks that the last `add` found to be new. */
  readonly #news: BlockHashes | undefined;
  #untilRepeat = REPEAT_EVERY;
  /** Known blocks that peers may hear of again. */
  #saved = 0;
  /** Of the request that was routed last: blocks that only peers had placed at its endpoint. */
  peerBlocks = 0;

  constructor(settings: Settings, { name, random, indexBytes, sharedPrefixes }: PluginContext) {
    this.#settings = settings;
    this.index = new PrefixIndex(pairsWithin(indexBytes));
    this.lessons = new AnswerLessons(this.index);
    const { blockSizeTokens, blockSize } = settings;
    const configured = blockSizeTokens === DEFAULT_BLOCK_TOKENS ? (blockSize ?? blockSizeTokens) : blockSizeTokens;
    this.#configuredTokens = Math.max(MIN_BLOCK_TOKENS, configured);
    const [key0, key1] = sharedPrefixes?.hashKeys ?? [random.below(2 ** 32), random.below(2 ** 32)];
    this.#hasher = new BlockHasher(key0, key1);
    this.#news = sharedPrefixes === undefined ? undefined : new BlockHashes();
    this.#channel = sharedPrefixes?.open(name, (endpoint, blocks) => this.#placedByPeer(endpoint, blocks));
  }

  produce(context: ProduceContext): void {
    const { request, candidates } = context;
    const { endpoints, count } = candidates;
    const tokenized = context.attribute(TOKENIZED_PROMPT);
    const hashed = tokenized === undefined ? request : tokensOf(request, tokenized);
    const blockSize = this.#blockSizeFor(endpoints);
    // The bytes of a block do not depend on the learned bytes per token: else later requests would not find its hash. Only its
    // number of tokens follows the learned value.
    const blockTokens = (blockSize * HASHED_BYTES_PER_TOKEN) / hashedBytesPerToken(request, tokenized);
    const maxBlocks = this.#maxBlocks(blockSize, blockTokens);
    this.#request = undefined;
    this.#placement = undefined;
    this.peerBlocks = 0;
    this.#hasher.hash(hashed, blockSize, maxBlocks, this.#hashes);
    this.#request = request;
    this.#blockTokens = blockTokens;
    this.#isWhole = hashed.prompts.length === 1 && this.#hashes.count < maxBlocks;
    this.index.match(this.#hashes, endpoints, count, candidates.column(PREFIX_MATCHED_BLOCKS));
    fillFirst(candidates.column(PREFIX_TOTAL_BLOCKS), this.#hashes.count, count);
    fillFirst(candidates.column(PREFIX_BLOCK_TOKENS), blockTokens, count);
  }

  /** The endpoint will soon hold the prompt, so the next request with the same prefix should follow this one. */
  routed(request: InferenceRequest, endpoint: Endpoint, others: ReadonlyMap<string, Endpoint>): void {
    if (request !== this.#request) return;
    const placement = this.#placement;
    this.#request = undefined;
    this.#placement = undefined;
    this.peerBlocks = this.#add(this.#hashes, this.#blockTokens, endpoint);
    // With a stage of its own for the prompt, an answer does not say which endpoint had what in its cache.
    if (placement?.listens === true && others.size === 0)
      placement.lesson = this.#lesson(this.#hashes, this.#blockTokens, endpoint);
    const prefill = others.get(PREFILL_PROFILE);
    if (prefill !== undefined && prefill.slot !== endpoint.slot) this.#add(this.#hashes, this.#blockTokens, prefill);
  }

  refused(): void {
    this.#request = undefined;
    this.#placement = undefined;
  }

  follow(request: InferenceRequest): ((served: Endpoint) => void) | undefined {
    if (request !== this.#request || this.#hashes.count === 0) return undefined;
    const packed = this.#hashes.packed();
    const blockTokens = this.#blockTokens;
    const placement = this.#placementNow();
    return (served) => {
      const hashes = new BlockHashes();
      hashes.unpack(packed);
      const { lesson } = placement;
      lesson?.ended(undefined);
      this.#add(hashes, blockTokens, served);
      if (lesson !== undefined) placement.lesson = this.#lesson(hashes, blockTokens, served);
    };
  }

  listen(request: InferenceRequest): AnswerListener | undefined {
    if (!this.#settings.learnFromAnswers || !this.#isWhole) return undefined;
    if (request !== this.#request || this.#hashes.count === 0) return undefined;
    const placement = this.#placementNow();
    placement.listens = true;
    return listenerOf(placement);
  }

  endpointRemoved(endpoint: Endpoint): void {
    this.lessons.forget(endpoint.slot);
    this.index.remove(endpoint.slot);
    this.#names.delete(endpoint.slot);
  }

  close(): void {
    this.#channel?.close();
  }

  /** Returns the number of blocks per endpoint, most first (scheduling 9.2). */
  debugState(): unknown {
    const pods = [...this.#names].map(([slot, pod]) => ({ pod, blocks: this.index.blocksOf(slot) }));
    pods.sort((a, b) => b.blocks - a.blocks || (a.pod < b.pod ? -1 : 1));
    return { pods: pods.slice(0, MAX_SHOWN), totalPods: pods.length, maxPods: MAX_SHOWN };
  }

  /** @returns how many of the blocks only peers had placed there */
  #add(hashes: BlockHashes, blockTokens: number, endpoint: Endpoint): number {
    if (hashes.count === 0) return 0;
    if (hashes.count > this.#before.length) this.#before = new Int32Array(2 * hashes.count);
    const capacity = this.#capacityOf(endpoint);
    const fromPeers = this.index.add(hashes, endpoint.slot, blockTokens, capacity, this.#news, this.#before);
    this.#names.set(endpoint.slot, endpoint.id);
    if (this.#channel !== undefined) this.#tell(this.#channel, endpoint, hashes, blockTokens);
    return fromPeers;
  }

  #tell(channel: PrefixChannel, endpoint: Endpoint, hashes: BlockHashes, blockTokens: number): void {
    this.#saved = Math.min(MOST_SAVED, this.#saved + REPEATED_BLOCKS);
    const from = this.#repeatedFrom(hashes.count, endpoint);
    const count = hashes.count - from;
    const repeated = count - this.#news!.count;
    if (count > 0 && repeated <= this.#saved) {
      this.#saved -= repeated;
      channel.placed(endpoint, { low: hashes.low, high: hashes.high, from, count, blockTokens });
      return;
    }
    const { low, high, count: news } = this.#news!;
    if (news > 0) channel.placed(endpoint, { low, high, from: 0, count: news, blockTokens });
  }

  /**
   * The first of the blocks that peers should hear of again, with all that follow it. An endpoint that drops blocks drops those first
   * that were not used for long, so peers that do not hear of a use take the blocks for dropped, or others for kept.
   * @returns the number of blocks where there is none
   */
  #repeatedFrom(blocks: number, endpoint: Endpoint): number {
    if (--this.#untilRepeat <= 0) {
      this.#untilRepeat = REPEAT_EVERY;
      return 0;
    }
    const bits = this.index.useBits(endpoint.slot, this.#capacityOf(endpoint));
    if (bits < 0) return blocks;
    const part = this.index.turnOf(endpoint.slot) >> bits;
    let from = 0;
    while (from < blocks && (this.#before[from] === NEVER || this.#before[from]! >> bits === part)) from++;
    return from;
  }

  #placedByPeer(endpoint: Endpoint, blocks: SharedBlocks): void {
    this.index.addOfPeer(blocks, endpoint.slot, blocks.blockTokens, this.#capacityOf(endpoint));
    this.#names.set(endpoint.slot, endpoint.id);
  }

  /** Begins to learn from the answer to the request that was added last. */
  #lesson({ count }: BlockHashes, blockTokens: number, { slot }: Endpoint): Required<AnswerListener> {
    const turn = this.index.turnOf(slot);
    return this.lessons.open({ slot, turn, before: this.#before, blocks: count, tokens: count * blockTokens });
  }

  #placementNow(): Placement {
    this.#placement ??= { listens: false, lesson: undefined };
    return this.#placement;
  }

  /**
   * Returns the tokens of a block; a block has 4 times as many bytes. The first candidate with a known block size decides,
   * because the endpoints of a pool should be alike.
   */
  #blockSizeFor(endpoints: readonly Endpoint[]): number {
    if (!this.#settings.autoTune) return this.#configuredTokens;
    for (const { metrics } of endpoints) {
      const { blockSize } = metrics;
      if (blockSize > 0 && blockSize <= Number.MAX_SAFE_INTEGER)
        return Math.max(MIN_BLOCK_TOKENS, Math.floor(blockSize));
    }
    return this.#configuredTokens;
  }

  #maxBlocks(blockSize: number, blockTokens: number): number {
    const { maxPrefixTokensToMatch, maxPrefixBlocksToMatch } = this.#settings;
    if (maxPrefixTokensToMatch > 0) {
      const least = (blockSize * HASHED_BYTES_PER_TOKEN) / MOST_HASHED_BYTES_PER_TOKEN;
      return Math.floor(maxPrefixTokensToMatch / Math.max(blockTokens, least));
    }
    return maxPrefixBlocksToMatch === 0 ? Number.POSITIVE_INFINITY : maxPrefixBlocksToMatch;
  }

  /**
   * Engines count tokens in blocks of their own size. Without their block size, the configured number of Sluice's blocks
   * counts.
   */
  #capacityOf({ metrics }: Endpoint): IndexCapacity {
    const tokens = metrics.blocks * metrics.blockSize;
    if (!this.#settings.autoTune || !(tokens > 0))
      return { blocks: this.#settings.lruCapacityPerServer, tokens: Number.POSITIVE_INFINITY };
    return { blocks: MAX_CAPACITY, tokens };
  }
}

/** A function of its own, so that what it returns keeps no request. */
function listenerOf(placement: Placement): AnswerListener {
  return { answered: () => placement.lesson?.answered(), ended: (report) => placement.lesson?.ended(report) };
}

/** A token has as many bytes as one counts for in text, so blocks have the same size either way. */
function tokensOf({ cacheSalt, targetModel }: InferenceRequest, { tokens, prompts }: TokenizedPrompt): HashedRequest {
  return { body: tokens, prompts: prompts.map((prompt) => [prompt]), cacheSalt, targetModel };
}

/** Returns the hashed bytes per token of the engine. */
function hashedBytesPerToken(request: InferenceRequest, tokenized: TokenizedPrompt | undefined): number {
  if (tokenized === undefined) return receivedBytesPerToken(request);
  const { units = tokenized.count, count } = tokenized;
  return count > 0 ? (HASHED_BYTES_PER_TOKEN * units) / count : HASHED_BYTES_PER_TOKEN;
}

/** An index of prompt prefixes, for metrics. */
interface PrefixIndexFigures {
  /** Of the plugin. */
  readonly name: string;
  readonly type: string;
  /** Entries. */
  readonly size: number;
  /** Counts up while the plugin lives. */
  readonly lessons: Pick<AnswerLessons, "corrections" | "dropped">;
}

/** Returns the figures of each prefix producer of a plan. */
export function prefixIndexes(plan: SchedulingPlan): PrefixIndexFigures[] {
  return plan.producers.flatMap(({ name, type, plugin }) =>
    plugin instanceof ApproxPrefixCache ? [{ name, type, size: plugin.index.size, lessons: plugin.lessons }] : [],
  );
}

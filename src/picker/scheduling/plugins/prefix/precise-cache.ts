import type { Clock, Timer } from "../../../../base/clock/clock.ts";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import type { InferenceRequest } from "../../../../base/inference/request.ts";
import {
  PREFIX_BLOCK_TOKENS,
  PREFIX_CACHED_BLOCKS,
  PREFIX_MATCHED_BLOCKS,
  PREFIX_TOTAL_BLOCKS,
  PREFIX_UNCONFIRMED_BLOCKS,
  TOKENIZED_PROMPT,
  type TokenizedPrompt,
} from "../../../../base/plugin/keys.ts";
import type { PluginContext, ProduceContext, Producer } from "../../../../base/plugin/kinds.ts";
import type { Logger } from "../../../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../../../base/telemetry/rate-limited-log.ts";
import { Announcements } from "../../../kv-events/announcements.ts";
import { EventCounts } from "../../../kv-events/event-counts.ts";
import { EventFeed, type PublisherState } from "../../../kv-events/event-feed.ts";
import { type HashedPrompt, PromptMatch } from "../../../kv-events/prompt-match.ts";
import type { EventSockets, SocketFault } from "../../../kv-events/sockets.ts";
import { Speculation } from "../../../kv-events/speculation.ts";
import { Tiers } from "../../../kv-events/tiers.ts";
import { EventIndex } from "../../../prefix/event-index.ts";
import { TokenChain } from "../../../prefix/token-chain.ts";
import { PREFILL_PROFILE } from "./approx-prefix-cache-producer.ts";
import { feedSettings, type PreciseParameters, type PreciseSettings, preciseSettings } from "./precise-parameters.ts";

/** The most publishers in the debug state. */
const MAX_SHOWN = 100;
/** Pairs of forgotten endpoints that are freed at a time, and milliseconds between two times. */
const SWEEP_PAIRS = 2_000;
const SWEEP_MS = 5;
/** Leading blocks of a request that are expected where it is routed: their keys are made within the decision. */
const EXPECTED_BLOCKS = 8192;
/** Milliseconds between two log lines of one kind. */
const LOG_INTERVAL_MS = 30_000;

/** The request that was looked up last, with its tokens. */
interface LastRequest {
  readonly request: InferenceRequest;
  readonly prompt: HashedPrompt;
  /** Undefined = not needed so far. */
  keys: Int32Array | undefined;
}

/** The blocks that the engines say they hold (scheduling 3.14). */
export class PrecisePrefixCache implements Producer {
  readonly settings: PreciseSettings;
  readonly index: EventIndex;
  readonly counts = new EventCounts();
  readonly feed: EventFeed;
  /** Called with the seconds of each lookup; undefined = nobody measures. */
  onLookup: ((seconds: number) => void) | undefined;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #rare: RateLimitedLog;
  readonly #match: PromptMatch;
  readonly #announcements: Announcements;
  readonly #speculation: Speculation | undefined;
  /** Undefined as soon as it is routed or refused. */
  #last: LastRequest | undefined;
  #sweeper: Timer | undefined;
  #reporter: Timer | undefined;

  constructor(parameters: PreciseParameters, { clock, log, random, indexBytes }: PluginContext, sockets: EventSockets) {
    this.settings = preciseSettings(parameters, indexBytes);
    this.#clock = clock;
    this.#log = log;
    this.#rare = new RateLimitedLog(log, clock, { intervalMs: LOG_INTERVAL_MS, maxKeys: 256 });
    const tiers = new Tiers(
      parameters.indexerConfig.kvCacheBackendConfigs.map(({ name, weight }) => ({ name: name.toLowerCase(), weight })),
    );
    const { maxPairs, seed, speculativeTtl, logInterval } = this.settings;
    this.index = new EventIndex({ weights: tiers.weights, maxPairs, key: random.below(2 ** 32) });
    const keys = [random.below(2 ** 32), random.below(2 ** 32)] as const;
    // Events and prompts are hashed in turns, so each has a chain of its own.
    this.#match = new PromptMatch(this.index, new TokenChain(...keys, seed));
    this.#announcements = new Announcements({
      ...{ index: this.index, tiers, counts: this.counts },
      chain: new TokenChain(...keys, seed),
      onCleared: () => {
        if (this.#sweeper === undefined) this.#sweep();
      },
    });
    if (speculativeTtl > 0) this.#speculation = new Speculation(this.index, clock, tiers.speculative, speculativeTtl);
    this.feed = new EventFeed({
      ...{ clock, sockets, announcements: this.#announcements, settings: feedSettings(parameters) },
      onFault: (source, fault, error) => this.#faulty(source, fault, error),
    });
    if (logInterval > 0) this.#reportEvery(logInterval);
  }

  produce(context: ProduceContext): void {
    const { request, candidates } = context;
    const { endpoints, count } = candidates;
    const tokenized = context.attribute(TOKENIZED_PROMPT);
    this.#last = undefined;
    const matched = candidates.column(PREFIX_MATCHED_BLOCKS);
    const cached = candidates.column(PREFIX_CACHED_BLOCKS);
    const unconfirmed = candidates.column(PREFIX_UNCONFIRMED_BLOCKS);
    const { blockTokens } = this.settings;
    candidates.column(PREFIX_BLOCK_TOKENS).fill(blockTokens, 0, count);
    matched.fill(0, 0, count);
    cached.fill(0, 0, count);
    unconfirmed.fill(0, 0, count);
    // Text packed into numbers is not what the engine hashes.
    if (tokenized === undefined || tokenized.units !== undefined) {
      candidates.column(PREFIX_TOTAL_BLOCKS).fill(0, 0, count);
      this.#withoutTokens();
      return;
    }
    const prompt = { tokenized, model: request.targetModel, cacheSalt: request.cacheSalt };
    this.#last = { request, prompt, keys: undefined };
    this.#speculation?.expire();
    const started = this.onLookup === undefined ? 0 : this.#clock.now();
    const out = { weighted: matched, blocks: cached, confirmed: unconfirmed };
    const most = this.#match.match(prompt, this.#sizes(), endpoints, count, out);
    this.onLookup?.((this.#clock.now() - started) / 1000);
    for (let i = 0; i < count; i++) {
      matched[i] = wholeBlocks(matched[i]!, blockTokens);
      cached[i] = wholeBlocks(cached[i]!, blockTokens);
      unconfirmed[i] = cached[i]! - wholeBlocks(unconfirmed[i]!, blockTokens);
    }
    candidates.column(PREFIX_TOTAL_BLOCKS).fill(blocksOf(tokenized, blockTokens), 0, count);
    this.counts.lookups++;
    if (most > 0) this.counts.hits++;
    this.counts.maxHits += Math.floor(most / blockTokens);
  }

  routed(request: InferenceRequest, endpoint: Endpoint, others: ReadonlyMap<string, Endpoint>): void {
    const speculation = this.#speculation;
    const keys = this.#expectedOf(request);
    this.#last = undefined;
    if (speculation === undefined || keys === undefined) return;
    speculation.expect(endpoint.slot, keys);
    const prefill = others.get(PREFILL_PROFILE);
    if (prefill !== undefined && prefill.slot !== endpoint.slot) speculation.expect(prefill.slot, keys);
  }

  refused(): void {
    this.#last = undefined;
  }

  follow(request: InferenceRequest): ((served: Endpoint) => void) | undefined {
    const speculation = this.#speculation;
    const keys = this.#expectedOf(request);
    if (speculation === undefined || keys === undefined) return undefined;
    return (served) => speculation.expect(served.slot, keys);
  }

  endpointAdded(endpoint: Endpoint): void {
    this.feed.add(endpoint);
  }

  endpointRemoved(endpoint: Endpoint): void {
    this.feed.remove(endpoint);
    this.#speculation?.forget(endpoint.slot);
  }

  close(): void {
    this.feed.close();
    this.#sweeper?.cancel();
    this.#reporter?.cancel();
  }

  /** Returns publishers, the busiest first, and the size of the index (scheduling 9.2). */
  debugState(): unknown {
    const states = this.feed.states().sort((a, b) => b.messages - a.messages || (a.pod < b.pod ? -1 : 1));
    return {
      blockSizeTokens: this.settings.blockTokens,
      engineBlockSizes: this.#announcements.blockSizes,
      pairs: this.index.size,
      maxPairs: this.settings.maxPairs,
      bytes: this.index.bytes,
      speculativeIndexing: this.#speculation !== undefined,
      totalSpeculativeEntries: this.#speculation?.requests ?? 0,
      subscribers: states.slice(0, MAX_SHOWN).map(shownState),
      totalSubscribers: states.length,
      maxSubscribers: MAX_SHOWN,
      skipped: [...this.counts.skips()].map(({ what, kind, reason, count }) => ({ what, kind, reason, count })),
    };
  }

  /** The sizes at which a prompt is looked up; expected blocks have the size of matches. */
  #sizes(): readonly number[] {
    const sizes = this.#announcements.blockSizes;
    const own = this.#expectedSize();
    return this.#speculation === undefined || sizes.includes(own) ? sizes : [...sizes, own];
  }

  /** Blocks are expected in the size that the engines use, if there is only one. */
  #expectedSize(): number {
    const sizes = this.#announcements.blockSizes;
    return sizes.length === 1 ? sizes[0]! : this.settings.blockTokens;
  }

  /** The keys of the blocks that the last request brings, made once for `follow` and `routed`; undefined = none are expected. */
  #expectedOf(request: InferenceRequest): Int32Array | undefined {
    const last = this.#last;
    if (this.#speculation === undefined || last?.request !== request) return undefined;
    last.keys ??= this.#keysOf(last.prompt);
    return last.keys;
  }

  #keysOf(prompt: HashedPrompt): Int32Array {
    const size = this.#expectedSize();
    const keys = new Int32Array(2 * Math.min(EXPECTED_BLOCKS, blocksOf(prompt.tokenized, size)));
    let at = 0;
    this.#match.keys(prompt, size, EXPECTED_BLOCKS, (low, high) => {
      keys[at++] = low;
      keys[at++] = high;
    });
    return keys;
  }

  #withoutTokens(): void {
    if (this.index.size === 0) return;
    this.#rare.log(
      "warn",
      "kv-events-no-tokens",
      {},
      "requests have no tokens, so KV-cache events do not match them; give token-producer a tokenizer",
    );
  }

  #faulty(source: string, fault: SocketFault, error: unknown): void {
    this.#rare.log(
      "warn",
      `kv-events-${fault}-${source}`,
      { endpoint: source, fault, ...(error instanceof Error ? { err: error } : {}) },
      "KV-cache events of an endpoint are not complete",
    );
  }

  /** Frees the memory of what engines have forgotten, a little at a time. */
  #sweep(): void {
    this.#sweeper = this.index.sweep(SWEEP_PAIRS) ? this.#clock.after(SWEEP_MS, () => this.#sweep(), true) : undefined;
  }

  #reportEvery(interval: number): void {
    this.#reporter = this.#clock.after(
      interval,
      () => {
        const { admissions, evictions, lookups, hits } = this.counts;
        const { size, bytes } = this.index;
        this.#log.info({ admissions, evictions, lookups, hits, pairs: size, bytes }, "KV-cache events");
        this.#reportEvery(interval);
      },
      true,
    );
  }
}

function shownState({ faults, ...state }: PublisherState): unknown {
  return { ...state, faults: Object.fromEntries(faults) };
}

/** The weights of tiers are not whole, so a sum of 0.8 may end just below a whole number. */
function wholeBlocks(tokens: number, blockTokens: number): number {
  return Math.floor(tokens / blockTokens + 1e-9);
}

function blocksOf({ prompts }: TokenizedPrompt, blockTokens: number): number {
  let blocks = 0;
  for (const { start, end } of prompts) blocks += Math.floor((end - start) / 4 / blockTokens);
  return blocks;
}
